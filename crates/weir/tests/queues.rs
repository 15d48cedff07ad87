// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets over devices with several transmit queues: the queue that each takes, the counters, and
//! the time at which each leaves.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fs;

use common::{Folder, User, output, text, weir};
use weir_port::pcap::Reader;
use weir_port::{Frame, Source};

/// The length of each frame in bytes.
const LEN: usize = 125;

/// Builds a capture of UDP frames of [`LEN`] bytes, each with its time (ns) and port.
fn capture(frames: impl IntoIterator<Item = (u64, u16)>) -> Vec<u8> {
    // Time stamps in nanoseconds, link type Ethernet.
    let words = [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 65_535, 1];
    let mut out: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    for (time, port) in frames {
        let len = LEN as u32;
        let nanoseconds = time % 1_000_000_000;
        let head = [(time / 1_000_000_000) as u32, nanoseconds as u32, len, len];
        out.extend(head.into_iter().flat_map(u32::to_le_bytes));
        let start = out.len();
        out.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        out.extend([0x45, 0, 0, 111, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1]);
        out.extend([10, 0, 0, 2, 0x40, 0]);
        out.extend(port.to_be_bytes());
        out.extend([0, 91, 0, 0]);
        out.resize(start + LEN, 0);
    }
    out
}

/// Returns the time of each frame in an output of Weir, ns after the first, and its port.
fn departures(folder: &Folder, name: &str) -> Vec<(u64, u16)> {
    let mut reader = Reader::open(&folder.file(name)).unwrap();
    let (mut frame, mut found) = (Frame::new(0, Vec::new()), Vec::new());
    while reader.read(&mut frame).unwrap() {
        let port = u16::from_be_bytes([frame.data[36], frame.data[37]]);
        found.push((frame.time_ns, port));
    }
    found
}

