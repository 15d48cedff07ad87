// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs in `socket-calls/` print the same under Weir as on Linux 6.1, for each user, in real and in virtual time.
//! `record` there recorded the expectations.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::path::Path;

use common::{User, has, script_and_weir, script_with, users};

/// Runs a program of `socket-calls/`. Returns what it prints.
#[track_caller]
fn run(user: User, options: &[&str], name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/socket-calls");
    // Weir says on standard error what it does not serve.
    let script = format!(
        "ip link set lo up; python3 {}/{name}.py 2>/dev/null",
        folder.display()
    );
    let (printed, status) = script_with(user, options, &script);
    assert_eq!(status, 0, "{user:?} {options:?}: {printed}");
    printed
}

#[track_caller]
fn same_as_linux(name: &str) {
    if !has("python3", "python3") {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/socket-calls");
    let expected = std::fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap();
    for &user in users() {
        for options in [&["--real-time"][..], &[]] {
            assert_eq!(run(user, options, name), expected, "{user:?} {options:?}");
        }
    }
}

/// Datagram sockets that a program has by `dup2` or `SCM_RIGHTS`: as inetd starts a server, as bash opens `/dev/udp`, and
/// passed to another process.
#[test]
fn datagram_sockets_at_numbers_of_the_programs() {
    same_as_linux("plain");
}

#[test]
fn files_are_sent_as_datagrams() {
    same_as_linux("files");
}

/// `poll`, receives and sends that stop, on streams without a connection. Calls that do not stop are left out.
#[test]
fn streams_without_a_connection() {
    same_as_linux("unconnected");
}

#[test]
fn values_of_options_are_limited() {
    same_as_linux("options");
}

/// A number at which the calls on messages do not stop is refused for a socket without a peer. On Linux it is not.
#[test]
fn a_number_without_addresses_is_refused() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"ip link set lo up; python3 -c '
import errno, fcntl, os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0))
for number in 7, 511:
    try: print(os.dup2(s.fileno(), number))
    except OSError as error: print(errno.errorcode[error.errno])
    try: os.fstat(number)
    except OSError as error: print(errno.errorcode[error.errno])
print(os.dup2(s.fileno(), 600), socket.socket(fileno=600).getsockname() == s.getsockname())
s.connect(s.getsockname()); print(os.dup2(s.fileno(), 7)); os.write(7, b"x"); os.write(7, b"x"); print(os.read(7, 9), s.recvmsg(9, 9)[:3])
'"#;
    let expected = "ENOTSUP\nEBADF\nENOTSUP\nEBADF\n600 True\n7\nb'x' (b'x', [], 0)\n";
    for &user in users() {
        let (printed, said, status) = script_and_weir(user, script);
        assert_eq!((printed.as_str(), status), (expected, 0), "{user:?}");
        assert!(
            said.contains("python3: dup2 of a datagram socket without a peer"),
            "{said}"
        );
    }
}
