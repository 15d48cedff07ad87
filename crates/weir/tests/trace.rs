// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir trace`, `weir run --trace` and the expressions of `weir capture`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::process::{Command, Stdio};

use common::{Folder, User, has, output, text, users, weir};
use serde_json::Value;

/// A router from lan0 to wan0 with a mark, a mirror, a class and a rate.
const ROUTER: &str = r"
set -e
sysctl -qw net.ipv4.ip_forward=1
for d in lan0 wan0 tap0; do ip link add $d type dummy; ip link set $d up; done
ip addr add 10.1.0.1/24 dev lan0
ip addr add 10.2.0.1/24 dev wan0
ip neigh add 10.2.0.2 lladdr 02:00:00:00:02:02 dev wan0 nud permanent
tc qdisc add dev wan0 root handle 1: htb default 10
tc class add dev wan0 parent 1: classid 1:10 htb rate 16kbit burst 100 cburst 100
tc qdisc add dev lan0 clsact
tc filter add dev lan0 ingress prio 5 protocol ip flower ip_proto udp dst_port 4009 action drop
tc filter add dev lan0 ingress prio 10 matchall action skbedit mark 7 pipe \
  action mirred egress mirror dev tap0
";
const UDP: &str = "lan0=rate=100,count=3,size=100,src=10.1.0.2,dst=10.2.0.2,sport=4000,dport=4001";
const DROPPED: &str =
    "lan0=rate=100,count=2,start=1s,size=100,src=10.1.0.2,dst=10.2.0.2,sport=4000,dport=4009";

/// Runs the router with traces. Returns its standard output and the journeys in its report.
fn traced(user: User, traces: &[&str]) -> (String, Vec<Value>) {
    let folder = Folder::new();
    let (json, script) = (folder.file("report.json"), folder.file("router.sh"));
    std::fs::write(&script, ROUTER).unwrap();
    let mut args = vec![
        "run", "--quiet", "--json", &json, "--gen", UDP, "--gen", DROPPED,
    ];
    for trace in traces {
        args.extend(["--trace", trace]);
    }
    args.push(&script);
    let shown = output(&mut weir(user, &args));
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let mut compiler = boon::Compiler::new();
    let mut schemas = boon::Schemas::new();
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.schema.json");
    let schema = compiler.compile(schema, &mut schemas).unwrap();
    if let Err(error) = schemas.validate(&report, schema) {
        panic!("{error:#}");
    }
    let journeys = report["traces"].as_array().cloned().unwrap_or_default();
    (text(&shown.stdout), journeys)
}

fn steps(journey: &Value) -> Vec<String> {
    let steps = journey["steps"].as_array().unwrap().iter();
    let word = |step: &Value, key: &str| step[key].as_str().unwrap_or_default().to_owned();
    steps
        .map(|step| format!("{} {}", word(step, "device"), word(step, "step")))
        .collect()
}

