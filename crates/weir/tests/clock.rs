// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual time passes while the script's programs sleep: every call that waits for some time,
//! early ends of waits, programs in the background, traffic meanwhile, and repeatability. Waits of
//! hours would never end by the machine's clock.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fs;

use common::{Folder, User, command, has, output, script, script_with, text, users, weir};

/// A shell function that prints the clock.
const NOW: &str = "now() { weir stat | sed -n 's/^Time \\([0-9.]*\\) s.*/\\1/p'; }\n";

/// The loop in which set-up scripts wait for duplicate address detection.
const TENTATIVE: &str = "set -e
ip link set lo up
ip link add v0 type veth peer name v1
ip link set v0 up
ip link set v1 up
ip addr add 2001:db8::1/64 dev v0
rounds=0
while ip addr show tentative | grep -q .; do sleep .2; rounds=$((rounds + 1)); done
[ $rounds -gt 1 ] && [ $rounds -lt 50 ]
ip -6 -br addr show v0
";

#[test]
fn a_script_that_waits_until_no_address_is_tentative_ends() {
    for user in users() {
        for mode in ["auto", "paths"] {
            let (printed, status) = script_with(*user, &["--mode", mode], TENTATIVE);
            assert!(
                status == 0 && printed.contains("2001:db8::1/64"),
                "{user:?} {mode}: {printed}"
            );
        }
        // Addresses do not follow the machine's clock.
        let frozen = "ip link set lo up; ip link add v0 type veth peer name v1; ip link set v0 up
            ip link set v1 up; sleep 0.05; ip -br addr show tentative; weir stat | head -1 | cut -d, -f1";
        let (printed, status) = script_with(*user, &["--frozen-clock"], frozen);
        assert!(
            status == 0 && printed.contains("v0@v1 ") && printed.ends_with("Time 0.000000000 s\n"),
            "{printed}"
        );
    }
}

/// One wait of an hour by each call. Calls with descriptors wait for a pipe to which nobody writes.
const CALLS: &str = r#"
import ctypes, os, select, threading, time
r, w = os.pipe()
libc = ctypes.CDLL(None, use_errno=True)
hour = (ctypes.c_long * 2)(3600, 0)
set = (ctypes.c_ulong * 16)(1 << r)
polled = (ctypes.c_int * 2)(r, 1 | 0x7fff0000)
word = ctypes.c_int(7)
void = ctypes.c_void_p
def call(name, number, *args):
    before = time.monotonic()
    result = libc.syscall(ctypes.c_long(number), *args)
    print(name, result, ctypes.get_errno() if result < 0 else 0)
machine = os.uname().machine
x86 = machine == "x86_64"
numbers = dict(nanosleep=35, clock_nanosleep=230, pselect6=270, ppoll=271, epoll_pwait=281, epoll_pwait2=441,
    futex=202) if x86 else dict(nanosleep=101, clock_nanosleep=115, pselect6=72, ppoll=73, epoll_pwait=22,
    epoll_pwait2=441, futex=98)
epoll = select.epoll()
epoll.register(r, select.EPOLLIN)
events = (ctypes.c_char * 64)()
call("nanosleep", numbers["nanosleep"], hour, None)
call("clock_nanosleep", numbers["clock_nanosleep"], 1, 0, hour, None)
call("ppoll", numbers["ppoll"], polled, void(1), hour, None, void(8))
print("revents", polled[1] >> 16)
hour[0] = 3600
call("pselect6", numbers["pselect6"], 16, set, None, None, hour, None)
print("set", set[0], "left", hour[0])
hour[0] = 3600
call("epoll_pwait", numbers["epoll_pwait"], epoll.fileno(), events, 1, 3600000, None, void(8))
call("epoll_pwait2", numbers["epoll_pwait2"], epoll.fileno(), events, 1, hour, None, void(8))
call("futex", numbers["futex"], ctypes.byref(word), 128, 7, hour, None, 0)
call("futex, another value", numbers["futex"], ctypes.byref(word), 128, 8, hour, None, 0)
if x86:
    call("poll", 7, polled, void(1), 3600000)
    set[0] = 1 << r
    call("select", 23, 16, set, None, None, hour)
    print("set", set[0], "left", hour[0])
    call("epoll_wait", 232, epoll.fileno(), events, 1, 3600000)
else:
    for name in "poll", "select", "epoll_wait":
        select.poll().poll(3600000); print(name, "0 0")
        if name == "select": print("set 0 left 0")
    # as the others do