/// Plays frames into `in0`, from where they leave by `q0`. Returns the script's output.
fn run(folder: &Folder, frames: impl IntoIterator<Item = (u64, u16)>, script: &str) -> String {
    fs::write(folder.0.join("in.pcap"), capture(frames)).unwrap();
    let script = format!(
        "set -e
        ip link add in0 type dummy
        ip link add q0 numtxqueues 4 type dummy
        ip link set in0 up
        ip link set q0 up
        tc qdisc add dev in0 clsact
        tc qdisc add dev q0 clsact
        send() {{ tc filter add dev in0 ingress pref 9 matchall action mirred egress redirect dev q0; }}
        {script}"
    );
    fs::write(folder.0.join("script.sh"), script).unwrap();
    let arguments = [
        "run",
        "--quiet",
        "--in",
        "in0=in.pcap",
        "--out",
        "q0=out.pcapng",
    ];
    let mut command = weir(User::Own, &arguments);
    let output = output(command.arg("script.sh").current_dir(&folder.0));
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns the packets that a qdisc or class has sent. `words` begin its line.
#[track_caller]
fn sent(printed: &str, what: &str) -> u64 {
    let mut lines = printed.lines().skip_while(|line| !line.starts_with(what));
    let line = lines.find(|line| line.starts_with(" Sent"));
    let line = line.unwrap_or_else(|| panic!("no {what} in\n{printed}"));
    let mut words = line.split_whitespace();
    let at = words.position(|word| word == "bytes");
    assert_eq!(at, Some(2), "{line}");
    words.next().unwrap().parse().unwrap()
}

const SHOW: &str = "\"$WEIR\" play\ntc -s qdisc show dev q0\ntc -s class show dev q0\n";

#[test]
fn mq_takes_the_queue_of_the_flow_or_of_skbedit() {
    let folder = Folder::new();
    let frames = (0..400).map(|n| (1_000_000 + n * 1000, n as u16 % 100));
    let printed = run(
        &folder,
        frames,
        &format!(
            "tc qdisc add dev q0 root handle 1: mq
            tc filter add dev q0 egress pref 1 protocol ip flower ip_proto udp dst_port 7 \\
                action skbedit queue_mapping 2
            tc filter add dev q0 egress pref 2 protocol ip flower ip_proto udp dst_port 8 \\
                action skbedit queue_mapping 3 action drop
            send
            {SHOW}"
        ),
    );
    let by_queue = [1, 2, 3, 4].map(|queue| sent(&printed, &format!("class mq 1:{queue} root")));
    assert_eq!(by_queue.iter().sum::<u64>(), 396, "{printed}");
    assert_eq!(sent(&printed, "qdisc mq 1: root"), 396);
    for (queue, packets) in (1..).zip(by_queue) {
        assert_eq!(packets % 4, 0, "a flow of four packets keeps to one queue");
        let qdisc = format!("qdisc pfifo_fast 0: parent 1:{queue}");
        assert_eq!(sent(&printed, &qdisc), packets);
        // 99 flows, binomial: mean 25, deviation 4.3.
        assert!((32..180).contains(&packets), "{by_queue:?}");
    }
    assert_eq!(departures(&folder, "out.pcapng").len(), 396);

    // With one flow alone, which the filter maps, all packets take one queue.
    let frames = (0..10).map(|n| (1_000_000 + n, 7));
    let printed = run(
        &folder,
        frames,
        &format!(
            "tc qdisc add dev q0 root handle 1: mq
            tc filter add dev q0 egress matchall action skbedit queue_mapping 2
            send
            {SHOW}"
        ),
    );
    assert_eq!(sent(&printed, "class mq 1:3 root"), 10);
}

#[test]
fn a_cpu_sends_by_the_queues_sysfs_gives_it() {
    let folder = Folder::new();
    let frames = (0..400).map(|n| (1_000_000 + n * 1000, n as u16 % 100));
    let printed = run(
        &folder,
        frames,
        &format!(
            "tc qdisc add dev q0 root handle 1: mq
            map() {{ echo /sys/class/net/q0/queues/tx-$1/xps_cpus; }}
            ls /sys/class/net/q0/queues/tx-3 | grep xps_cpus
            cat $(map 0) $(map 3)
            echo 1 > $(map 3)
            exec 9> $(map 1)
            echo 1 >&9
            exec 9>&-
            printf 1 | dd of=$(map 0) status=none
            echo 0 > $(map 0)
            cat $(map 0) $(map 1) $(map 3)
            echo 10 > $(map 0) || echo refused
            echo x > $(map 0) || echo refused
            cat /sys/class/net/in0/queues/tx-0/xps_cpus || echo refused
            echo 1 > /sys/class/net/q0/queues/rx-0/xps_cpus || echo refused
            send
            {SHOW}
            tc qdisc replace dev q0 root mqprio num_tc 2 map 0 1 queues 2@0 2@2 hw 0
            cat $(map 3)
            echo 1 > $(map 3)
            cat $(map 3)
            tc qdisc replace dev q0 root handle 7: mqprio num_tc 2 map 0 1 queues 2@0 2@2 hw 0
            cat $(map 3)
            echo 1 > $(map 3)
            tc qdisc replace dev q0 parent 7:4 pfifo
            cat $(map 3)
            tc qdisc del dev q0 root
            cat $(map 3)
            ls -l $(map 3) 2>&1 | cut -c1-10
            (echo 1 > /sys/class/net/q0/other) 2>&1 | grep -o 'Permission denied'"
        ),
    );
    let by_queue = [1, 2, 3, 4].map(|queue| sent(&printed, &format!("class mq 1:{queue} root")));
    assert_eq!([by_queue[0], by_queue[2]], [0, 0], "{printed}");
    assert_eq!(by_queue[1] + by_queue[3], 400);
    // 100 flows of four packets, binomial: mean 200, deviation 20.
    assert!((100..=300).contains(&by_queue[1]), "{by_queue:?}");
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines[..6], ["xps_cpus", "0", "0", "0", "1", "1"]);
    assert_eq!(lines[6..10], ["refused"; 4]);
    let last = "\n0\n1\n0\n1\n0\n-rw-r--r--\nPermission denied\n";
    assert!(printed.ends_with(last), "{printed}");
}