#[test]
fn a_journey_has_each_hop_filter_rewrite_and_wait() {
    for user in users() {
        let (shown, journeys) = traced(*user, &["lan0,nth=3"]);
        let [packet, copy] = &journeys[..] else {
            panic!("{shown}");
        };
        assert_eq!(
            (&packet["packet"], &copy["packet"]),
            (&"3".into(), &"3.1".into())
        );
        assert_eq!(packet["flow"], "udp 10.1.0.2:4000 > 10.2.0.2:4001");
        assert_eq!(packet["octets"], 100);
        assert_eq!(
            steps(packet),
            [
                "lan0 received",
                "lan0 filter",
                "lan0 forward",
                "wan0 transmit",
                "wan0 queued",
                "wan0 left",
                "wan0 sent"
            ],
            "{shown}"
        );
        assert_eq!(
            (&packet["end"], &copy["end"]),
            (&"sent".into(), &"sent".into())
        );
        let steps_of = |journey: &Value| journey["steps"].as_array().unwrap().clone();
        let stops = steps_of(packet);
        // 100 packets a second begin at 0. A packet takes 50 ms at 16 kbit/s, and HTB lends the second its tokens, so the third waits.
        assert_eq!(stops[0]["time_ns"], 20_000_000);
        let changes = |stop: &Value| {
            let changes = stop["changes"].as_array().cloned().unwrap_or_default();
            let change = |change: &Value| {
                let word = |key: &str| change[key].as_str().unwrap().to_owned();
                (word("field"), word("from"), word("to"))
            };
            changes.iter().map(change).collect::<Vec<_>>()
        };
        let of = |field: &str, from: &str, to: &str| (field.into(), from.into(), to.into());
        assert_eq!(changes(&stops[1]), [of("mark", "0", "7")]);
        let rewritten = changes(&stops[3]);
        assert!(
            rewritten.contains(&of("ip.ttl", "64", "63")),
            "{rewritten:?}"
        );
        let neighbour = |(field, _, to): &(String, String, String)| {
            field == "eth.dst" && to == "02:00:00:00:02:02"
        };
        assert!(rewritten.iter().any(neighbour), "{rewritten:?}");
        assert_eq!(
            (&stops[2]["next_hop"], &stops[2]["by"]),
            (&"10.2.0.2".into(), &"wan0".into())
        );
        assert_eq!(stops[5]["class"], "1:10");
        let waited = stops[5]["waited_ns"].as_u64().unwrap();
        let time = |n: usize| stops[n]["time_ns"].as_u64().unwrap();
        assert!(waited > 0 && time(5) - time(4) == waited, "{shown}");
        assert_eq!(
            steps(copy),
            [
                "lan0 copied",
                "tap0 redirected",
                "tap0 transmit",
                "tap0 sent"
            ]
            .as_slice(),
            "{shown}"
        );
        for line in [
            "packet 3: udp 10.1.0.2:4000 > 10.2.0.2:4001, 100 bytes\n     0.020000000  lan0: received\n",
            "lan0: filter ingress chain 0 pref 10 matchall handle 0x1 pipe\n                    rewritten mark: 0 -> 7\n",
            "lan0: forwarded to 10.2.0.2 by wan0\n",
            "rewritten ip.ttl: 64 -> 63\n",
            "class 1:10\n",
            "packet 3.1: ",
            "lan0: copied from packet 3\n",
        ] {
            assert!(shown.contains(line), "{line}\n{shown}");
        }
    }
}

#[test]
fn expressions_choose_packets_and_drops_have_their_place_and_reason() {
    if !has("tcpdump", "tcpdump") {
        return;
    }
    for user in users() {
        let (shown, journeys) = traced(*user, &["lan0,udp dst port 4009", "any,count=1,udp"]);
        let [first, second, third, ..] = &journeys[..] else {
            panic!("{shown}");
        };
        for dropped in [first, second] {
            assert_eq!(dropped["end"], "dropped", "{shown}");
            assert_eq!(
                steps(dropped),
                ["lan0 received", "lan0 filter", "lan0 dropped"]
            );
            let last = &dropped["steps"][2];
            assert_eq!(
                (&last["place"], &last["reason"]),
                (&"ingress".into(), &"TC_INGRESS".into())
            );
        }
        assert_eq!(third["flow"], "udp 10.1.0.2:4000 > 10.2.0.2:4001");
        let refused = |trace: &str| {
            let shown = output(&mut weir(*user, &["run", "--trace", trace, "--", "true"]));
            (shown.status.code(), text(&shown.stderr))
        };
        let (status, why) = refused("lan0,bogus port");
        assert_eq!(status, Some(125), "{why}");
        assert!(
            why.contains("`bogus port` is no filter expression"),
            "{why}"
        );
        let (status, why) = refused("nodev");
        assert_eq!(status, Some(125), "{why}");
        assert!(
            why.contains("--trace nodev: there is no device nodev"),
            "{why}"
        );
        assert_eq!(refused("lan0,nth=0").0, Some(2));
        let inside = output(&mut weir(
            *user,
            &["run", "--", "sh", "-c", "weir trace lo"],
        ));
        assert_eq!(inside.status.code(), Some(125));
        let why = text(&inside.stderr);
        assert!(
            why.contains("trace with `weir run --trace DEV[,EXPR]`"),
            "{why}"
        );
    }
}

