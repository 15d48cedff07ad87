// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the filter program as the kernel would.
use super::*;

/// Interprets the program as the kernel would.
fn run(program: &[libc::sock_filter], arch: u32, nr: u32, args: [u64; 6]) -> u32 {
    let mut data = Vec::new();
    data.extend(nr.to_ne_bytes());
    data.extend(arch.to_ne_bytes());
    data.extend([0; 8]);
    args.iter().for_each(|a| data.extend(a.to_ne_bytes()));
    let (mut at, mut a) = (0, 0u32);
    loop {
        let i = &program[at];
        at += 1;
        let code = u32::from(i.code);
        let taken = match code {
            LOAD => {
                let k = i.k as usize;
                a = u32::from_ne_bytes(data[k..k + 4].try_into().unwrap());
                continue;
            }
            RETURN => return i.k,
            EQ => a == i.k,
            GE => a >= i.k,
            GT => a > i.k,
            SET => a & i.k != 0,
            _ => panic!("code {code:#x}"),
        };
        at += usize::from(if taken { i.jt } else { i.jf });
    }
}

/// Returns the answers that the filter may give to a call for any arguments. A rule without
/// conditions decides alone.
#[cfg(target_arch = "x86_64")]
fn answers(options: Options, call: u32) -> std::collections::BTreeSet<u32> {
    let of_call = RULES
        .iter()
        .filter(|rule| options.wants(rule.0) && rule.1 as u32 == call);
    let mut found = std::collections::BTreeSet::new();
    for (_, _, tests, then) in of_call {
        found.insert(match then {
            Notify => NOTIFY,
            Fail(errno) => fail_with(*errno),
        });
        if tests.is_empty() {
            return found;
        }
    }
    found.insert(ALLOW);
    found
}

#[test]
#[cfg(target_arch = "x86_64")]
fn every_call_is_listed_and_treated_as_listed() {
    use calls::Fate::*;
    let mode_u_limit = Options {
        limit_carrier: true,
        ..MODE_U
    };
    let own_users = Options {
        own_users: true,
        ..MODE_U
    };
    let own_clock = Options {
        own_clock: true,
        ..MODE_U
    };
    let mut seen = std::collections::BTreeMap::new();
    for group in calls::GROUPS {
        assert!(group.why.ends_with('.') && group.why.len() > 7);
        for &(name, number) in group.calls {
            assert!(number <= calls::LAST, "{name}");
            assert_eq!(seen.insert(number, name), None, "{name} stands twice");
            let [u, limit, a] =
                [MODE_U, mode_u_limit, MODE_A].map(|options| answers(options, number));
            let refused = |errno| [fail_with(errno)].into();
            let as_told = match group.fate {
                Through => u == [ALLOW].into() && limit == u && a == u,
                Stops => [&u, &limit, &a].iter().all(|found| found.contains(&NOTIFY)),
                StopsInPathMode => u == [ALLOW].into() && a == [NOTIFY].into(),
                StopsByClock => {
                    let own = answers(own_clock, number);
                    u == [ALLOW].into() && a == u && own.contains(&NOTIFY)
                }
                StopsByCarrier => {
                    [&u, &limit].iter().any(|found| found.contains(&NOTIFY))
                        && [&u, &limit].iter().any(|found| **found == [ALLOW].into())
                }
                Ignored => {
                    let own = answers(own_users, number);
                    u == [ALLOW].into() && a == u && own == refused(0)
                }
                Refused => u == a && (u == refused(libc::EPERM) || u == refused(libc::EACCES)),
                Absent => u == a && u == refused(libc::ENOSYS),
            };
            assert!(
                as_told,
                "{name} is not {:?}: {u:x?} {limit:x?} {a:x?}",
                group.fate
            );
        }
    }
    // The numbers between the old calls and the new ones are unassigned.
    let known: Vec<u32> = (0..=calls::LAST)
        .filter(|n| !(336..424).contains(n))
        .collect();
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), known);
    let program = build(MODE_U);
    let beyond = run(&program, ARCH, calls::LAST + 1, [0; 6]);
    assert_eq!(beyond, fail_with(libc::ENOSYS));
}

/// Compares with the kernel's own list, if its headers are installed.
#[test]
#[cfg(target_arch = "x86_64")]
fn names_and_numbers_are_the_kernels() {
    let Ok(header) = std::fs::read_to_string("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    else {
        println!("skipped: no asm/unistd_64.h here (Debian package linux-libc-dev)");
        return;
    };
    let ours: std::collections::BTreeMap<_, _> = calls::GROUPS
        .iter()
        .flat_map(|group| group.calls.iter().copied())
        .collect();
    let define = |line: &str| {
        let (name, number) = line.strip_prefix("#define __NR_")?.split_once(' ')?;
        Some((name.to_owned(), number.trim().parse::<u32>().ok()?))
    };
    let theirs: Vec<_> = header.lines().filter_map(define).collect();
    assert!(theirs.len() > 300);
    for (name, number) in theirs.iter().filter(|(_, number)| *number <= calls::LAST) {
        assert_eq!(ours.get(name.as_str()), Some(number), "{name}");
    }
}

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;
const MODE_U: Options = Options {
    host_network: false,
    path_traps: false,
    limit_carrier: false,
    own_clock: false,
    own_users: false,
};
const MODE_A: Options = Options {
    host_network: false,
    path_traps: true,
    limit_carrier: true,
    own_clock: false,
    own_users: false,
};