print("descriptors", epoll.poll(0), select.select([r], [], [], 0))
time.sleep(3600)
print("event", threading.Event().wait(3600))
hour[0], hour[1] = 3600, 10 ** 9
call("too many nanoseconds", numbers["nanosleep"], hour, None)
call("no address", numbers["nanosleep"], None, None)
"#;

const ANSWERS: &str = "nanosleep 0 0
clock_nanosleep 0 0
ppoll 0 0
revents 0
pselect6 0 0
set 0 left 0
epoll_pwait 0 0
epoll_pwait2 0 0
futex -1 110
futex, another value -1 11
poll 0 0
select 0 0
set 0 left 0
epoll_wait 0 0
descriptors [] ([], [], [])
event False
too many nanoseconds -1 22
no address -1 14
43200.000000000
";

#[test]
fn every_call_that_waits_takes_virtual_time() {
    if !has("python3", "python3") {
        return;
    }
    for user in users() {
        for mode in ["auto", "paths"] {
            let script = format!("{NOW}python3 -c '{CALLS}'\nnow");
            let (printed, status) = script_with(*user, &["--mode", mode], &script);
            assert_eq!((printed.as_str(), status), (ANSWERS, 0), "{user:?} {mode}");
        }
    }
}

/// Early ends of a wait: descriptors, another thread, signals.
const EARLY: &str = r#"
import os, select, signal, socket, sys, threading, time
r, w = os.pipe()
poll = select.poll()
poll.register(r, select.POLLIN)
def later(seconds, what, *args):
    def run():
        time.sleep(seconds)
        what(*args)
    threading.Thread(target=run).start()
later(1000, os.write, w, b"x")
print(poll.poll(3600000) == [(r, select.POLLIN)], os.read(r, 9))
later(1000, os.write, w, b"x")
print(select.select([r], [], [], 3600)[0] == [r], os.read(r, 9))
event = threading.Event()
later(1000, event.set)
print(event.wait(3600))
# A file is always ready.
print(len(select.select([sys.stdin], [sys.stdout], [], 3600)[0]))
# A process that tells another.
if os.fork() == 0:
    time.sleep(1000)
    os.kill(os.getppid(), signal.SIGUSR1)
    os._exit(0)
signal.signal(signal.SIGUSR1, lambda *_: print("handled"))
class Done(Exception): pass
def alarm(*_): raise Done
signal.signal(signal.SIGUSR1, alarm)
try:
    time.sleep(36000)
except Done:
    print("interrupted")
os.wait()
"#;

#[test]
fn waits_end_early() {
    if !has("python3", "python3") {
        return;
    }
    for user in users() {
        let script = format!("{NOW}python3 -c '{EARLY}' </dev/null >out; cat out; now");
        let folder = Folder::new();
        let mut run = weir(*user, &["run", "--quiet", "--", "sh", "-c", &script]);
        let ran = output(run.current_dir(&folder.0));
        assert_eq!(
            text(&ran.stdout),
            "True b'x'\nTrue b'x'\nTrue\n1\ninterrupted\n4000.000000000\n",
            "{user:?}: {}",
            text(&ran.stderr)
        );
    }
}

/// A killed child, a trap, a pipeline, `wait`.
const SHELL: &str = "sleep 36000 & kill $!; wait $!; echo $?
sleep 36000 & kill -KILL $!; wait $!; echo $?
(trap 'echo trapped; exit 0' TERM; (sleep 36000) & wait) & sleep 1; kill $!; wait $!; echo $?
(sleep 1000; echo slow) | cat
sleep 100 & sleep 200 & wait; echo both
now
";

#[test]
fn shells_wait() {
    for user in users() {
        let (printed, status) = script(*user, &format!("{NOW}{SHELL}"));
        let printed: Vec<_> = printed
            .lines()
            .filter(|line| !line.contains("Killed"))
            .collect();
        let expected = [
            "143",
            "137",
            "trapped",
            "0",
            "slow",
            "both",
            "1201.000000000",
        ];
        assert_eq!((&printed[..], status), (&expected[..], 0), "{user:?}");
    }
}

/// An event loop that looks without waiting until a time has come. While a descriptor is ready, time stands still.
const LOOKS: &str = "import os, select, time
read, write = os.pipe()
os.write(write, b'x')
begin = time.monotonic()
ready = sum(len(select.select([read], [], [], 0)[0]) for _ in range(1000))
print(ready, time.monotonic() - begin)
os.read(read, 1)
looks = 0
while time.monotonic() < begin + 0.0025:
    select.select([read], [], [], 0)
    looks += 1
