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

/// In both directions. Over IPv6 at most a page, because Linux has sent a longer pipe as one datagram only since 6.5.
#[test]
fn pipes_are_spliced_with_datagram_sockets() {
    same_as_linux("splice");
}

/// `ip vrf exec`, `identify` and `pids`, and the cgroups behind them.
#[test]
fn processes_in_a_vrf() {
    if has("ping", "iputils-ping") {
        same_as_linux("vrf");
    }
}

/// Groups in VRFs: members, deliveries, sends and the loop back of sockets that are bound to VRFs and to their ports.
#[test]
fn groups_in_a_vrf() {
    same_as_linux("vrf-groups");
}

/// `TCP_INQ`
#[test]
fn receives_tell_what_is_left() {
    same_as_linux("counted");
}

/// Messages at numbers from 3, by `dup2` and `SCM_RIGHTS`: their addresses and control messages.
#[test]
fn messages_at_numbers_of_the_programs() {
    same_as_linux("messages");
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

/// A `write` at a number at which it does not stop has no result but that it is done. The user is told that it is lost.
#[test]
fn data_without_a_peer_are_told_of() {
    if !has("python3", "python3") {
        return;
    }
    let script = r#"ip link set lo up; python3 -c '
import os, socket, time
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); to.bind(("127.0.0.1", 0)); to.settimeout(9)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0))
for number in 7, 511: print(os.dup2(s.fileno(), number))
s.close()
s = socket.socket(fileno=7)
print(os.write(511, b"lost"), s.sendmsg([b"sent"], [], 0, to.getsockname()), to.recv(9))
s.connect(to.getsockname()); os.write(511, b"x"); print(to.recvfrom(9) == (b"x", s.getsockname()))
print(os.dup2(s.fileno(), 600), socket.socket(fileno=600).getsockname() == s.getsockname())
time.sleep(0.1)
'"#;
    let expected = "7\n511\n4 4 b'sent'\nTrue\n600 True\n";
    for &user in users() {
        let (printed, said, status) = script_and_weir(user, script);
        assert_eq!(
            (printed.as_str(), status),
            (expected, 0),
            "{user:?}: {said}"
        );
        let told = said.matches("is lost, because the socket is not connected");
        assert_eq!(told.count(), 1, "{said}");
    }
}