fn ask(options: Options, call: c_long, args: [u64; 6]) -> u32 {
    run(&build(options), ARCH, call as u32, args)
}

#[test]
fn foreign_calls_do_not_exist() {
    let program = build(MODE_U);
    let enosys = fail_with(libc::ENOSYS);
    assert_eq!(run(&program, 0x4000_0003, 5, [0; 6]), enosys);
    #[cfg(target_arch = "x86_64")]
    assert_eq!(run(&program, ARCH, X32_BIT | 1, [0; 6]), enosys);
    assert_eq!(ask(MODE_U, libc::SYS_io_uring_setup, [0; 6]), enosys);
    assert_eq!(ask(MODE_U, libc::SYS_clone3, [0; 6]), enosys);
    assert_eq!(ask(MODE_U, libc::SYS_getppid, [0; 6]), ALLOW);
}

#[test]
fn sockets_by_family() {
    let socket =
        |options, family: i32| ask(options, libc::SYS_socket, [family as u64, 3, 0, 0, 0, 0]);
    assert_eq!(socket(MODE_U, libc::AF_NETLINK), NOTIFY);
    assert_eq!(socket(MODE_U, libc::AF_UNIX), ALLOW);
    assert_eq!(socket(MODE_U, libc::AF_INET6), NOTIFY);
    let host = Options {
        host_network: true,
        ..MODE_U
    };
    assert_eq!(socket(host, libc::AF_INET6), ALLOW);
    assert_eq!(socket(host, libc::AF_NETLINK), NOTIFY);
}

#[test]
fn arguments_are_compared() {
    let w = libc::SYS_write;
    assert_eq!(ask(MODE_U, w, [960, 0, 9999, 0, 0, 0]), NOTIFY);
    assert_eq!(ask(MODE_U, w, [992, 0, 1, 0, 0, 0]), ALLOW);
    assert_eq!(ask(MODE_U, w, [1, 0, 2, 0, 0, 0]), NOTIFY);
    assert_eq!(ask(MODE_U, w, [1, 0, 129, 0, 0, 0]), ALLOW);
    assert_eq!(ask(MODE_U, w, [2, 0, 2, 0, 0, 0]), ALLOW);
    let r = libc::SYS_recvfrom;
    assert_eq!(ask(MODE_U, r, [3, 1, 1, 0, 0, 0]), ALLOW);
    assert_eq!(ask(MODE_U, r, [3, 1, 1, 0, 1 << 40, 1]), NOTIFY);
    assert_eq!(ask(MODE_U, r, [3, 1, 1, 0, 1, 1]), NOTIFY);
    assert_eq!(ask(MODE_U, r, [3, 1, 1, 0x40, 0, 0]), NOTIFY);
    assert_eq!(ask(MODE_U, r, [3, 1, 1, 0x2000, 0, 0]), NOTIFY);
    let traffic = u64::from(TRAFFIC_FDS.start);
    for call in [r, libc::SYS_sendto, w] {
        assert_eq!(ask(MODE_U, call, [traffic, 0, 0x70f, 0, 0, 0]), NOTIFY);
        assert_eq!(ask(MODE_U, call, [3, 0, 0x70f, 0, 0, 0]), ALLOW);
    }
    let host = Options {
        host_network: true,
        ..MODE_U
    };
    let messages = [
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
    ];
    for call in messages {
        for fd in [0, 3, 511, 576, 1023, 1 << 20, u32::MAX.into()] {
            assert_eq!(ask(MODE_U, call, [fd, 1, 0, 0, 0, 0]), NOTIFY, "{fd}");
        }
        for fd in [QUICK_FDS.start, QUICK_FDS.end - 1] {
            assert_eq!(ask(MODE_U, call, [fd.into(), 1, 0, 0, 0, 0]), ALLOW, "{fd}");
        }
        assert_eq!(ask(host, call, [3, 1, 0, 0, 0, 0]), ALLOW);
        assert_eq!(ask(host, call, [traffic, 1, 0, 0, 0, 0]), NOTIFY);
    }
    let unseen = u64::from(UNSEEN);
    let listener = [3, 1, unseen, 0, 0, 0];
    assert_eq!(ask(MODE_U, libc::SYS_sendmsg, listener), ALLOW);
    for fd in [SOCKET_FDS.start, SOCKET_FDS.end - 1, HIGH_FDS.start] {
        let fd = u64::from(fd);
        for args in [[fd, 0, 3, 0, 9, 0], [3, 0, fd, 0, 9, 0]] {
            assert_eq!(ask(MODE_U, libc::SYS_splice, args), NOTIFY, "{fd}");
            assert_eq!(ask(host, libc::SYS_splice, args), ALLOW, "{fd}");
        }
    }
    let elsewhere = [3, 0, 4, 0, 9, 0];
    assert_eq!(ask(MODE_U, libc::SYS_splice, elsewhere), ALLOW);
    for count in [0, 1, 256, 257] {
        let stops = (1..=256).contains(&count);
        let expected = if stops { NOTIFY } else { ALLOW };
        assert_eq!(
            ask(MODE_U, libc::SYS_ppoll, [8, count, 0, 0, 0, 0]),
            expected
        );
    }
    let g = libc::SYS_getsockopt;
    assert_eq!(ask(MODE_U, g, [3, 270, 1, 0, 0, 0]), NOTIFY);
    assert_eq!(ask(MODE_U, g, [3, 1, 3, 0, 0, 0]), NOTIFY);
    assert_eq!(ask(MODE_U, g, [3, 1, 39, 0, 0, 0]), NOTIFY);
    assert_eq!(ask(MODE_U, g, [3, 1, 8, 0, 0, 0]), NOTIFY);
    assert_eq!(ask(host, g, [3, 1, 8, 0, 0, 0]), ALLOW);
    for fd in [SOCKET_FDS.start, HIGH_FDS.start, HIGH_FDS.end - 1] {
        let fd = u64::from(fd);
        for call in [r, libc::SYS_sendto, libc::SYS_recvmmsg, libc::SYS_read, w] {
            assert_eq!(ask(MODE_U, call, [fd, 0, 9999, 0, 0, 0]), NOTIFY);
        }
        for (command, stops) in [(libc::F_DUPFD, NOTIFY), (libc::F_GETFL, ALLOW)] {
            let args = [fd, command as u64, 0, 0, 0, 0];
            assert_eq!(ask(MODE_U, libc::SYS_fcntl, args), stops);
        }
        assert_eq!(ask(host, libc::SYS_read, [fd, 0, 9999, 0, 0, 0]), ALLOW);
    }
    assert_eq!(
        ask(MODE_U, libc::SYS_newfstatat, [3, 0, 0, 0x1000, 0, 0]),
        ALLOW
    );
    assert_eq!(
        ask(MODE_U, libc::SYS_newfstatat, [3, 0, 0, 0, 0, 0]),
        NOTIFY
    );
}

