// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine's own network is the same before and after a run that does everything. Programs
//! inside are refused with a clear message whatever they may not have of it.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use common::{User, has, output, script, script_and_weir, script_with, text, users, works};

/// Reads all settings below a directory except those that the kernel changes on its own.
fn settings(dir: &Path, out: &mut String) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(dir)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            settings(&path, out)?;
        } else if !matches!(
            path.file_name().and_then(|name| name.to_str()),
            Some("nf_conntrack_count" | "flush" | "stat_refresh")
        ) {
            let value = fs::read(&path).unwrap_or_default();
            writeln!(out, "{} {}", path.display(), text(&value)).unwrap();
        }
    }
    Ok(())
}

/// Returns the machine's network state as text.
fn snapshot() -> String {
    let mut found = String::new();
    for command in [
        &["ip", "-d", "-o", "link"][..],
        &["ip", "-o", "address"],
        &["ip", "route", "show", "table", "all"],
        &["ip", "-6", "route", "show", "table", "all"],
        &["ip", "rule"],
        &["ip", "-6", "rule"],
        &["ip", "neigh", "show", "nud", "permanent"],
        &["ip", "netns", "list-id"],
        &["tc", "qdisc"],
        &["tc", "actions", "list", "action", "gact"],
        &["ls", "-la", "/run/netns"],
        &["readlink", "/proc/self/ns/net"],
    ] {
        let mut run = common::command(User::Own, command[0]);
        let output = output(run.args(&command[1..]));
        writeln!(found, "{command:?}\n{}", text(&output.stdout)).unwrap();
    }
    settings(Path::new("/proc/sys/net"), &mut found).unwrap();
    found
}

/// Removes values that change on their own: address lifetimes, and the effects of the machine's
/// other programs.
fn steady(text: &str) -> Vec<String> {
    let lived = |line: &str| {
        line.split_whitespace()
            .map(|word| if word.ends_with("sec") { "SEC" } else { word })
            .collect::<Vec<_>>()
            .join(" ")
    };
    text.lines().map(lived).collect()
}

const EVERYTHING: &str = r#"set -e
ip link set lo up
ip link add d0 type dummy
ip link add v0 type veth peer name v1
ip link add i0 type ifb
ip link add link d0 name d0.5 type vlan id 5
ip link set d0 up
ip link set v0 up
ip link property add dev d0 altname other
ip addr add 10.77.0.1/24 dev d0
ip addr add 2001:db8:77::1/64 dev d0
ip route add 10.78.0.0/16 via 10.77.0.2
ip route add blackhole 10.79.0.0/16 table 77
ip -6 route add 2001:db8:78::/48 via 2001:db8:77::2
ip rule add from 10.78.0.0/16 lookup 77
ip neigh add 10.77.0.9 lladdr 02:00:00:00:00:09 dev d0
ip netns add weir-test-inside
ip netns set weir-test-inside 77
ip link set v1 netns weir-test-inside
ip netns exec weir-test-inside sysctl -q -w net.ipv4.ip_forward=1
sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=2
echo 77 >/proc/sys/net/ipv4/ip_default_ttl
tc qdisc add dev d0 clsact
tc filter add dev d0 ingress matchall action drop
tc actions add action drop index 77
tc qdisc add dev v0 root pfifo limit 7
unshare -n ip link add z0 type dummy
ip -all netns exec ip link set lo up
"#;

#[test]
fn untouched_by_a_run_that_does_everything() {
    for user in users() {
        let before = snapshot();
        works(*user, EVERYTHING);
        // The same undone inside, and a script that fails halfway.
        works(
            *user,
            &format!(
                "{EVERYTHING}\nip netns del weir-test-inside; ip link del d0; ip -all netns del"
            ),
        );
        let (_, status) = script(*user, &format!("{EVERYTHING}\nexit 3"));
        assert_eq!(status, 3);
        let after = snapshot();
        let (before, after) = (steady(&before), steady(&after));
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after, "the machine's own network changed");
        }
        assert_eq!(before.len(), after.len());
    }
}

#[test]
fn the_host_network_is_invisible_inside() {
    for user in users() {
        let printed = works(
            *user,
            "ip -br link | cut -d' ' -f1; ip route; ip netns; ls /sys/class/net; ls /proc/sys/net/ipv4/conf; ls /run/netns 2>/dev/null; true",
        );
        assert_eq!(printed, "lo\nlo\nall\ndefault\nlo\n", "{user:?}");
        // A process outside (this one) gives no access either, regardless of how its files are
        // named.
        let pid = std::process::id();
        let (printed, said, _) = script_and_weir(
            *user,
            &format!(
                "cat /proc/{pid}/net/dev; cat /proc/{pid}/task/{pid}/net/route; cd /proc/{pid}; cat net/dev;
                 ls /proc/{pid}/net; wc -l </proc/self/net/dev; wc -l </proc/thread-self/net/dev"
            ),
        );
        assert_eq!(printed.matches("Permission denied").count(), 4, "{printed}");
        assert!(printed.ends_with("\n3\n3\n"), "{user:?}: {printed}");
        assert!(
            said.contains("it shows the host's network"),
            "{user:?}: {said}"
        );
    }
}

