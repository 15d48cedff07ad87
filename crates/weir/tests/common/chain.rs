// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two hosts and a router, in which programs talk.
#![allow(dead_code, reason = "each test uses its part")]

use crate::common::{Folder, User, has, ordinary_user, script_with};

/// Shell functions of all scripts.
const FUNCTIONS: &str = r#"set -e
# Waits until a command succeeds.
await() { local n; for n in {1..200}; do if "$@" > /dev/null 2>&1; then return 0; fi; sleep $PAUSE; done; echo "never: $*"; false; }
# Ends the programs in the background.
finish() { kill $(jobs -p); wait || true; }
"#;

/// Two hosts, `a` and `b`, and a router `r` between them.
pub const CHAIN: &str = r#"
for n in a r b; do ip netns add $n; ip -n $n link set lo up; done
ip link add v0 netns a type veth peer name r0 netns r
ip link add v1 netns b type veth peer name r1 netns r
ip -n a addr add 10.0.0.2/24 dev v0; ip -n a addr add fd00::2/64 dev v0 nodad
ip -n r addr add 10.0.0.1/24 dev r0; ip -n r addr add fd00::1/64 dev r0 nodad
ip -n r addr add 10.0.1.1/24 dev r1; ip -n r addr add fd01::1/64 dev r1 nodad
ip -n b addr add 10.0.1.2/24 dev v1; ip -n b addr add fd01::2/64 dev v1 nodad
ip -n a link set v0 up; ip -n r link set r0 up; ip -n r link set r1 up; ip -n b link set v1 up
ip -n a route add default via 10.0.0.1; ip -n a -6 route add default via fd00::1
ip -n b route add default via 10.0.1.1; ip -n b -6 route add default via fd01::1
sleep 2
ip netns exec r sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
a() { ip netns exec a "$@"; }
b() { ip netns exec b "$@"; }
r() { ip netns exec r "$@"; }
# Waits until a program in b has the ports.
bound() { b ss -Hltun | grep -q ":$1 "; }
ready() { for port; do await bound $port; done; }
"#;

/// The clock under which a script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    Real,
    Virtual,
}

impl Time {
    /// The options of `weir run`.
    fn options(self) -> &'static [&'static str] {
        match self {
            Time::Real => &["--real-time"],
            Time::Virtual => &[],
        }
    }
}

/// Returns a script in a topology, with the functions of all scripts, in the folder `$D`.
pub fn script(topology: &str, time: Time, folder: &Folder, text: &str) -> String {
    let pause = match time {
        Time::Real => 0.2,
        Time::Virtual => 1.0,
    };
    let place = folder.file("");
    let place = place.trim_end_matches('/');
    format!("{FUNCTIONS}PAUSE={pause} D={place}\ncd $D\n{topology}\n{text}")
}

/// Runs a script in a topology as a user, in a folder of its own. Returns what it prints.
#[track_caller]
pub fn run_in(topology: &str, time: Time, user: User, text: &str) -> String {
    let folder = Folder::new();
    let text = script(topology, time, &folder, text);
    let (printed, status) = script_with(user, time.options(), &text);
    assert_eq!(status, 0, "{user:?} {time:?}: {printed}");
    printed
}

/// As [`run_in`], as an ordinary user if there is one.
#[track_caller]
pub fn ordinarily_in(topology: &str, time: Time, text: &str) -> String {
    let user = ordinary_user();
    run_in(topology, time, user, text)
}

/// As [`ordinarily_in`] two hosts and a router.
#[track_caller]
pub fn ordinarily(time: Time, text: &str) -> String {
    ordinarily_in(CHAIN, time, text)
}

/// Returns whether all programs exist. If not, reports the Debian package and skips the test.
#[track_caller]
pub fn have(programs: &[(&str, &str)]) -> bool {
    programs
        .iter()
        .all(|(program, package)| has(program, package))
}

/// Asserts that a text has all of these parts, in this order.
#[track_caller]
pub fn holds(printed: &str, parts: &[&str]) {
    let mut rest = printed;
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else {
            panic!("no {part:?} in its place in\n{printed}");
        };
        rest = after;
    }
}