/// The same input gives the same journeys.
#[test]
fn journeys_repeat() {
    let once = || traced(User::Own, &["any,count=4"]);
    assert_eq!(once(), once());
}

#[test]
fn a_running_stack_traces_and_captures_what_an_expression_selects() {
    if !has("tcpdump", "tcpdump") {
        return;
    }
    let folder = Folder::new();
    let socket = folder.file("control");
    let mut up = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["up", "--socket", &socket])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    common::wait_until_up(&mut up);
    let on = |command: &str, args: &[&str]| {
        weir(User::Own, &[&[command, "--socket", &socket], args].concat())
    };
    let made = "ip link add d0 type dummy; ip link set d0 up; \
                tc qdisc add dev d0 clsact; tc filter add dev d0 egress matchall action skbedit mark 3";
    assert!(on("exec", &["sh", "-c", made]).status().unwrap().success());
    // Frames to port 4001 and 4002, written by a run.
    let frames = folder.file("frames.pcap");
    let generated: Vec<String> = [4001, 4002]
        .map(|port| format!("d0=rate=100,count=20,size=90,dport={port}"))
        .to_vec();
    let script = "ip link add d0 type dummy; ip link add d1 type dummy; ip link set d0 up; ip link set d1 up; \
                  tc qdisc add dev d0 clsact; \
                  tc filter add dev d0 ingress matchall action mirred egress redirect dev d1";
    let out = format!("d1={frames}");
    let args = [
        "run",
        "--quiet",
        "--gen",
        &generated[0],
        "--gen",
        &generated[1],
        "--out",
        &out,
        "--",
        "sh",
        "-c",
        script,
    ];
    assert!(weir(User::Own, &args).status().unwrap().success());

    // The sender repeats until both readers have seen enough.
    let mut sender = Command::new("sh")
        .args([
            "-c",
            "while \"$0\" inject --socket \"$1\" d0 \"$2\"; do :; done",
        ])
        .args([env!("CARGO_BIN_EXE_weir"), &socket, &frames])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let shown = output(&mut on(
        "trace",
        &["--count", "3", "--json", "d0", "udp", "dst", "port", "4002"],
    ));
    let captured = output(&mut on(
        "capture",
        &["--count", "5", "d0", "udp dst port 4001"],
    ));
    let text_shown = output(&mut on("trace", &["--nth", "2"]));
    let wrong = output(&mut on("capture", &["d0", "bogus"]));
    let missing = output(&mut on("trace", &["nodev"]));
    let _ = sender.kill();
    let _ = sender.wait();
    let _ = up.kill();
    let _ = up.wait();
    let lines = text(&shown.stdout);
    assert_eq!(lines.lines().count(), 3, "{lines}{}", text(&shown.stderr));
    for line in lines.lines() {
        let journey: Value = serde_json::from_str(line).unwrap();
        assert!(
            journey["flow"].as_str().unwrap().ends_with(":4002"),
            "{line}"
        );
        assert_eq!(steps(&journey), ["d0 transmit", "d0 filter", "d0 sent"]);
        assert_eq!(journey["steps"][1]["changes"][0]["to"], "3");
    }
    assert!(
        text(&text_shown.stdout).starts_with("packet 2: udp "),
        "{}",
        text(&text_shown.stdout)
    );
    let file = folder.file("captured.pcapng");
    std::fs::write(&file, &captured.stdout).unwrap();
    let read = output(Command::new("tcpdump").args(["-n", "-r", &file]));
    let read = text(&read.stdout);
    assert_eq!(read.lines().count(), 5, "{read}{}", text(&captured.stderr));
    assert!(read.lines().all(|line| line.contains(".4001:")), "{read}");
    assert!(
        text(&wrong.stderr).contains("`bogus` is no filter expression"),
        "{}",
        text(&wrong.stderr)
    );
    assert!(
        text(&missing.stderr).contains("there is no device nodev"),
        "{}",
        text(&missing.stderr)
    );
}