#[test]
fn a_simulated_device_sends_by_its_queues_until_deleted() {
    let folder = Folder::new();
    let frames = (0..400).map(|n| (1_000_000 + n * 1000, n as u16 % 100));
    let printed = run(
        &folder,
        frames,
        "bus() { echo /sys/bus/netdevsim/$1_device; }
        bash -c \"echo '1 2 4' >$(bus new)\"
        exec 9>$(bus new)
        printf 2 >&9
        exec 9>&-
        printf '3 1' | dd of=$(bus new) status=none
        echo x >$(bus new) || echo refused
        echo 1 >$(bus new) || echo refused
        echo 4 >$(bus del) || echo refused
        ip -br link show up
        ip link set eth0 up
        tc qdisc add dev eth0 root handle 1: mq
        tc qdisc add dev eth0 parent 1:1 pfifo
        tc filter add dev in0 ingress matchall action mirred egress redirect dev eth0
        \"$WEIR\" play --until 199us
        tc -s qdisc show dev eth0
        tc -s class show dev eth0
        printf 1 | dd of=$(bus del) status=none
        \"$WEIR\" play
        tc qdisc show dev eth0 || echo gone
        ip -br link | cut -d' ' -f1",
    );
    assert!(
        printed.starts_with("refused\nrefused\nrefused\n"),
        "{printed}"
    );
    let by_queue = [1, 2, 3, 4].map(|queue| sent(&printed, &format!("class mq 1:{queue} root")));
    assert_eq!(sent(&printed, "qdisc mq 1: root"), 200);
    assert_eq!(by_queue.iter().sum::<u64>(), 200);
    // 100 flows of two packets, binomial: mean 50, deviation 9.
    assert!(
        by_queue.iter().all(|queue| (8..120).contains(queue)),
        "{by_queue:?}"
    );
    let after = printed.split_once("\ngone\n").unwrap().1;
    assert!(after.starts_with("lo\nin0\nq0\neth2\neth3\n"), "{after}");
    assert!(departures(&folder, "out.pcapng").is_empty());
}

#[test]
fn mqprio_takes_a_queue_of_the_traffic_class() {
    let folder = Folder::new();
    let frames = (0..300).map(|n| (1_000_000 + n * 1000, n as u16));
    // Ports below 100 have priority 0, those below 200 priority 1, the others 2.
    let printed = run(
        &folder,
        frames,
        &format!(
            "tc qdisc add dev q0 root handle 1: mqprio num_tc 3 map 0 1 2 queues 1@0 1@1 2@2 hw 0
            tc filter add dev in0 ingress pref 1 protocol ip flower ip_proto udp dst_port 100-199 \\
                action skbedit priority 1 continue
            tc filter add dev in0 ingress pref 2 protocol ip flower ip_proto udp dst_port 200-299 \\
                action skbedit priority 2 continue
            send
            {SHOW}"
        ),
    );
    let class = |id: &str| sent(&printed, &format!("class mqprio 1:{id}"));
    assert_eq!(["ffe0", "ffe1", "ffe2"].map(class), [100; 3], "{printed}");
    assert_eq!([class("1"), class("2")], [100; 2]);
    assert_eq!(class("3") + class("4"), 100);
    assert!(class("3") > 20 && class("4") > 20, "{printed}");
    assert_eq!(sent(&printed, "qdisc mqprio 1: root"), 300);
}

#[test]
fn a_waiting_queue_does_not_delay_others() {
    let folder = Folder::new();
    // Twenty packets at once: even ports take queue 0, odd ones queue 1.
    let frames = (0..20).map(|n| (1_000_000, n as u16));
    run(
        &folder,
        frames,
        "tc qdisc add dev q0 root handle 1: mq
        tc qdisc add dev q0 parent 1:2 handle 20: tbf rate 1mbit burst 125 limit 10000
        for port in 1 3 5 7 9 11 13 15 17 19; do
            tc filter add dev q0 egress pref 1 protocol ip flower ip_proto udp dst_port $port \\
                action skbedit queue_mapping 1
        done
        tc filter add dev q0 egress pref 2 matchall action skbedit queue_mapping 0
        send",
    );
    let left = departures(&folder, "out.pcapng");
    assert_eq!(left.len(), 20);
    let start = left[0].0;
    let (even, odd): (Vec<_>, Vec<_>) = left.iter().partition(|(_, port)| port % 2 == 0);
    assert!(even.iter().all(|(time, _)| *time == start));
    // 125 bytes at 1 Mbit/s take a millisecond; the full bucket held one packet.
    for (n, (time, port)) in (0..).zip(odd) {
        assert_eq!((time - start, u64::from(port)), (n * 1_000_000, 2 * n + 1));
    }
}