print(round(time.monotonic() - begin, 6), looks)
";

#[test]
fn a_program_that_looks_without_waiting_sees_time_pass() {
    if !common::has("python3", "python3") {
        return;
    }
    for user in users() {
        let mut run = weir(*user, &["run", "--quiet", "--", "python3", "-c", LOOKS]);
        // Each 65th look takes a millisecond, unless a descriptor is ready: of the first thousand none does.
        assert_eq!(
            text(&output(&mut run).stdout),
            "1000 0.0\n0.003 170\n",
            "{user:?}"
        );
    }
}

/// Two programs in the background act at their times, one after the other, also while a `weir play`
/// moves the clock.
const BACKGROUND: &str = "ip link add d0 type dummy
(sleep 2; echo at 2; ip link set d0 up; sleep 1; echo at 3) &
(for at in 1 2 3; do sleep 1; echo again at $at; done) &
weir play --until 2500ms
echo played
ip -br link show d0 | cut -d' ' -f1
wait
echo waited
(sleep 1; echo late; sleep 3; echo later; sleep 3; echo never) &
sleep 36000 &
";

#[test]
fn programs_in_the_background_act_at_their_times() {
    for user in users() {
        let mut run = weir(*user, &["run", "--", "sh", "-c", BACKGROUND]);
        let ran = output(&mut run);
        let printed = text(&ran.stdout);
        let mut lines = printed.lines();
        let said: Vec<_> = lines.by_ref().take(10).collect();
        let expected = [
            "again at 1",
            "at 2",
            "again at 2",
            "played",
            "d0",
            "at 3",
            "again at 3",
            "waited",
            "late",
            "later",
        ];
        assert_eq!(said, expected, "{user:?}");
        // After the script ended, background programs have five more seconds; nothing happens in
        // the last of them.
        assert!(
            lines
                .next()
                .is_some_and(|line| line.starts_with("Time 7.000000000 s")),
            "{printed}"
        );
        assert!(
            ran.status.success() && text(&ran.stderr).is_empty(),
            "{}",
            text(&ran.stderr)
        );
    }
}

/// Frames arrive while the script sleeps, or later if their device does not exist yet.
#[test]
fn traffic_goes_on_while_a_script_sleeps() {
    let count = "ip -s -j link show d0 | grep -o '\"rx\":{[^}]*' | grep -o 'packets\":[0-9]*' | cut -d: -f2";
    let script = format!(
        "set -e\n{NOW}sleep 10\nip link add d0 type dummy\nip link set d0 up\nsleep 1.95\n{count}\nnow\nsleep 1\n{count}"
    );
    for user in users() {
        let mut run = weir(
            *user,
            &[
                "run",
                "--gen",
                "d0=rate=10,count=100",
                "--",
                "bash",
                "-c",
                &script,
            ],
        );
        let ran = output(&mut run);
        let printed = text(&ran.stdout);
        assert!(
            printed.starts_with("20\n11.950000000\n30\n"),
            "{printed}{}",
            text(&ran.stderr)
        );
        assert!(printed.contains("Time 19.900000000 s"), "{printed}");
    }
}

/// `weir play` waits for its answer, and does not sleep, also where the program has another name.
#[test]
fn the_program_plays_under_another_name() {
    for user in users() {
        let folder = Folder::new();
        let other = folder.file("other");
        std::os::unix::fs::symlink(common::WEIR, &other).unwrap();
        let script =
            format!("ip monitor neigh & {other} play --until 3s; kill $!; {other} stat | head -1");
        let mut command = command(*user, "timeout");
        command.args([
            "-s", "KILL", "60", &other, "run", "--quiet", "--", "sh", "-c",
        ]);
        let output = output(command.arg(script));
        let printed = text(&output.stdout);
        assert!(
            printed.contains("Time 3.000000000 s"),
            "{user:?}: {printed}"
        );
    }
}

/// A program that reads the machine's clock and waits for the rest of its time is counted once.
#[test]
fn the_rest_of_a_wait_is_not_counted_again() {
    if !has("python3", "python3") {
        return;
    }
    let script = format!("{NOW}python3 -c 'import asyncio; asyncio.run(asyncio.sleep(0.5))'\nnow");
    let (printed, status) = script_with(User::Own, &[], &script);
    // The program takes what passed on the machine's clock until its wait from the time.
    let time: f64 = printed.trim().parse().unwrap_or(-1.0);
    assert!(status == 0 && (0.4..1.6).contains(&time), "{printed}");
}

