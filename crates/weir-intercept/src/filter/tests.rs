// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program, run as the kernel would.
use super::*;

/// Runs the program as the kernel would.
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

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;
const MODE_U: Options = Options {
    host_network: false,
    path_traps: false,
    limit_carrier: false,
    own_clock: false,
};
const MODE_A: Options = Options {
    host_network: false,
    path_traps: true,
    limit_carrier: true,
    own_clock: false,
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
    let traffic = u64::from(TRAFFIC_FDS.start);
    for call in [r, libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_recvmsg, w] {
        assert_eq!(ask(MODE_U, call, [traffic, 0, 9999, 0, 0, 0]), NOTIFY);
        assert_eq!(ask(MODE_U, call, [3, 0, 9999, 0, 0, 0]), ALLOW);
    }
    let g = libc::SYS_getsockopt;
    assert_eq!(ask(MODE_U, g, [3, 270, 1, 0, 0, 0]), NOTIFY);
    assert_eq!(ask(MODE_U, g, [3, 1, 3, 0, 0, 0]), NOTIFY);
    assert_eq!(ask(MODE_U, g, [3, 1, 39, 0, 0, 0]), NOTIFY);
    assert_eq!(ask(MODE_U, g, [3, 1, 8, 0, 0, 0]), ALLOW);
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
    let calls = [libc::SYS_mkdirat, libc::SYS_exit_group];
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
fn waits_for_some_time_stop_under_a_clock_of_its_own() {
    let own = Options {
        own_clock: true,
        ..MODE_U
    };
    let wait = libc::FUTEX_WAIT as u64;
    let wake = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64;
    for (call, args, stops) in [
        (libc::SYS_nanosleep, [1, 0, 0, 0, 0, 0], true),
        (libc::SYS_clock_nanosleep, [1, 1, 1, 0, 0, 0], true),
        (libc::SYS_ppoll, [1, 1, 1, 0, 0, 0], true),
        (libc::SYS_ppoll, [1, 1, 0, 0, 0, 0], false),
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