#[test]
fn multiq_serves_its_bands_in_turn() {
    let folder = Folder::new();
    // Three packets of queue 0, then three of queue 2, all at once behind a plug.
    let frames = (0..6).map(|n| (1_000_000, n as u16));
    run(
        &folder,
        frames,
        "tc qdisc add dev q0 root handle 1: tbf rate 1mbit burst 125 limit 10000
        tc qdisc add dev q0 parent 1:1 handle 2: multiq
        tc filter add dev q0 parent 2: pref 1 protocol ip flower ip_proto udp dst_port 3-5 \\
            action skbedit queue_mapping 2
        tc filter add dev q0 egress matchall action skbedit queue_mapping 0
        send",
    );
    let ports: Vec<_> = departures(&folder, "out.pcapng")
        .into_iter()
        .map(|(_, port)| port)
        .collect();
    // The first leaves before the others arrive; from then on the bands take turns.
    assert_eq!(ports, [0, 3, 1, 4, 2, 5]);
}

#[test]
fn transmit_is_measured_on_request() {
    let folder = Folder::new();
    let frames = (0..40).map(|n| (1_000_000 + n * 1000, n as u16 % 4));
    let printed = run(
        &folder,
        frames,
        "tc qdisc add dev q0 root handle 1: mq
        tc filter add dev q0 egress pref 1 protocol ip flower ip_proto udp dst_port 3 \\
            action skbedit queue_mapping 2
        tc filter add dev q0 egress pref 2 matchall action skbedit queue_mapping 1
        send
        \"$WEIR\" stat qdisc --histogram
        \"$WEIR\" stat qdisc --measure on >/dev/null
        \"$WEIR\" play
        \"$WEIR\" stat qdisc --locks --histogram >text
        echo; echo JSON
        \"$WEIR\" stat qdisc --locks --histogram --json",
    );
    let (before, json) = printed.split_once("JSON\n").unwrap();
    assert!(before.contains("Transmits are not measured"), "{before}");
    let data: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(data["measured"], true);
    let roots = data["roots"].as_array().unwrap();
    assert_eq!(roots.len(), 4, "one per transmit queue: {json}");
    for (queue, packets) in [0, 30, 10, 0].into_iter().enumerate() {
        let root = &roots[queue];
        assert_eq!(
            (&root["device"], &root["queue"]),
            (&"q0".into(), &queue.into())
        );
        assert_eq!(
            (&root["kind"], &root["handle"]),
            (&"pfifo_fast".into(), &"0:".into())
        );
        let transmit = &root["transmit"];
        // Each frame arrives alone, leaves alone, and calls transmit once.
        assert_eq!(transmit["calls"], packets, "{json}");
        assert_eq!(transmit["packets"], packets);
        let times = transmit["ns"].as_array().unwrap().iter();
        let times = times.map(|row| row["count"].as_u64().unwrap());
        assert_eq!(times.sum::<u64>(), packets);
        let ones: Vec<_> = match packets {
            0 => Vec::new(),
            _ => vec![serde_json::json!({ "at_most": 1, "count": packets })],
        };
        assert_eq!(transmit["batches"], serde_json::Value::from(ones));
        // A single processor never waits.
        let lock = &root["lock"];
        assert!(lock["acquisitions"].as_u64().unwrap() >= packets);
        for zero in ["contended", "wait_ns", "max_wait_ns"] {
            assert_eq!(lock[zero], 0, "{zero}");
        }
    }
    let text = fs::read_to_string(folder.0.join("text")).unwrap();
    assert!(text.contains("q0 queue 1: 30 calls, 30 packets"), "{text}");
}

