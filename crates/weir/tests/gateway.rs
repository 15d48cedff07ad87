// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The gateway: programs inside a stack reach servers on the host, and the host reaches servers inside.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use common::{Folder, User, command, has, output, script_with, text, users, weir};

/// Runs a script in a stack with a gateway. Returns what it prints.
#[track_caller]
fn with_gateway(user: User, args: &[&str], script: &str) -> String {
    let all = [&["--real-time"], args].concat();
    let (printed, status) = script_with(user, &all, &format!("set -e\n{script}"));
    assert_eq!(status, 0, "{user:?}: {printed}");
    printed
}

/// A server of the host that sends back what it gets, for each connection.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::Builder::new()
                .stack_size(128 << 10)
                .spawn(move || {
                    let mut data = vec![0; 16 << 10];
                    while let Ok(length @ 1..) = stream.read(&mut data) {
                        if stream.write_all(&data[..length]).is_err() {
                            return;
                        }
                    }
                })
                .unwrap();
        }
    });
    port
}

/// The same for datagrams.
fn echo_datagrams() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut data = vec![0; 65_536];
        while let Ok((length, from)) = socket.recv_from(&mut data) {
            let _ = socket.send_to(&data[..length], from);
        }
    });
    port
}

#[test]
fn curl_loads_a_large_file_from_the_host_and_sends_one() {
    if !has("curl", "curl") || !has("python3", "python3") {
        return;
    }
    let folder = Folder::new();
    let data: Vec<u8> = (0..50_u32 << 20)
        .map(|n| (n ^ n >> 8 ^ n >> 16) as u8)
        .collect();
    std::fs::write(folder.file("large"), &data).unwrap();
    let mut server = command(User::Own, "python3")
        .args([
            "-u",
            "-m",
            "http.server",
            "--bind",
            "127.0.0.1",
            "--directory",
            &folder.file(""),
            "0",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // "Serving HTTP on 127.0.0.1 port 40123 (http://...) ..."
    let mut said = Vec::new();
    let mut out = server.stdout.take().unwrap();
    while !said.ends_with(b" (") {
        let mut byte = [0];
        out.read_exact(&mut byte).unwrap();
        said.push(byte[0]);
    }
    let said = text(&said);
    let port = said
        .split(" port ")
        .nth(1)
        .unwrap()
        .trim_end_matches(" (")
        .to_owned();
    let sink = TcpListener::bind("127.0.0.1:0").unwrap();
    let sink_port = sink.local_addr().unwrap().port();
    let expected = data.clone();
    let taken = thread::spawn(move || {
        for _ in users() {
            let (mut stream, _) = sink.accept().unwrap();
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            assert!(got == expected, "{} bytes came", got.len());
        }
    });
    for (n, user) in users().iter().enumerate() {
        let copy = folder.file(&format!("copy{n}"));
        let large = folder.file("large");
        with_gateway(
            *user,
            &["--gateway=host=on"],
            &format!(
                "curl -sS -o {copy} http://10.0.2.2:{port}/large
python3 -c '
import socket
s = socket.create_connection((\"10.0.2.2\", {sink_port}))
s.sendall(open(\"{large}\", \"rb\").read())
s.shutdown(socket.SHUT_WR)
# The stack ends with the script: data that are still in it then are lost.
assert s.recv(1) == b\"\"
'"
            ),
        );
        assert!(std::fs::read(&copy).unwrap() == data);
    }
    taken.join().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_thousand_connections_at_a_time() {
    if !has("python3", "python3") {
        return;
    }
    let port = echo();
    let script = format!(
        "ulimit -n 4096 2> /dev/null || ulimit -n $(ulimit -Hn)
python3 -c '
import socket
all = [socket.create_connection((\"10.0.2.2\", {port})) for _ in range(1000)]
for n, s in enumerate(all): s.sendall(b\"%06d\" % n)
for n, s in enumerate(all): assert s.recv(6, socket.MSG_WAITALL) == b\"%06d\" % n
print(len(all), \"answered\")
'
weir stat gateway | grep tcp_"
    );
    for user in users() {
        let printed = with_gateway(*user, &["--gateway=host=on"], &script);
        assert!(printed.contains("1000 answered"), "{printed}");
        assert!(
            printed.contains("tcp_opened               1000"),
            "{printed}"
        );
    }
}

#[test]
fn datagrams_refusals_resets_and_half_closed_connections() {
    if !has("python3", "python3") {
        return;
    }
    let (udp, tcp) = (echo_datagrams(), echo());
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let resetting = TcpListener::bind("127.0.0.1:0").unwrap();
    let resets = resetting.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in resetting.incoming() {
            // With data unread the host's close is a reset.
            let stream = stream.unwrap();
            thread::sleep(Duration::from_millis(300));
            drop(stream);
        }
    });
    let script = format!(
        r#"python3 -c '
import socket
gw = "10.0.2.2"
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.settimeout(20)
for n in 1, 1000, 1472, 1473, 9000, 60000:
    data = bytes(i % 251 for i in range(n))
    u.sendto(data, (gw, {udp}))
    got, source = u.recvfrom(65536)
    assert got == data and source == (gw, {udp}), (n, len(got), source)
print("datagrams")
u.connect((gw, {closed}))
u.send(b"x")
try: u.recv(1)
except ConnectionRefusedError: print("datagram refused")
try: socket.create_connection((gw, {closed}))
except ConnectionRefusedError: print("refused")
s = socket.create_connection((gw, {tcp}))
s.sendall(b"half"); s.shutdown(socket.SHUT_WR)
got = b""
while (more := s.recv(100)): got += more
print(got.decode(), "closed")
s = socket.create_connection((gw, {resets}))
s.sendall(b"unread")
try: print(s.recv(1))
except ConnectionResetError: print("reset")
'"#
    );
    for user in users() {
        let printed = with_gateway(*user, &["--gateway=host=on"], &script);
        assert_eq!(
            printed, "datagrams\ndatagram refused\nrefused\nhalf closed\nreset\n",
            "{user:?}"
        );
    }
}

#[test]
fn there_is_no_way_out_unless_it_is_asked_for() {
    if !has("curl", "curl") {
        return;
    }
    let port = echo();
    for user in users() {
        let curl = format!("curl -sS -m 10 http://10.0.2.2:{port}/ || true");
        let printed = with_gateway(*user, &[], &curl);
        assert!(printed.contains("Couldn't connect to server"), "{printed}");
        let route = with_gateway(*user, &[], "ip route get 192.0.2.1 || true");
        assert!(route.contains("Network is unreachable"), "{route}");
        // The host's loopback stays closed.
        let printed = with_gateway(
            *user,
            &["--gateway"],
            &format!("{curl}; ip -br address; ip route; ip -6 route"),
        );
        assert!(printed.contains("Couldn't connect to server"), "{printed}");
        assert!(printed.contains("10.0.2.15/24 fd00::15/64"), "{printed}");
        assert!(
            printed.contains("default via 10.0.2.2 dev gw0"),
            "{printed}"
        );
        assert!(printed.contains("default via fd00::2 dev gw0"), "{printed}");
    }
}

#[test]
fn namespaces_behind_the_initial_one_get_out_by_routes_or_nat() {
    if !has("python3", "python3") {
        return;
    }
    let port = echo();
    let script = format!(
        "ip netns add h1; ip link add r1 type veth peer name e1 netns h1
ip addr add 10.1.0.1/24 dev r1; ip link set r1 up
ip -n h1 addr add 10.1.0.2/24 dev e1; ip -n h1 link set e1 up; ip -n h1 route add default via 10.1.0.1
sysctl -qw net.ipv4.ip_forward=1
ask() {{ ip netns exec h1 python3 -c '
import socket
s = socket.create_connection((\"10.0.2.2\", {port}), 20); s.sendall(b\"hello\"); print(s.recv(9).decode())'; }}
ask
# With NAT the gateway sees the address of gw0 alone.
tc qdisc add dev gw0 clsact
tc filter add dev gw0 egress protocol ip flower ip_proto tcp action ct commit nat src addr 10.0.2.15 pipe
tc filter add dev gw0 ingress protocol ip flower ip_proto tcp action ct nat pipe
ask
cat /proc/net/nf_conntrack | grep -c 'src=10.1.0.2 .*dst=10.0.2.15'"
    );
    for user in users() {
        assert_eq!(
            with_gateway(*user, &["--gateway=host=on"], &script),
            "hello\nhello\n1\n"
        );
    }
}

#[test]
fn published_ports_lead_inward() {
    if !has("python3", "python3") {
        return;
    }
    for user in users() {
        let free = || {
            TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port()
        };
        let (tcp, udp, closed, v6) = (free(), free(), free(), free());
        let (closed_slow, v6_slow) = (free(), free());
        let folder = Folder::new();
        let (ready, over) = (folder.file("ready"), folder.file("over"));
        let ready_slow = folder.file("ready-slow");
        let script = format!(
            r#"exec 2>&1; set -e
ip netns add web; ip -n web link set lo up
ip netns add slow; ip -n slow link set lo up; tc -n slow qdisc add dev lo root netem delay 50ms
ip netns exec web python3 -c '
import socket, threading
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("0.0.0.0", 53))
def answer():
    while True:
        data, source = u.recvfrom(65536); u.sendto(data[::-1], source)
threading.Thread(target=answer, daemon=True).start()
def serve(l):
    while True:
        s, _ = l.accept()
        data = b""
        while (more := s.recv(65536)): data += more
        s.sendall(data[::-1]); s.close()
six = socket.create_server(("::1", 82), family=socket.AF_INET6)
threading.Thread(target=serve, args=(six,), daemon=True).start()
l = socket.create_server(("127.0.0.1", 80))
open("{ready}", "w").close()
serve(l)
' &
ip netns exec slow python3 -c '
import socket
l = socket.create_server(("::1", 82), family=socket.AF_INET6)
open("{ready_slow}", "w").close()
while True:
    s, _ = l.accept()
    data = b""
    while (more := s.recv(65536)): data += more
    s.sendall(data[::-1]); s.close()
' & while [ ! -e {over} ]; do sleep 0.1; done"#
        );
        let mut child = weir(*user, &["run", "--quiet", "--real-time"])
            .args([
                "--publish",
                &format!("{tcp}:web:80"),
                "--publish",
                &format!("{udp}:web:53/udp"),
            ])
            .args(
                [
                    (closed, "web:81"),
                    (v6, "web:82"),
                    (closed_slow, "slow:81"),
                    (v6_slow, "slow:82"),
                ]
                .map(|(port, inside)| format!("--publish={port}:{inside}")),
            )
            .args(["--", "bash", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while ![&ready, &ready_slow]
            .iter()
            .all(|file| std::path::Path::new(file).exists())
        {
            assert!(
                Instant::now() < end && child.try_wait().unwrap().is_none(),
                "the server did not start"
            );
            thread::sleep(Duration::from_millis(50));
        }
        for length in [1, 100, 5 << 20] {
            let data: Vec<u8> = (0..length as u32).map(|n| (n ^ n >> 8) as u8).collect();
            let mut stream = TcpStream::connect(("127.0.0.1", tcp)).unwrap();
            let mut sender = stream.try_clone().unwrap();
            let sent = data.clone();
            let sending = thread::spawn(move || {
                sender.write_all(&sent).unwrap();
                sender.shutdown(std::net::Shutdown::Write).unwrap();
            });
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            sending.join().unwrap();
            got.reverse();
            assert!(got == data, "{length}");
        }
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        for word in ["abc", "de"] {
            socket.send_to(word.as_bytes(), ("127.0.0.1", udp)).unwrap();
            let mut data = [0; 10];
            let (length, _) = socket.recv_from(&mut data).unwrap();
            let back: String = word.chars().rev().collect();
            assert_eq!(text(&data[..length]), back);
        }
        // Nobody listens there inside: the host has accepted, so the refusal is a reset. In `slow` it is known late.
        for port in [closed, closed_slow] {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let error = stream.read(&mut [0; 1]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{user:?}");
        }
        // A server at ::1 alone is found after 127.0.0.1 has refused.
        for port in [v6, v6_slow] {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(b"abc").unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut got = String::new();
            stream.read_to_string(&mut got).unwrap();
            assert_eq!(got, "cba");
        }
        std::fs::write(&over, "").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stdout));
    }
}

#[test]
fn wrong_options_are_explained() {
    let said = |args: &[&str]| {
        let output = output(weir(User::Own, args).args(["--", "true"]));
        assert!(!output.status.success());
        text(&output.stderr)
    };
    let said_by_run = |arg: &str| said(&["run", "--real-time", arg]);
    assert!(said_by_run("--gateway=adress=1").contains("did you mean address?"));
    assert!(said_by_run("--gateway=mtu=9").contains("mtu=9 is not between 1280 and 65520"));
    assert!(said_by_run("--publish=80:80").contains("`80:80` is not [HOST:]PORT:NETNS:PORT"));
    let message = said(&["run", "--gateway"]);
    assert!(
        message.contains("--gateway leads to a live outside"),
        "{message}"
    );
    let message = said(&["run", "--publish=80:a:80"]);
    assert!(
        message.contains("--publish leads to a live outside"),
        "{message}"
    );
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let message = said_by_run(&format!("--publish={port}:a:80"));
    assert!(
        message.contains(&format!(
            "--publish 127.0.0.1:{port}:a:80: Address already in use"
        )),
        "{message}"
    );
    let (printed, status) = script_with(User::Own, &["--real-time"], "weir stat gateway");
    assert_ne!(status, 0);
    assert!(
        printed.contains("the stack has no gateway; start it with `weir up --gateway`"),
        "{printed}"
    );
}

/// In a network namespace of the kernel's, where the test may choose addresses, resolvers and who may ping.
#[test]
fn echo_requests_and_questions_pass_the_gateway() {
    if !has("unshare", "util-linux")
        || !has("ping", "iputils-ping")
        || !has("dig", "bind9-dnsutils")
        || !has("dnsmasq", "dnsmasq-base")
    {
        return;
    }
    let script = r#"set -e
ip link set lo up
ip address add 192.0.2.1/32 dev lo
ip address add 2001:db8::1/128 dev lo nodad
echo "0 0" > /proc/sys/net/ipv4/ping_group_range
echo 'nameserver 127.0.0.1' > "$FOLDER/resolv.conf"
mount --bind "$FOLDER/resolv.conf" /etc/resolv.conf
dnsmasq --no-daemon --user= --group= --pid-file= --conf-file=/dev/null --no-hosts --no-resolv --listen-address=127.0.0.1 \
    --bind-interfaces --address=/example.test/192.0.2.7 > "$FOLDER/dnsmasq" 2>&1 &
trap "kill $!" EXIT
"$WEIR" run --quiet --real-time --gateway -- bash -c '
exec 2>&1
ping -n -c 2 -i 0.2 10.0.2.2; ping -n -c 2 -i 0.2 192.0.2.1; ping -n -c 2 -i 0.2 2001:db8::1
dig +tries=5 +time=2 +short @10.0.2.3 example.test; dig +tcp +short @fd00::3 example.test
weir stat gateway | grep ping_'
"#;
    for user in users() {
        let may = output(command(*user, "unshare").args(["-rnm", "true"]))
            .status
            .success();
        if !may {
            common::say("SKIPPED: no user namespaces here");
            continue;
        }
        let folder = Folder::new();
        let mut inner = command(*user, "unshare");
        inner
            .args(["-rnm", "bash", "-c", script])
            .env("FOLDER", &folder.0);
        let output = output(&mut inner);
        let printed = text(&output.stdout);
        let said = format!("{user:?} {printed} {}", text(&output.stderr));
        assert!(output.status.success(), "{said}");
        assert_eq!(
            printed
                .matches("2 packets transmitted, 2 received, 0% packet loss")
                .count(),
            3,
            "{said}"
        );
        assert_eq!(printed.matches("192.0.2.7\n").count(), 2, "{said}");
        assert!(printed.contains("ping_in                     4"), "{said}");
    }
}