const SOCKETS: &str = r#"ip link set lo up
python3 - $PORT <<'X'
import socket, errno, sys
port = int(sys.argv[1])
for family, kind, address in [
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)),
    (socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80)),
    (socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53)),
    (socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 80)),
    (socket.AF_INET, socket.SOCK_RAW, ("127.0.0.1", 9)),
    (socket.AF_VSOCK, socket.SOCK_STREAM, (2, 9)),
]:
    for what in ("connect", "bind"):
        try:
            with socket.socket(family, kind) as s:
                getattr(s, what)(address)
            print("OPEN", end=" ")
        except OSError as error:
            print(errno.errorcode[error.errno], end=" ")
print()
X"#;

#[test]
fn sockets_reach_the_stack_and_never_the_host() {
    if !has("python3", "python3") {
        return;
    }
    // The host listens on this port. The stack does not, so it is free there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for user in users() {
        let (printed, said, _) = script_and_weir(*user, &format!("PORT={port}\n{SOCKETS}"));
        let expected = "ECONNREFUSED OPEN ENETUNREACH EADDRNOTAVAIL ENETUNREACH EADDRNOTAVAIL \
            ENETUNREACH EADDRNOTAVAIL EPROTONOSUPPORT EPROTONOSUPPORT EAFNOSUPPORT EAFNOSUPPORT \n";
        assert_eq!(printed, expected, "{user:?}");
        assert!(
            said.contains("XDP and vsock sockets are not served"),
            "{user:?}: {said}"
        );
        // With --host-network the socket is the machine's.
        let (printed, status) = script_with(
            *user,
            &["--host-network"],
            "ip link add d0 type dummy && python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind((\"127.0.0.1\", 0))'",
        );
        assert_eq!((printed.as_str(), status), ("", 0), "{user:?}");
    }
}

/// Programs that ask for what the stack does not have print their own message, and Weir prints once which function is
/// missing and what replaces it.
#[test]
fn programs_that_are_refused_print_one_message() {
    const NETFILTER: &str = "the stack has no tables of netfilter: no nft, iptables or ipset; \
        tc filters can drop and change packets, and tc's ct tracks connections\n";
    // Program, package, command, Weir's message, and a part of the program's own message.
    let programs = [
        (
            "nft",
            "nftables",
            "nft list ruleset",
            NETFILTER,
            "Invalid argument",
        ),
        (
            "iptables",
            "iptables",
            "iptables -L",
            NETFILTER,
            "Invalid argument",
        ),
        (
            "iptables-legacy",
            "iptables",
            "XTABLES_LOCKFILE=/dev/null iptables-legacy -L",
            NETFILTER,
            "Table does not exist",
        ),
        (
            "devlink",
            "iproute2",
            "devlink dev",
            "the stack does not serve the generic netlink family devlink\n",
            "Failed to connect to devlink Netlink",
        ),
    ];
    for (program, package, command, sentence, word) in programs {
        if !has(program, package) {
            continue;
        }
        for user in users() {
            let script = format!(
                "ip link add d0 type dummy
                ip addr add 10.0.0.1/24 dev d0
                ip link set d0 up
                {command}
                true"
            );
            let (printed, said, _) = script_and_weir(*user, &script);
            assert_eq!(
                said,
                format!("weir: {program}: {sentence}"),
                "{user:?}: {command}"
            );
            assert!(printed.contains(word), "{user:?}: {command}: {printed}");
        }
    }
}

#[test]
fn a_namespace_of_the_machine_is_refused() {
    for user in users() {
        // A process of the machine is in no namespace of Weir.
        let (printed, status) = script(
            *user,
            &format!(
                "ip link add d0 type dummy && ip link set d0 netns {}",
                std::process::id()
            ),
        );
        assert_eq!(
            (printed.as_str(), status),
            ("RTNETLINK answers: No such process\n", 2)
        );
    }
}

/// Calls by number, and files opened for writing, with the result of each.
const BEYOND: &str = r#"python3 - <<'X'
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for name, number, arguments in [
    ("init_module", 175, (0, 0, b"")), ("finit_module", 313, (-1, b"", 0)), ("delete_module", 176, (b"x", 0)),
    ("kexec_load", 246, (0, 0, 0, 0)), ("reboot", 169, (0, 0, 0, 0)), ("bpf", 321, (0, 0, 0)),
    ("perf_event_open", 298, (0, 0, -1, -1, 0)), ("keyctl", 250, (0, -3, 0)), ("add_key", 248, (0, 0, 0, 0, 0)),
    ("clock_settime", 227, (0, 0)), ("sethostname", 170, (b"x", 1)), ("swapon", 167, (b"/x", 0)),
    ("io_uring_setup", 425, (1, 0)), ("fsopen", 430, (b"tmpfs", 0)), ("a later call", 470, ()),
    ("getpid by x32", 0x40000000 + 39, ()),
]:
    done = libc.syscall(number, *arguments)
    print(name, "done" if done >= 0 else errno.errorcode[ctypes.get_errno()])