#[test]
fn the_burst_in_front_of_a_lock_is_a_sysctl() {
    let script = "sysctl net.core.qdisc_max_burst
        sysctl -w net.core.qdisc_max_burst=7
        sysctl -w net.core.qdisc_max_burst=-1
        cat /proc/sys/net/core/qdisc_max_burst";
    let (printed, _) = common::script(User::Own, script);
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "net.core.qdisc_max_burst = 1000",
            "net.core.qdisc_max_burst = 7"
        ]
    );
    assert!(lines[2].contains("Invalid argument"), "{printed}");
    assert_eq!(lines[3], "7");
}

/// The time at which the captures of the gate tests begin (the script sees it) and the base time of
/// their schedules, ns since 1970.
const START: u64 = 1_000_000_000_000_000_000;
const BASE: u64 = START + 3_000_000;

/// Returns a script with a `taprio` of two classes by priority, whose gates are open for one and
/// for two milliseconds. A frame takes 100 us at the 10 Mbit/s of a dummy. Odd ports have priority
/// 1.
fn gates(more: &str) -> String {
    format!(
        "tc qdisc add dev q0 root handle 1: taprio num_tc 2 map 0 1 queues 1@0 1@1 \\
            base-time {BASE} sched-entry S 01 1000000 sched-entry S 02 2000000 clockid CLOCK_TAI
        for port in 1 3 5 7 9 11 13 15 17 19 21 23 25 27 29 31 33 35 37 39 41 43 45 47 49; do
            tc filter add dev in0 ingress pref 1 protocol ip flower ip_proto udp dst_port $port \\
                action skbedit priority 1 continue
        done
        {more}
        send"
    )
}

/// Returns the departures by priority: time in ns after [`BASE`] and count, in order.
fn by_class(folder: &Folder) -> [Vec<(i64, usize)>; 2] {
    let left = departures(folder, "out.pcapng");
    [0, 1].map(|class| {
        let mut found: Vec<(i64, usize)> = Vec::new();
        for (time, _) in left.iter().filter(|(_, port)| port % 2 == class) {
            let time = *time as i64 - BASE as i64;
            match found.last_mut() {
                Some((last, count)) if *last == time => *count += 1,
                _ => found.push((time, 1)),
            }
        }
        found
    })
}

#[test]
fn taprio_opens_gates_to_the_nanosecond_and_the_byte() {
    let folder = Folder::new();
    // One frame of each class before the schedule, 25 of each in the middle of its first entry.
    let frames = [(START + 1000, 50), (START + 1000, 49)];
    let all = (0..50).map(|port| (BASE + 500_000, port));
    run(&folder, frames.into_iter().chain(all), &gates(""));
    let ms = 1_000_000;
    // An entry carries 10 frames per millisecond, regardless of their arrival, if the last one ends
    // in time.
    let first = vec![(1000 - 3 * ms, 1), (ms / 2, 10), (3 * ms, 10), (6 * ms, 5)];
    let second = vec![(1000 - 3 * ms, 1), (ms, 20), (4 * ms, 5)];
    assert_eq!(by_class(&folder), [first, second]);
}

#[test]
fn taprio_holds_a_frame_that_would_not_end_in_time() {
    let folder = Folder::new();
    // 100 us before the gate closes, and a nanosecond later.
    let frames = [(START, 50), (BASE + 900_000, 2), (BASE + 900_001, 4)];
    run(&folder, frames, &gates(""));
    let expected = [(-3_000_000, 1), (900_000, 1), (3_000_000, 1)];
    assert_eq!(by_class(&folder)[0], expected);
}