/// A link with a rate and a netem that duplicates, to a host in another namespace, behind NAT and
/// pedit. Without IPv6, no other packets take HTB's tokens.
const LINK: &str = r"
set -e
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
ip netns add host
ip link add v0 address 02:00:00:00:00:10 type veth peer name v1 address 02:00:00:00:00:11
ip link set v1 netns host
ip addr add 10.1.0.1/24 dev v0
ip link set v0 up
ip -n host addr add 10.1.0.2/24 dev v1
ip -n host link set v1 up
ip link add lan0 address 02:00:00:00:00:20 type dummy
ip link set lan0 up
ip addr add 10.9.0.1/24 dev lan0
sysctl -qw net.ipv4.ip_forward=1
ip neigh add 10.1.0.2 lladdr 02:00:00:00:00:11 dev v0 nud permanent
tc qdisc add dev v0 root handle 1: htb default 10
tc class add dev v0 parent 1: classid 1:10 htb rate 100kbit burst 200 cburst 200
tc qdisc add dev v0 parent 1:10 handle 10: netem delay 20ms duplicate 100%
tc qdisc add dev lan0 clsact
tc filter add dev lan0 ingress prio 5 protocol ip u32 match ip dport 4001 0xffff \
  action nat ingress 10.5.0.9/32 10.1.0.2 pipe \
  action pedit ex munge ip tos set 0x10 pipe csum ip and udp
";

/// A packet of 100 bytes takes 8 ms of HTB's tokens. At 20 ms, 16 ms of tokens let packet 1 and its
/// duplicate leave. At 40 ms, 4 ms are left: packet 3 leaves and lends 4 ms, for which its duplicate
/// waits.
const JOURNEYS: &str = "\
packet 3: udp 10.9.0.2:4000 > 10.5.0.9:4001, 100 bytes
     0.020000000  lan0: received
                  lan0: filter ingress chain 0 pref 5 u32 handle 0x80000800 pass
                    rewritten ip.tos: 0x00 -> 0x10
                    rewritten ip.dst: 10.5.0.9 -> 10.1.0.2
                  lan0: forwarded to 10.1.0.2 by v0
                  v0: to be sent
                    rewritten priority: 0x0 -> 0x6
                    rewritten eth.dst: 02:00:00:00:00:20 -> 02:00:00:00:00:11
                    rewritten eth.src: 02:00:00:00:00:01 -> 02:00:00:00:00:10
                    rewritten ip.ttl: 64 -> 63
                  v0: enters the qdisc
     0.040000000  v0: leaves the qdisc after 20.0 ms, class 1:10
                  v0: sent
                  host/v1: received
                  host/v1: for this host
                  host/v1: dropped: NO_SOCKET at ipv4-local: No socket is bound to the packet's destination.

packet 3.1: udp 10.9.0.2:4000 > 10.5.0.9:4001, 100 bytes
     0.020000000  v0: copied from packet 3
     0.044000000  v0: leaves the qdisc after 24.0 ms, class 1:10
                  v0: sent
                  host/v1: received
                  host/v1: for this host
                  host/v1: dropped: NO_SOCKET at ipv4-local: No socket is bound to the packet's destination.
";

#[test]
fn a_journey_goes_on_through_nat_netem_and_veth_and_a_duplicate_has_its_own() {
    for user in users() {
        let folder = Folder::new();
        let script = folder.file("link.sh");
        std::fs::write(&script, LINK).unwrap();
        let frames =
            "lan0=rate=100,count=3,size=100,src=10.9.0.2,dst=10.5.0.9,sport=4000,dport=4001";
        let args = [
            "run",
            "--quiet",
            "--gen",
            frames,
            "--trace",
            "lan0,nth=3",
            &script,
        ];
        let shown = output(&mut weir(*user, &args));
        assert!(shown.status.success(), "{}", text(&shown.stderr));
        let shown = text(&shown.stdout);
        let journeys = shown.find("packet 3:").map(|at| &shown[at..]);
        assert_eq!(journeys.map(str::trim_end), Some(JOURNEYS.trim_end()));
    }
}
