// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Steering of received packets to CPUs through real programs: the files of `/sys/class/net`, `/proc/net` and
//! `/proc/sys/net`, `weir up --cpus` and `--pin`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{Folder, User, output, text, users, weir};

/// The time limit of a step: longer than any takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// A stack that is up.
struct Stack {
    user: User,
    child: Child,
    folder: Folder,
}

impl Stack {
    fn up(user: User, folder: Folder, args: &[&str]) -> Self {
        let socket = folder.file("control");
        let mut up = weir(user, &["up", "--socket", &socket]);
        let mut child = up.args(args).stdout(Stdio::piped()).spawn().unwrap();
        common::wait_until_up(&mut child);
        Self {
            user,
            child,
            folder,
        }
    }

    fn weir(&self, command: &str, args: &[&str]) -> String {
        let socket = self.folder.file("control");
        let (first, rest) = args.split_at(usize::from(command == "port"));
        let mut weir = weir(self.user, &[command]);
        let output = output(weir.args(first).args(["--socket", &socket]).args(rest));
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs a script. Returns what it prints, with the errors.
    fn sh(&self, script: &str) -> String {
        let script = format!("exec 2>&1\nset -e\n{script}");
        self.weir("exec", &["--", "bash", "-c", &script])
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_files_are_linux_s() {
    for &user in users() {
        let stack = Stack::up(user, Folder::new(), &["--cpus", "2"]);
        let said = stack.sh(
            "ip link add v0 numrxqueues 2 numtxqueues 1 type veth peer name v1
            Q=/sys/class/net/v0/queues
            refused() { (eval \"$1\") 2>&1 | sed 's/.*: //'; }
            cat $Q/rx-0/rps_cpus $Q/rx-1/rps_cpus
            echo 3 > $Q/rx-1/rps_cpus; cat $Q/rx-0/rps_cpus $Q/rx-1/rps_cpus
            refused 'echo 4 > $Q/rx-1/rps_cpus'
            refused 'echo x > $Q/rx-1/rps_cpus'
            cat $Q/rx-1/rps_cpus
            echo 00000000 > $Q/rx-1/rps_cpus; cat $Q/rx-1/rps_cpus
            cat $Q/rx-0/rps_flow_cnt
            echo 1000 > $Q/rx-0/rps_flow_cnt; cat $Q/rx-0/rps_flow_cnt
            refused 'echo -1 > $Q/rx-0/rps_flow_cnt'
            refused 'echo 4294967297 > $Q/rx-0/rps_flow_cnt'
            refused 'echo 4294967296 > $Q/rx-0/rps_flow_cnt'
            echo 0x10 > $Q/rx-0/rps_flow_cnt; cat $Q/rx-0/rps_flow_cnt
            cat $Q/tx-0/xps_rxqs
            echo 2 > $Q/tx-0/xps_rxqs; cat $Q/tx-0/xps_rxqs
            refused 'echo 4 > $Q/tx-0/xps_rxqs'",
        );
        let lines: Vec<_> = said.lines().collect();
        let expected = [
            "0",
            "0",
            "0",
            "3",
            "Value too large for defined data type",
            "Invalid argument",
            "3",
            "0",
            "0",
            "1024",
            "Invalid argument",
            "Invalid argument",
            "Cannot allocate memory",
            "16",
            "0",
            "2",
            "Value too large for defined data type",
        ];
        assert_eq!(lines, expected, "{user:?}: {said}");
    }
}

#[test]
fn the_sysctls_are_linux_s() {
    for &user in users() {
        let stack = Stack::up(user, Folder::new(), &["--cpus", "2"]);
        let said = stack.sh("C=/proc/sys/net/core
            refused() { (eval \"$1\") 2>&1 | sed 's/.*: //'; }
            cat $C/netdev_max_backlog $C/rps_sock_flow_entries
            sysctl -w net.core.netdev_max_backlog=5 net.core.rps_sock_flow_entries=1000
            cat $C/rps_sock_flow_entries
            refused 'echo 536870913 > $C/rps_sock_flow_entries'
            refused 'echo -1 > $C/rps_sock_flow_entries'
            refused 'echo 536870912 > $C/rps_sock_flow_entries'
            echo 0 > $C/rps_sock_flow_entries; cat $C/rps_sock_flow_entries
            cat $C/flow_limit_cpu_bitmap $C/flow_limit_table_len
            echo 3 > $C/flow_limit_cpu_bitmap; cat $C/flow_limit_cpu_bitmap
            refused 'echo 100 > $C/flow_limit_table_len'
            refused 'echo x > $C/flow_limit_cpu_bitmap'
            echo 8192 > $C/flow_limit_table_len; cat $C/flow_limit_table_len
            cut -d' ' -f1-13 /proc/net/softnet_stat");
        let lines: Vec<_> = said.lines().collect();
        let zeros = "00000000 ".repeat(12);
        let expected = [
            "1000",
            "0",
            "net.core.netdev_max_backlog = 5",
            "net.core.rps_sock_flow_entries = 1000",
            "1024",
            "Invalid argument",
            "Invalid argument",
            "Cannot allocate memory",
            "0",
            "0",
            "4096",
            "3",
            "Invalid argument",
            "Invalid argument",
            "8192",
            &format!("{zeros}00000000"),
            &format!("{zeros}00000001"),
        ];
        assert_eq!(lines, expected, "{user:?}: {said}");
    }
}

const FLOWS: usize = 64;
const ROUNDS: u32 = 60;

fn capture() -> Vec<u8> {
    capture_of(FLOWS as u16, ROUNDS)
}

/// A capture of frames of several flows, all of one time. The payload is the number of the frame in its flow.
fn capture_of(flows: u16, rounds: u32) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_ne_bytes());
    }
    for number in 0..rounds {
        for flow in 0..flows {
            let mut frame = vec![2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 2, 8, 0];
            frame.extend([0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0]);
            frame.extend([10, 0, 1, 2, 10, 0, 2, 2]);
            let sum = frame[14..34].chunks(2);
            let sum: u32 = sum
                .map(|two| u32::from(two[0]) << 8 | u32::from(two[1]))
                .sum();
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            frame.extend((1000 + flow).to_be_bytes());
            frame.extend([0, 9, 0, 12, 0, 0]);
            frame.extend(number.to_be_bytes());
            for word in [1, 0, frame.len() as u32, frame.len() as u32] {
                file.extend(word.to_ne_bytes());
            }
            file.extend(frame);
        }
    }
    file
}

/// The frames of a capture spread over both CPUs and leave complete, each flow in order, while `rps_cpus`
/// changes.
#[test]
fn a_capture_is_spread_by_flow() {
    for &user in users() {
        let folder = Folder::new();
        let (lan, wan) = (folder.file("lan.pcap"), folder.file("wan.pcap"));
        std::fs::write(&lan, capture()).unwrap();
        let (input, output) = (format!("d1={lan}"), format!("d2={wan}"));
        let mut args = vec!["--cpus", "2", "--in", &input, "--out", &output];
        if std::thread::available_parallelism().unwrap().get() > 1 {
            args.push("--pin");
        }
        let stack = Stack::up(user, folder, &args);
        stack.sh(
            "sysctl -qw net.ipv4.ip_forward=1 net.core.netdev_max_backlog=100000
            for n in 2 1; do
                ip link add d$n address 2:0:0:0:$n:1 type dummy
                ip link set d$n arp on up
                ip address add 10.0.$n.1/24 dev d$n
                ip neigh replace 10.0.$n.2 lladdr 2:0:0:0:$n:2 dev d$n
            done
            R=/sys/class/net/d1/queues/rx-0/rps_cpus
            grep -qx 3 $R || { echo \"not spread by default\"; cat $R; exit 1; }
            for mask in 1 2 3 0 2 1 0 3; do echo $mask > $R; done",
        );
        let frames = FLOWS * ROUNDS as usize;
        let start = Instant::now();
        let sent = || -> usize {
            let sent = stack.sh("cat /sys/class/net/d2/statistics/tx_packets");
            sent.trim().parse().unwrap()
        };
        while sent() < frames {
            assert!(start.elapsed() < PATIENCE, "{} of {frames} left", sent());
            std::thread::sleep(Duration::from_millis(50));
        }
        let softnet = stack.sh("cat /proc/net/softnet_stat");
        let columns: Vec<Vec<u64>> = softnet
            .lines()
            .map(|line| {
                let words = line.split(' ');
                words
                    .map(|word| u64::from_str_radix(word, 16).unwrap())
                    .collect()
            })
            .collect();
        assert_eq!(columns.len(), 2, "{softnet}");
        assert!(
            columns.iter().all(|cpu| cpu.len() == 13 && cpu[0] > 0),
            "{softnet}"
        );
        assert!(
            columns.iter().all(|cpu| cpu[1] == 0 && cpu[11] == 0),
            "{softnet}"
        );
        assert!(columns.iter().any(|cpu| cpu[9] > 0), "{softnet}");
        let mut next = [0; FLOWS];
        let mut reader = weir_port::pcap::Reader::open(&wan).unwrap();
        let mut frame = weir_port::Frame::default();
        while weir_port::Source::read(&mut reader, &mut frame).unwrap() {
            let data = &frame.data;
            if data.len() < 46 || data[12..14] != [8, 0] {
                continue;
            }
            let flow = usize::from(u16::from_be_bytes([data[34], data[35]])) - 1000;
            let number = u32::from_be_bytes([data[42], data[43], data[44], data[45]]);
            assert_eq!(number, next[flow], "{user:?}: flow {flow}");
            next[flow] += 1;
        }
        assert_eq!(next, [ROUNDS; FLOWS]);
    }
}

/// The limit of flows drops packets of a flow that is alone, and they are in `/proc/net/softnet_stat`.
#[test]
fn the_limit_of_flows_is_in_softnet_stat() {
    let stack = Stack::up(User::Own, Folder::new(), &["--cpus", "2"]);
    let file = stack.folder.file("one.pcap");
    std::fs::write(&file, capture_of(1, 1000)).unwrap();
    stack.sh(
        "ip link add d1 address 2:0:0:0:1:1 type dummy; ip link set d1 up
        sysctl -qw net.core.netdev_max_backlog=2
        sysctl -qw net.core.flow_limit_cpu_bitmap=2
        echo 2 > /sys/class/net/d1/queues/rx-0/rps_cpus",
    );
    stack.weir("inject", &["d1", &file, "--receive"]);
    let start = Instant::now();
    loop {
        let said = stack.sh("tail -n 1 /proc/net/softnet_stat");
        let columns = said.trim().split(' ');
        let columns: Vec<_> = columns
            .map(|word| u32::from_str_radix(word, 16).unwrap())
            .collect();
        let (done, dropped, limited) = (columns[0], columns[1], columns[10]);
        // The waiting packets have not been processed yet.
        if done + dropped == 1000 {
            // More than half of the last 128 packets are its own from the 66th packet on, at the latest.
            assert!(limited > 0 && limited <= dropped, "{said}");
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{said}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port with fewer queues than CPUs is spread over all of them, until the port goes or a user says
/// otherwise.
#[test]
fn a_port_is_spread_until_told_otherwise() {
    let stack = Stack::up(User::Own, Folder::new(), &["--cpus", "2"]);
    stack.sh("ip link add d0 type dummy; ip link add d1 type dummy");
    for device in ["d0", "d1"] {
        stack.weir("port", &["add", device, "null"]);
    }
    let mask = |device: &str| {
        let file = format!("cat /sys/class/net/{device}/queues/rx-0/rps_cpus");
        stack.sh(&file).trim().to_owned()
    };
    assert_eq!([mask("d0"), mask("d1")], ["3", "3"]);
    stack.sh("echo 2 > /sys/class/net/d1/queues/rx-0/rps_cpus");
    let shown = stack.weir("port", &["show"]);
    assert!(shown.contains("steered to 0,1,"), "{shown}");
    assert!(shown.contains("steered to 1,"), "{shown}");
    for device in ["d0", "d1"] {
        stack.weir("port", &["del", device]);
    }
    assert_eq!([mask("d0"), mask("d1")], ["0", "2"]);
}

#[test]
fn processors_that_cannot_be_used_are_refused() {
    for (list, why) in [
        ("0-", "not a list of processors such as 0-3,6"),
        ("0,0", "processor 0 is named twice"),
        ("1023", "this process may not use processor 1023"),
    ] {
        let up = output(&mut weir(User::Own, &["up", "--cpus", "2", "--pin", list]));
        let said = text(&up.stderr);
        assert!(!up.status.success() && said.contains(why), "{said}");
    }
}