#[test]
fn taprio_changes_its_schedule_at_the_new_base_time() {
    let folder = Folder::new();
    let all = (0..50).map(|port| (BASE + 500_000, port));
    let frames = [(START, 50)].into_iter().chain(all);
    let later = BASE + 6_000_000;
    // A schedule set before the first one begins replaces it. The gates stay open until the timer
    // that was armed for the first one expires.
    let change = format!(
        "tc qdisc replace dev q0 root handle 1: taprio num_tc 2 map 0 1 queues 1@0 1@1 \\
            base-time {later} sched-entry S 02 500000 sched-entry S 01 500000 clockid CLOCK_TAI"
    );
    run(&folder, frames, &gates(&change));
    let ms = 1_000_000;
    // The timer of the first: the second schedule is active by now, and its first entry lasts until
    // its own end, long after. 5 frames fit in half a millisecond.
    let class1 = vec![
        (ms / 2, 5),
        (7 * ms, 5),
        (8 * ms, 5),
        (9 * ms, 5),
        (10 * ms, 5),
    ];
    let gate = (0..5).map(|n| (6 * ms + ms / 2 + n * ms, 5));
    let class0 = [(-3 * ms, 1)].into_iter().chain(gate).collect();
    assert_eq!(by_class(&folder), [class0, class1]);
}

#[test]
fn taprio_writes_times_that_etf_keeps_to_the_nanosecond() {
    let folder = Folder::new();
    let all = (0..50).map(|port| (BASE + 500_000, port));
    let etf = "etf clockid CLOCK_TAI delta 1000 skip_sock_check";
    let assist = format!(
        "tc qdisc replace dev q0 root handle 2: taprio num_tc 2 map 0 1 queues 1@0 1@1 base-time {BASE} \\
            sched-entry S 01 1000000 sched-entry S 02 2000000 clockid CLOCK_TAI flags 1 txtime-delay 0
        tc qdisc replace dev q0 parent 2:1 {etf}
        tc qdisc replace dev q0 parent 2:2 {etf}"
    );
    let frames = [(START, 50)].into_iter().chain(all);
    run(&folder, frames, &gates(&assist));
    // A frame takes 100 us. `etf` releases it when less than its delta is left, and a later one at
    // once.
    let (ms, us) = (1_000_000, 1000);
    let sent = |from: i64, count: i64| {
        let times = (0..count).map(move |n| from + n * 100 * us - us + 1);
        times.map(move |time| (time.max(ms / 2), 1))
    };
    let class0 = sent(ms / 2, 5)
        .chain(sent(3 * ms, 10))
        .chain(sent(6 * ms, 10));
    let class1: Vec<_> = sent(ms, 20).chain(sent(4 * ms, 5)).collect();
    let first = [(-3 * ms, 1)].into_iter();
    assert_eq!(by_class(&folder), [first.chain(class0).collect(), class1]);
}

/// The default qdiscs of queues that are not in use are not shown, as Linux 6.18 answered these commands.
#[test]
fn default_qdiscs_of_unused_queues_are_hidden() {
    if !common::has("ethtool", "ethtool") {
        return;
    }
    let script = "set -e
        show() { echo $1; tc qdisc show dev v0 | cut -d' ' -f 2-5; }
        ip link add v0 numtxqueues 4 numrxqueues 4 type veth peer name v1 numtxqueues 4 numrxqueues 4
        ethtool -L v0 rx 4 tx 4; ethtool -L v1 rx 4 tx 4
        tc qdisc add dev v0 root handle 1: mq; ip link set v0 up
        ethtool -L v0 tx 2; show two
        tc class show dev v0 | wc -l
        tc qdisc add dev v0 parent 1:4 handle 9: pfifo
        ethtool -L v0 tx 4; show four
        ethtool -L v0 tx 1; show one
        tc qdisc del dev v0 root; tc qdisc add dev v0 root handle 2: mq; show new";
    let (said, status) = common::script(User::Own, script);
    assert_eq!(status, 0, "{said}");
    let expected = "two\nmq 1: root \npfifo_fast 0: parent 1:2\npfifo_fast 0: parent 1:1\n4\n\
        four\nmq 1: root \npfifo_fast 0: parent 1:3\npfifo_fast 0: parent 1:2\npfifo_fast 0: parent 1:1\n\
        pfifo 9: parent 1:4\n\
        one\nmq 1: root \npfifo_fast 0: parent 1:1\npfifo 9: parent 1:4\n\
        new\nmq 2: root \npfifo_fast 0: parent 2:1\n";
    assert_eq!(said, expected);
}
