// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir join` and `weir port`: real programs with the kernel's sockets talk through a stack, as this
//! user and as nobody; devices of the kernel are ports of the stack.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Folder, User, has, output, skip, text, users, weir};
use serde_json::Value;

/// The time limit of a step: longer than any takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running stack of a user.
struct Stack {
    user: User,
    socket: String,
    folder: Folder,
    child: Child,
}

impl Stack {
    fn up(user: User) -> Self {
        let folder = Folder::new();
        let socket = folder.file("control");
        let mut command = weir(user, &["up", "--socket", &socket]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        common::wait_until_up(&mut child);
        Self {
            user,
            socket,
            folder,
            child,
        }
    }

    fn command(&self, words: &[&str], rest: &[&str]) -> Command {
        let mut all = words.to_vec();
        all.extend(["--socket", &self.socket]);
        all.extend(rest);
        weir(self.user, &all)
    }

    fn weir(&self, words: &[&str], rest: &[&str]) -> Output {
        output(&mut self.command(words, rest))
    }

    /// Runs a command that must succeed, and returns its output.
    #[track_caller]
    fn works(&self, words: &[&str], rest: &[&str]) -> String {
        let output = self.weir(words, rest);
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}{}", text(&output.stderr));
        said
    }

    /// Runs a command that must fail with this status, and returns its messages.
    #[track_caller]
    fn fails(&self, words: &[&str], rest: &[&str], status: i32) -> String {
        let output = self.weir(words, rest);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        said
    }

    #[track_caller]
    fn script(&self, script: &str) {
        self.works(&["exec"], &["--", "sh", "-ec", script]);
    }

    fn ports(&self) -> Vec<Value> {
        let all = self.works(&["port", "show"], &["--json"]);
        serde_json::from_str(&all).unwrap()
    }