#[test]
fn modes_differ() {
    let calls = [libc::SYS_renameat, libc::SYS_exit_group];
    for call in calls {
        assert_eq!(ask(MODE_U, call, [0; 6]), ALLOW);
        assert_eq!(ask(MODE_A, call, [0; 6]), NOTIFY);
    }
    let unshare = |o, flags: i32| ask(o, libc::SYS_unshare, [flags as u64, 0, 0, 0, 0, 0]);
    assert_eq!(unshare(MODE_U, libc::CLONE_NEWNS), ALLOW);
    assert_eq!(unshare(MODE_A, libc::CLONE_NEWNS), NOTIFY);
    assert_eq!(unshare(MODE_U, libc::CLONE_NEWNET), NOTIFY);
}

#[test]
fn timed_waits_stop_under_a_clock_of_its_own() {
    let own = Options {
        own_clock: true,
        ..MODE_U
    };
    let wait = libc::FUTEX_WAIT as u64;
    let wake = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64;
    for (call, args, stops) in [
        (libc::SYS_nanosleep, [1, 0, 0, 0, 0, 0], true),
        (libc::SYS_clock_nanosleep, [1, 1, 1, 0, 0, 0], true),
        (libc::SYS_ppoll, [1, 999, 1, 0, 0, 0], true),
        (libc::SYS_ppoll, [1, 999, 0, 0, 0, 0], false),
        (libc::SYS_pselect6, [1, 0, 0, 0, 1, 0], true),
        (libc::SYS_pselect6, [1, 0, 0, 0, 0, 0], false),
        (libc::SYS_epoll_pwait, [3, 1, 1, 5, 0, 0], true),
        (libc::SYS_epoll_pwait, [3, 1, 1, 0, 0, 0], false),
        (libc::SYS_epoll_pwait, [3, 1, 1, u64::MAX, 0, 0], false),
        (libc::SYS_futex, [1, wait, 0, 1, 0, 0], true),
        (libc::SYS_futex, [1, wait, 0, 0, 0, 0], false),
        (libc::SYS_futex, [1, wake, 1, 1, 0, 0], false),
    ] {
        assert_eq!(ask(MODE_U, call, args), ALLOW, "{call} {args:?}");
        let expected = if stops { NOTIFY } else { ALLOW };
        assert_eq!(ask(own, call, args), expected, "{call} {args:?}");
    }
}