/// Sleeps, background programs, addresses that become valid, listeners: the same bytes in each run.
const ALL: &str = "ip link set lo up
ip link add v0 type veth peer name v1
ip monitor link addr neigh >monitor &
sleep 0.01
for n in 1 2 3; do (sleep 0.$n; ip addr add 10.0.0.$n/24 dev v0; sleep 0.$n; ip neigh add 10.0.0.9$n lladdr 2:0:0:0:0:$n dev v0) & done
ip link set v0 up
ip link set v1 up
ip addr add 2001:db8::1/64 dev v0
while ip addr show tentative | grep -q .; do sleep .2; done
tc qdisc add dev v1 root netem delay 50ms 20ms loss 20%
tc qdisc add dev v1 clsact
tc filter add dev v1 ingress matchall action mirred egress redirect dev v1
while [ $(ip neigh | wc -l) -lt 3 ]; do sleep 0.1; done
sleep 3
ip -s -d addr
ip -s neigh
(sleep 0.3; tc -s qdisc show dev v1; ip link set v1 down) &
";

#[test]
fn sleeps_are_deterministic() {
    let runs = || {
        let folder = Folder::new();
        let mut run = weir(User::Own, &["run", "--seed", "5", "--json", "report.json"]);
        run.args([
            "--gen",
            "v1=rate=100,count=800,gaps=poisson",
            "--out",
            "v1=v1.pcapng",
        ]);
        run.args(["--out", "v0=v0.pcapng", "--", "bash", "-c", ALL]);
        let ran = output(run.current_dir(&folder.0));
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        let mut found = vec![ran.stdout, ran.stderr];
        let files = ["report.json", "v0.pcapng", "v1.pcapng", "monitor"];
        found.extend(files.map(|name| fs::read(folder.0.join(name)).unwrap()));
        found
    };
    let first = runs();
    assert!(
        first[2..].iter().all(|file| file.len() > 200),
        "{}",
        text(&first[0])
    );
    for _ in 0..3 {
        for (number, (one, other)) in first.iter().zip(&runs()).enumerate() {
            assert!(
                one == other,
                "file {number}:\n{}\n{}",
                text(one),
                text(other)
            );
        }
    }
}

/// Programs with the C library read the stack's clock, and their timers follow it.
const READS: &str = r#"set -e
date -u +%T; sleep 100; date -u +%T
timeout 5 sleep 1000 || echo timed out $?
bash -c 'SECONDS=0; sleep 7; echo $SECONDS'
while [ $(date +%s) -lt 946694800 ]; do sleep 1000; done; date -u +%FT%T
python3 -c '
import ctypes, signal, struct, time
signal.signal(signal.SIGALRM, lambda *_: print("alarm", time.monotonic() - begin))
begin = time.monotonic(); signal.alarm(50); signal.pause()
signal.setitimer(signal.ITIMER_REAL, 2, 3); signal.pause(); signal.pause(); print(signal.setitimer(signal.ITIMER_REAL, 0))
libc = ctypes.CDLL(None)
timer = libc.timerfd_create(1, 0)
libc.timerfd_settime(timer, 0, struct.pack("qqqq", 10, 0, 5, 0), None)
number = ctypes.create_string_buffer(8)
begin = time.monotonic()
for _ in range(3): libc.read(timer, number, 8); print("timer", time.monotonic() - begin, struct.unpack("q", number))
end = time.time() + 0.01
while time.time() < end: pass
print("spun")
'
"#;

#[test]
fn programs_read_the_clock_of_the_stack() {
    if !has("python3", "python3") {
        return;
    }
    let expected = "00:00:00\n00:01:40\ntimed out 124\n7\n2000-01-01T02:48:32\nalarm 50.0\nalarm 52.0\nalarm 55.0\n(3.0, 3.0)\n\
                    timer 5.0 (1,)\ntimer 15.0 (1,)\ntimer 25.0 (1,)\nspun\n";
    for user in users() {
        for mode in ["auto", "paths"] {
            let (printed, status) = script_with(*user, &["--mode", mode], READS);
            assert_eq!((status, printed.as_str()), (0, expected), "{user:?} {mode}");
        }
    }
}