    /// Waits until the stack has this many ports.
    #[track_caller]
    fn wait_for_ports(&self, count: usize) {
        let start = Instant::now();
        while self.ports().len() != count {
            assert!(start.elapsed() < PATIENCE, "{:?}", self.ports());
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two hosts, each in a namespace, behind a router.
const ROUTER: &str = "
    ip netns add r
    for n in 1 2; do
        ip netns add h$n
        ip link add e$n netns r type veth peer name eth0 netns h$n
        ip -n r addr add 10.0.$n.1/24 dev e$n
        ip -n r link set e$n up
        ip -n h$n addr add 10.0.$n.2/24 dev eth0
        ip -n h$n link set eth0 up
        ip -n h$n route add default via 10.0.$n.1
    done
    ip netns exec r sysctl -qw net.ipv4.ip_forward=1
";

/// Returns whether a user can make network namespaces here; if not, skips.
fn may_join(user: User) -> bool {
    let mut command = common::command(user, "unshare");
    let output = output(command.args(["-rn", "true"]));
    if !output.status.success() {
        skip(&format!(
            "{user:?}: no namespaces: {}",
            text(&output.stderr)
        ));
    }
    output.status.success()
}

/// Returns the users who can join, and whether the programs of a test are here.
fn joiners(programs: &[(&str, &str)]) -> Vec<User> {
    let all = [("unshare", "util-linux"), ("ip", "iproute2")];
    if !all
        .iter()
        .chain(programs)
        .all(|(program, package)| has(program, package))
    {
        return Vec::new();
    }
    users()
        .iter()
        .copied()
        .filter(|user| may_join(*user))
        .collect()
}

/// A program in the background, killed on drop.
struct Background(Child);

impl Background {
    fn new(command: &mut Command) -> Self {
        Self(
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn hosts_talk_through_a_router() {
    for user in joiners(&[("ping", "iputils-ping")]) {
        let stack = Stack::up(user);
        stack.script(ROUTER);
        let _other =
            Background::new(&mut stack.command(&["join"], &["h2/eth0", "--", "sleep", "600"]));
        stack.wait_for_ports(1);
        let said = stack.works(
            &["join"],
            &[
                "h1/eth0", "--", "ping", "-c", "3", "-i", "0.2", "-W", "20", "10.0.2.2",
            ],
        );
        assert!(said.contains("3 received"), "{said}");
        // The router has decremented the TTL.
        assert!(said.contains("ttl=63"), "{said}");
        // The port of a program that has ended is detached.
        stack.wait_for_ports(1);
        let ports = stack.ports();
        assert_eq!(ports[0]["device"], "h2/eth0");
        assert_eq!(ports[0]["as"], "host");
        assert!(ports[0]["rx_packets"].as_u64() >= Some(4), "{ports:?}");
        assert!(ports[0]["tx_packets"].as_u64() >= Some(3), "{ports:?}");
    }
}

#[test]
fn curl_fetches_from_a_real_server() {
    for user in joiners(&[("curl", "curl"), ("python3", "python3")]) {
        let stack = Stack::up(user);
        stack.script(ROUTER);
        let content: String = (0..100_000).map(|n| format!("{n}\n")).collect();
        std::fs::write(stack.folder.file("numbers"), &content).unwrap();
        let root = stack.folder.0.to_str().unwrap();
        let serve = [
            "h2/eth0",
            "--",
            "/usr/bin/python3",
            "-m",
            "http.server",
            "80",
            "-d",
            root,
        ];
        let _server = Background::new(&mut stack.command(&["join"], &serve));
        stack.wait_for_ports(1);
        let said = stack.works(
            &["join"],
            &[
                "h1/eth0",
                "--",
                "curl",
                "-sS",
                "--retry",
                "20",
                "--retry-connrefused",
                "--retry-delay",
                "1",
                "http://10.0.2.2/numbers",
            ],
        );
        assert!(said == content, "{} bytes arrived", said.len());
    }
}

#[test]
fn iperf3_gets_what_htb_and_netem_leave() {
    for user in joiners(&[("iperf3", "iperf3"), ("ping", "iputils-ping")]) {
        let stack = Stack::up(user);
        stack.script(ROUTER);
        stack.script(
            "tc -n r qdisc add dev e2 root handle 1: htb default 1
            tc -n r class add dev e2 parent 1: classid 1:1 htb rate 10mbit burst 15k
            tc -n r qdisc add dev e1 root netem delay 25ms",
        );
        let serve = ["h2/eth0", "--", "iperf3", "-s"];
        let _server = Background::new(&mut stack.command(&["join"], &serve));
        stack.wait_for_ports(1);
        sleep(Duration::from_millis(500));
        let said = stack.works(
            &["join"],
            &[
                "h1/eth0", "--", "ping", "-c", "3", "-i", "0.2", "-W", "20", "10.0.2.2",
            ],
        );
        let least = said.split("min/avg/max/mdev = ").nth(1).unwrap();
        let least: f64 = least.split('/').next().unwrap().parse().unwrap();
        assert!(least >= 25.0, "{said}");
        let said = stack.works(
            &["join"],
            &["h1/eth0", "--", "iperf3", "-c", "10.0.2.2", "-t", "3", "-J"],
        );
        let result: Value = serde_json::from_str(&said).unwrap();
        let rate = result["end"]["sum_received"]["bits_per_second"]
            .as_f64()
            .unwrap();
        // Payload without headers; a busy machine may be slower, never faster.
        assert!(rate < 10.2e6, "{rate}");
        assert!(rate > 1e6, "{rate}: {said}");
    }
}

#[test]
fn tcpdump_sees_the_frames_inside() {
    for user in joiners(&[("tcpdump", "tcpdump"), ("ping", "iputils-ping")]) {
        let stack = Stack::up(user);
        stack.script(ROUTER);
        // As root, tcpdump drops to a user who cannot open the output.
        let script = "[ $(id -u) = 0 ] && root='-Z root'; tcpdump $root -nlc 2 -i eth0 icmp 2>/dev/null & dump=$!
            ping -i 0.2 10.0.1.1 >/dev/null & pings=$!
            wait $dump; kill $pings";
        let said = stack.works(&["join"], &["h1/eth0", "--", "sh", "-c", script]);
        assert!(
            said.contains("10.0.1.2 > 10.0.1.1: ICMP echo request"),
            "{said}"
        );
        assert!(
            said.contains("10.0.1.1 > 10.0.1.2: ICMP echo reply"),
            "{said}"
        );
    }
}

#[test]
fn a_program_is_at_the_other_end_of_a_dummy() {
    for user in joiners(&[("ping", "iputils-ping")]) {
        let stack = Stack::up(user);
        stack.script(
            "ip link add lan0 type dummy; ip addr add 10.9.0.1/24 dev lan0; ip link set lan0 up",
        );
        let said = stack.fails(&["join"], &["lan0", "--", "true"], 125);
        assert!(said.contains("give --address ADDR/LEN"), "{said}");
        // As the host of the device, the program has the device's addresses.
        let said = stack.works(&["join", "--as", "host"], &["lan0", "--", "ip", "addr"]);
        assert!(said.contains("inet 10.9.0.1/24"), "{said}");
        stack.wait_for_ports(0);
        let address = [
            "--address",
            "10.9.0.2/24",
            "--route",
            "default via 10.9.0.1",
        ];
        let rest = [
            "lan0",
            "--",
            "sh",
            "-c",
            "ip route; ping -c 1 -W 20 10.9.0.1",
        ];
        let said = stack.works(&["join"], &[&address[..], &rest].concat());
        assert!(said.contains("default via 10.9.0.1 dev lan0"), "{said}");
        assert!(said.contains("1 received"), "{said}");
    }
}

#[test]
fn exit_statuses_and_errors_of_join() {
    for user in joiners(&[]) {
        let stack = Stack::up(user);
        stack.script(ROUTER);
        let join = |rest: &[&str], status| stack.fails(&["join"], rest, status);
        join(&["h1/eth0", "--", "sh", "-c", "exit 7"], 7);
        stack.wait_for_ports(0);
        let said = join(&["h1/eth0", "--", "/nonexistent"], 127);
        assert!(said.contains("/nonexistent: No such file"), "{said}");
        stack.wait_for_ports(0);
        let said = join(&["h1/eth0", "--", "/"], 126);
        assert!(said.contains("/: "), "{said}");
        stack.wait_for_ports(0);
        let said = join(&["h1/eth9", "--", "true"], 125);
        assert!(said.contains("there is no device h1/eth9"), "{said}");
        let said = join(&["h9/eth0", "--", "true"], 125);
        assert!(said.contains("there is no namespace h9"), "{said}");
        let _other =
            Background::new(&mut stack.command(&["join"], &["h1/eth0", "--", "sleep", "600"]));
        stack.wait_for_ports(1);
        let said = join(&["h1/eth0", "--", "true"], 125);
        assert!(said.contains("h1/eth0 has a port already"), "{said}");
        for (flag, value) in [
            ("--address", "10.0.0.1"),
            ("--address", "10.0.0.1/33"),
            ("--route", "via"),
        ] {
            join(&[flag, value, "h1/eth0", "--", "true"], 2);
        }
    }
}

#[test]
fn deleting_a_device_detaches_its_port() {
    for user in joiners(&[]) {
        let stack = Stack::up(user);
        stack.script(ROUTER);
        let _host =
            Background::new(&mut stack.command(&["join"], &["h1/eth0", "--", "sleep", "600"]));
        stack.wait_for_ports(1);
        stack.script("ip -n r link del e1");
        stack.wait_for_ports(0);
    }
}

#[test]
fn errors_of_port() {
    let stack = Stack::up(User::Own);
    stack.script("ip link add d0 type dummy; ip link add d1 type dummy");
    let add = |rest: &[&str]| stack.fails(&["port", "add"], rest, 125);
    for (rest, said) in [
        (&["d0", "tapp"][..], "the kinds are af_packet"),
        (&["d0", "tap", "nam=x"], "did you mean name?"),
        (&["d0", "tap", "queues=0"], "queues must be from 1 to 16"),
        (&["d0", "af_packet"], "dev= is required"),
        (
            &["d0", "socket", "type=dgram,mode=listen,path=/x"],
            "mode= belongs to type=stream",
        ),
        (&["d9", "null"], "there is no device d9"),
    ] {
        let message = add(rest);
        assert!(message.contains(said), "{rest:?}: {message}");
    }
    stack.works(&["port", "add"], &["d0", "null"]);
    assert!(add(&["d0", "null"]).contains("d0 has a port already"));
    let shown = stack.works(&["port", "show"], &[]);
    assert!(shown.starts_with("d0: null null as wire, up"), "{shown}");
    let message = stack.fails(&["port", "show"], &["d1"], 125);
    assert!(message.contains("d1 has no port"), "{message}");
    stack.works(&["port", "del"], &["d0"]);
    let message = stack.fails(&["port", "del"], &["d0"], 125);
    assert!(message.contains("d0 has no port"), "{message}");
    assert!(stack.ports().is_empty());
    // Inside a client there is no way to the host's network.
    let inside = stack.weir(&["exec"], &["--", "weir", "port", "add", "d0", "tap"]);
    assert!(
        text(&inside.stderr).contains("outside of `weir exec`"),
        "{inside:?}"
    );
    // Nor are there live ports under virtual time.
    let (said, status) =
        common::script(User::Own, "ip link add d0 type dummy; weir join d0 -- true");
    assert_eq!(status, 125, "{said}");
}

/// Frames go both ways through a UNIX socket, and the carrier follows the connection.
#[test]
fn a_socket_is_a_cable() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    let stack = Stack::up(User::Own);
    stack.script("ip link add d0 type dummy; ip addr add 10.9.0.1/24 dev d0; ip link set d0 up");
    let path = stack.folder.file("cable");
    stack.works(&["port", "add"], &["d0", "socket", &format!("path={path}")]);
    let carrier = |wanted: bool| {
        let start = Instant::now();
        while stack.ports()[0]["carrier"] != wanted {
            assert!(start.elapsed() < PATIENCE);
            sleep(Duration::from_millis(20));
        }
    };
    carrier(false);
    for _ in 0..2 {
        let mut cable = UnixStream::connect(&path).unwrap();
        cable.set_read_timeout(Some(PATIENCE)).unwrap();
        carrier(true);
        // An ARP request for the stack's address, in two pieces.
        let mut request = vec![0xff; 6];
        request.extend([2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        request.extend([2, 0, 0, 0, 0, 9, 10, 9, 0, 2, 0, 0, 0, 0, 0, 0, 10, 9, 0, 1]);
        let mut framed = (request.len() as u32).to_be_bytes().to_vec();
        framed.extend(&request);
        cable.write_all(&framed[..17]).unwrap();
        sleep(Duration::from_millis(50));
        cable.write_all(&framed[17..]).unwrap();
        // Other frames of the stack may come before the reply.
        loop {
            let mut length = [0; 4];
            cable.read_exact(&mut length).unwrap();
            let mut frame = vec![0; u32::from_be_bytes(length) as usize];
            cable.read_exact(&mut frame).unwrap();
            if frame[12..14] == [8, 6] && frame[20..22] == [0, 2] {
                assert_eq!(frame[28..32], [10, 9, 0, 1]);
                break;
            }
        }
        drop(cable);
        carrier(false);
    }
    // An impossible length ends the connection, not the port.
    let mut cable = UnixStream::connect(&path).unwrap();
    cable.set_read_timeout(Some(PATIENCE)).unwrap();
    carrier(true);
    cable.write_all(&[0xff; 8]).unwrap();
    carrier(false);
    assert_eq!(stack.ports()[0]["error"], Value::Null);
}

/// Runs in namespaces of its own: a device of the kernel, a TAP device and an AF_PACKET port.
#[test]
fn devices_of_the_kernel_are_ports() {
    if joiners(&[("ping", "iputils-ping")]).is_empty() {
        return;
    }
    let folder = Folder::new();
    let socket = folder.file("control");
    let script = format!(
        "set -e
        export PATH=$PATH:/usr/sbin:/sbin
        weir() {{ command=$1; shift; '{weir}' $command \"$@\"; }}
        '{weir}' up --socket {socket} >/dev/null 2>&1 & up=$!
        for n in $(seq 100); do [ -S {socket} ] && break; sleep 0.1; done
        weir exec --socket {socket} -- sh -ec '
            ip link add p0 type dummy; ip addr add 10.5.0.2/24 dev p0; ip link set p0 up
            ip link add p1 type dummy; ip addr add 10.6.0.2/24 dev p1; ip link set p1 up'
        ip link add v0 type veth peer name v1
        ip link set v0 up; ip addr add 10.5.0.1/24 dev v1; ip link set v1 up
        '{weir}' port add --socket {socket} p0 af_packet dev=v0
        ping -c 2 -i 0.2 -W 20 10.5.0.2
        if [ -w /dev/net/tun ]; then
            '{weir}' port add --socket {socket} p1 tap name=t0,queues=2
            ip addr add 10.6.0.1/24 dev t0; ip link set t0 up
            ping -c 2 -i 0.2 -W 20 10.6.0.2
        else
            echo 'no /dev/net/tun'
        fi
        # The device takes the kernel device's MTU and address.
        weir exec --socket {socket} -- ip -br link show p0
        ip -br link show v0
        for n in $(seq 20); do
            '{weir}' port del --socket {socket} p0
            '{weir}' port add --socket {socket} p0 af_packet dev=v0
        done
        ping -c 1 -W 20 10.5.0.2
        # The kernel's device goes: the port ends with an error and can be replaced.
        ip link del v0
        for n in $(seq 100); do '{weir}' port show --socket {socket} p0 | grep -Eq 'no carrier|ended: ' && break; sleep 0.1; done
        '{weir}' port show --socket {socket} p0
        '{weir}' port del --socket {socket} p0
        kill $up; wait $up",
        weir = common::WEIR,
    );
    let mut command = Command::new("unshare");
    command.args(["-rn", "bash", "-c", &script]);
    let output = output(&mut command);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let pings = said.matches("2 received").count();
    match said.contains("no /dev/net/tun") {
        true => {
            assert_eq!(pings, 1, "{said}");
            // A root of CI has the device.
            common::say("SKIPPED: the TAP part: /dev/net/tun cannot be opened");
        }
        false => assert_eq!(pings, 2, "{said}"),
    }
    assert!(said.contains("1 received"), "{said}");
    let mac = |name: &str| {
        let line = said.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(2).unwrap().to_owned()
    };
    assert_eq!(mac("p0"), mac("v0@v1"), "{said}");
    assert!(
        said.contains("no carrier") || said.contains("ended: "),
        "{said}"
    );
}