for path in ["/proc/sys/vm/swappiness", "/proc/sys/kernel/hostname", "/sys/kernel/profiling"]:
    try:
        os.close(os.open(path, os.O_WRONLY))
        print(path, "opened")
    except OSError as error:
        print(path, errno.errorcode[error.errno])
X"#;

#[test]
#[cfg(target_arch = "x86_64")]
fn the_kernel_of_the_host_is_out_of_reach() {
    let wanted = "init_module EPERM\nfinit_module EPERM\ndelete_module EPERM\nkexec_load EPERM\nreboot EPERM\n\
        bpf EPERM\nperf_event_open EACCES\nkeyctl EPERM\nadd_key EPERM\nclock_settime EPERM\n\
        sethostname EPERM\nswapon EPERM\nio_uring_setup ENOSYS\nfsopen ENOSYS\na later call ENOSYS\n\
        getpid by x32 ENOSYS\n/proc/sys/vm/swappiness EROFS\n/proc/sys/kernel/hostname EROFS\n\
        /sys/kernel/profiling EROFS\n";
    for user in users() {
        for mode in ["auto", "paths"] {
            let (printed, status) = script_with(*user, &["--mode", mode], BEYOND);
            let printed: String = printed
                .lines()
                .filter(|line| !line.starts_with("weir: "))
                .map(|line| format!("{line}\n"))
                .collect();
            assert_eq!(
                (printed.as_str(), status),
                (wanted, 0),
                "{user:?}, mode {mode}"
            );
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn calls_of_32_bit_programs_do_not_exist() {
    // getpid by int 0x80, in executable memory: mov eax, 20; int 0x80; ret.
    let code = r#"python3 - <<'X'
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
at = ctypes.addressof(ctypes.c_char.from_buffer(page))
print(ctypes.CFUNCTYPE(ctypes.c_int)(at)())
X"#;
    for user in users() {
        assert_eq!(works(*user, code), "-38\n", "{user:?}: ENOSYS");
    }
}

#[test]
fn a_client_is_in_an_empty_network_namespace_of_the_kernel() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::Stdio;
    for user in users() {
        for (args, own) in [(&[][..], true), (&["--host-network"][..], false)] {
            let mut command = common::weir(*user, &["run", "--quiet", "--mode", "user"]);
            command
                .args(args)
                .args(["--", "sh", "-c", "echo $$; read x"]);
            let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut child = child.unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap())
                .read_line(&mut line)
                .unwrap();
            // The devices of its kernel namespace, seen from outside.
            let devices = fs::read_to_string(format!("/proc/{}/net/dev", line.trim()));
            let here = fs::read_to_string("/proc/self/net/dev").unwrap();
            let names = |text: &str| -> Vec<String> {
                let names = text.lines().filter_map(|line| line.split_once(':'));
                names.map(|(name, _)| name.trim().to_owned()).collect()
            };
            let seen = names(&devices.unwrap());
            child.stdin.take().unwrap().write_all(b"\n").unwrap();
            child.wait().unwrap();
            // The kernel may put its own tunnel devices into each namespace; none is a network card
            // of the host.
            let inode = seen == names(&here);
            if own {
                assert!(
                    seen.contains(&"lo".to_owned()) && !inode,
                    "{user:?}: {seen:?}"
                );
            } else {
                assert!(inode, "{user:?}: {seen:?}");
            }
        }
    }
}

#[test]
fn root_mounts_in_namespaces_of_its_own_only() {
    let folder = common::Folder::new();
    let at = folder.0.display();
    let script = format!(
        "mount -t tmpfs none {at} || echo refused; unshare -m mount -t tmpfs none {at} && echo own
        unshare -u sh -c 'hostname inner && hostname'; nsenter -t {} -m true || echo outside",
        std::process::id()
    );
    // An ordinary user cannot mount on the host anyway.
    if fs::metadata("/proc/self").is_ok_and(|data| std::os::unix::fs::MetadataExt::uid(&data) != 0)
    {
        return;
    }
    let (printed, _) = script_with(User::Own, &["--mode", "paths"], &script);
    for line in ["refused", "own", "inner", "outside"] {
        assert!(printed.lines().any(|l| l == line), "{line}: {printed}");
    }
    assert!(
        !fs::read_to_string("/proc/mounts")
            .unwrap()
            .contains(&at.to_string())
    );
}
