// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Early drop of live ports: `tc -s` and `ip -s` show the same whether frames are dropped before packets are
//! made of them or after, for every kind of port that has frames judged.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::process::Command;

use common::{Folder, has, output, text};

/// Sends 100 frames that the filters drop and 50 that they do not, to a device or a UNIX socket.
const SEND: &str = r#"
import socket, sys
how, where = sys.argv[1:]
drop, keep = (bytes([2, 0, 0, 0, 0, last]) + bytes([2, 0, 0, 0, 0, 9]) + b"\x88\xb5" + bytes(50) for last in (2, 3))
frames = [keep if n % 3 == 2 else drop for n in range(150)]
if how == "device":
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    s.bind((where, 0))
elif how == "dgram":
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.connect(where)
else:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(where)
    frames = [len(frame).to_bytes(4, "big") + frame for frame in frames]
for frame in frames:
    s.sendall(frame)
if how == "stream":
    s.shutdown(socket.SHUT_WR)
    s.recv(1)
"#;

/// Shows the counters after the frames, with early drop on and then off, for each kind of port. The number of carrier
/// transitions is left out: a client of a stream can be gone before its device is seen to have a carrier.
const SCRIPT: &str = r#"
set -e
export PATH=$PATH:/usr/sbin:/sbin
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
weir() { command=$1; shift; "$WEIR" $command --socket $F/control "$@"; }
port() { command=$1; shift; "$WEIR" port $command --socket $F/control "$@"; }
"$WEIR" up --socket $F/control >/dev/null 2>&1 & up=$!
trap 'kill $up 2>/dev/null; wait' EXIT
for n in $(seq 300); do [ -S $F/control ] && break; sleep 0.1; done
ip link add v0 type veth peer name v1
ip link set v0 up; ip link set v1 up

count() { port show --json p0 | python3 -c "import json, sys; print(json.load(sys.stdin)[0]['rx_packets'])"; }
early() {
    port show --json p0 | python3 -c "
import json, sys
early = json.load(sys.stdin)[0]['early_drop']
print('early drop:', 'on' if early['on'] else early['why_not'], early['packets'])"
}
once() {
    weir exec -- sh -ec '
        ip link add p0 type dummy; ip link set p0 addrgenmode none; ip link set p0 up
        tc qdisc add dev p0 clsact
        tc filter add dev p0 ingress pref 1 protocol 0x88b5 flower dst_mac 02:00:00:00:00:02 action drop
        tc filter add dev p0 ingress pref 2 protocol ip matchall action drop'
    port add p0 $2 >/dev/null
    case "$2" in tap*) ip link set t0 up ;; esac
    if [ $1 = off ]; then
        weir capture -q p0 >$F/capture & capture=$!
        for n in $(seq 300); do [ -s $F/capture ] && break; sleep 0.1; done
    fi
    early >&2
    python3 -c "$SEND" $3 "$4"
    for n in $(seq 300); do [ $(count) -ge 150 ] && break; sleep 0.1; done
    early >&2
    if [ $1 = off ]; then kill -TERM $capture; wait $capture || true; fi
    weir exec -- sh -ec '
        tc -s filter show dev p0 ingress; tc -s qdisc show dev p0; ip -s -s link show dev p0' |
        sed 's/installed .* sec//; s/^[0-9]*: p0/p0/; s/ether .* brd/brd/; /transns/{n;s/[0-9]* *$//}' >$F/$1
    port del p0
    weir exec -- ip link del p0
}
"#;

fn both(kind: &str, port: &str, how: &str, to: &str) {
    if !has("python3", "python3") {
        return;
    }
    let folder = Folder::new();
    // AF_XDP needs root in the machine's first user namespace.
    let namespaces = if kind == "af_xdp" { "-n" } else { "-rn" };
    let script = format!("{SCRIPT}\nonce on \"{port}\" {how} {to}; once off \"{port}\" {how} {to}");
    let mut command = Command::new("unshare");
    command.args([namespaces, "bash", "-c", &script]);
    command.env("WEIR", common::WEIR).env("SEND", SEND);
    command.env("F", folder.file("").trim_end_matches('/'));
    let output = output(&mut command);
    let said = text(&output.stdout) + &text(&output.stderr);
    if !output.status.success()
        && (said.contains("/dev/net/tun") || said.contains("unshare failed"))
    {
        return common::skip(&format!("{kind}: {said}"));
    }
    assert!(output.status.success(), "{kind}: {said}");
    let lines: Vec<_> = said
        .lines()
        .filter(|line| line.contains("early drop"))
        .collect();
    let off = "early drop: the device's frames are captured 0";
    let expected = ["early drop: on 0", "early drop: on 100", off, off];
    assert_eq!(lines, expected, "{kind}: {said}");
    let shown = |name: &str| std::fs::read_to_string(folder.file(name)).unwrap();
    let (on, off) = (shown("on"), shown("off"));
    assert!(
        on.contains("Sent 5000 bytes 100 pkt (dropped 100"),
        "{kind}: {on}"
    );
    assert_eq!(on, off, "{kind}");
}

#[test]
fn tap() {
    both("tap", "tap name=t0", "device", "t0");
}

#[test]
fn af_packet() {
    both("af_packet", "af_packet dev=v1", "device", "v0");
}

#[test]
fn af_xdp() {
    let first = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    if !rustix::process::geteuid().is_root() || !first.contains("4294967295") {
        // An ordinary user cannot have this port: no missing package makes the difference.
        return common::say("SKIPPED: AF_XDP needs root in the first user namespace");
    }
    both("af_xdp", "af_xdp dev=v1", "device", "v0");
}

#[test]
fn streams() {
    both("stream", "socket path=$F/s", "stream", "$F/s");
}

#[test]
fn datagrams() {
    both("dgram", "socket path=$F/s,type=dgram", "dgram", "$F/s");
}
