// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs inside open `/dev/net/tun` and carry the frames of a device, under virtual time and in real time, as root and
//! as an ordinary user. What the ioctls answer is in `golden/tun.cmd`.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use common::{Folder, script_with, users};

/// The beginning of every program: opens devices, and computes the checksums of packets.
const HEAD: &str = r#"
import fcntl, os, select, socket, struct, subprocess, sys

TUN, TAP, NO_PI, VNET_HDR = 1, 2, 0x1000, 0x4000

def sh(text):
    return subprocess.run(text, shell=True, check=True, capture_output=True, text=True).stdout

def attach(name, flags):
    file = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(file, 0x400454ca, struct.pack("16sH22x", name, flags))
    return file

def add(data, total=0):
    data += bytes(len(data) % 2)
    total += sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total

def ip(protocol, source, target, data):
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(data), 1, 0, 64, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(target))
    return head[:10] + struct.pack(">H", 0xffff - add(head)) + head[12:] + data

def echo(kind, number):
    data = struct.pack(">BBHHH", kind, 0, 0, 7, number) + b"0123456789"
    return data[:2] + struct.pack(">H", 0xffff - add(data)) + data[4:]
"#;

fn run(name: &str, program: &str, expected: &str) {
    let folder = Folder::new();
    let file = folder.file(name);
    std::fs::write(&file, format!("{HEAD}{program}")).unwrap();
    for user in users() {
        for args in [&[][..], &["--real-time"]] {
            let (printed, status) = script_with(*user, args, &format!("exec python3 {file}"));
            assert_eq!((&*printed, status), (expected, 0), "{user:?} {args:?}");
        }
    }
}

#[test]
fn a_program_is_the_other_end_of_a_tun_device() {
    let program = r#"
f = attach(b"vpn%d", TUN | NO_PI)
sh("ip link set vpn0 up; ip addr add 10.9.0.1/24 dev vpn0; sysctl -qw net.ipv6.conf.vpn0.disable_ipv6=1")
while select.select([f], [], [], 0.1)[0]:
    os.read(f, 2000)
poll = select.epoll()
poll.register(f, select.EPOLLIN)
for number in range(3):
    os.write(f, ip(1, "10.9.0.2", "10.9.0.1", echo(8, number)))
    assert poll.poll(5) == [(f, select.EPOLLIN)]
    packet = os.read(f, 2000)
    print(len(packet), packet[9], socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20]), packet[20], packet[27])
# A socket of the namespace talks to the program.
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b"question", ("10.9.0.7", 53))
packet = os.read(f, 2000)
print(packet[28:], socket.inet_ntoa(packet[16:20]))
source, target = packet[20:22], packet[22:24]
os.write(f, ip(17, "10.9.0.7", "10.9.0.1", target + source + struct.pack(">HH", 14, 0) + b"answer"))
print(s.recv(100))
# A short read cuts the packet; what is no IP packet is dropped.
s.sendto(b"question", ("10.9.0.7", 53))
print(len(os.read(f, 10)))
os.write(f, b"\0" * 30)
print(sh("ip -s link show vpn0 | sed -n '4p;6p'").split())
print(sh("cat /sys/class/net/vpn0/carrier; ip -br link show vpn0").split())
# The device goes with its file.
child = os.fork()
if child == 0:
    os.close(f)
    os._exit(0)
os.waitpid(child, 0)
print(os.path.exists("/sys/class/net/vpn0"))
os.close(f)
for _ in range(100):
    if not os.path.exists("/sys/class/net/vpn0"):
        break
    select.select([], [], [], 0.05)
print(os.path.exists("/sys/class/net/vpn0"))
"#;
    let expected = "38 1 10.9.0.1 10.9.0.2 0 0
38 1 10.9.0.1 10.9.0.2 0 1
38 1 10.9.0.1 10.9.0.2 0 2
b'question' 10.9.0.7
b'answer'
10
['148', '4', '0', '1', '0', '0', '186', '5', '0', '0', '0', '0']
['1', 'vpn0', 'UNKNOWN', '<POINTOPOINT,MULTICAST,NOARP,UP,LOWER_UP>']
True
False
";
    run("tun.py", program, expected);
}

#[test]
fn a_tap_device_is_a_port_of_a_bridge() {
    let program = r#"
sh("ip link add br0 type bridge; ip link set br0 up; ip link add v0 type veth peer name v1 netns $(ip netns add h; echo h)")
sh("ip link set v0 master br0 up; ip -n h link set v1 address 02:00:00:00:00:07 up; ip -n h addr add 10.9.0.7/24 dev v1")
f = attach(b"tap0", TAP)
sh("ip link set tap0 master br0 up")
mac, other = bytes.fromhex("020000000009"), bytes.fromhex("020000000007")
arp = struct.pack(">HHBBH6s4s6s4s", 1, 0x800, 6, 4, 1, mac, socket.inet_aton("10.9.0.9"), bytes(6), socket.inet_aton("10.9.0.7"))
os.write(f, bytes(2) + b"\x08\x06" + b"\xff" * 6 + mac + b"\x08\x06" + arp)
while True:
    frame = os.read(f, 2000)
    # struct tun_pi has the EtherType.
    if frame[2:4] == b"\x08\x06" and frame[4:10] == mac:
        break
print(frame[:18].hex(), frame[18:26].hex(), frame[26:32].hex())
"#;
    let expected = "00000806020000000009020000000007 0806 0001080006040002 020000000007\n"
        .replacen(' ', "", 1);
    run("tap.py", program, &expected);
}

#[test]
fn long_segments_pass_whole_where_the_program_asks_for_them() {
    let program = r#"
f = attach(b"t0", TUN | NO_PI | VNET_HDR)
fcntl.ioctl(f, 0x400454d0, 0xf)  # TUNSETOFFLOAD: checksums, TSO4, TSO6, ECN
sh("ip link set t0 up; ip addr add 10.9.0.1/24 dev t0; sysctl -qw net.ipv6.conf.t0.disable_ipv6=1")
print("tcp-segmentation-offload: on" in sh("ethtool -k t0"))
while select.select([f], [], [], 0.1)[0]:
    os.read(f, 2000)

def tcp(flags, seq, ack, options=b""):
    head = struct.pack(">HHIIBBHHH", 80, port, seq, ack, (20 + len(options)) << 2, flags, 65535, 0, 0) + options
    pseudo = socket.inet_aton("10.9.0.2") + socket.inet_aton("10.9.0.1") + struct.pack(">HH", 6, len(head))
    # The checksum is left to the device: the field has the sum of the pseudo header.
    head = head[:16] + struct.pack(">H", add(pseudo)) + head[18:]
    return struct.pack("BBHHHH", 1, 0, 0, 0, 20, 16) + ip(6, "10.9.0.2", "10.9.0.1", head)

s = socket.socket()
s.setblocking(False)
s.connect_ex(("10.9.0.2", 80))
packet = os.read(f, 2000)
print(packet[:10].hex(), packet[19])
port, seq = struct.unpack_from(">HxxI", packet, 30)
os.write(f, tcp(0x12, 1000, seq + 1, b"\x02\x04\x05\xb4"))
print(os.read(f, 2000)[43])
s.setblocking(True)
s.sendall(bytes(10000))
got, long = 0, 0
while got < 10000:
    packet = os.read(f, 70000)
    flags, kind, header, size, start, offset = struct.unpack_from("BBHHHH", packet)
    if kind:
        assert (flags, kind, header, size, start, offset) == (1, 1, 40, 1460, 20, 16), packet[:10]
        # The field has the sum of the pseudo header.
        pseudo = packet[22:30] + struct.pack(">HH", 6, len(packet) - 30)
        assert struct.unpack_from(">H", packet, 46)[0] == add(pseudo)
        long += 1
    got += len(packet) - 50
    os.write(f, tcp(0x10, 1001, seq + 1 + got))
print(got, long > 0)
"#;
    run(
        "long.py",
        program,
        "True\n00000000000000000000 6\n16\n10000 True\n",
    );
}

#[test]
fn what_is_lost_is_counted_and_nobody_waits() {
    let program = r#"
f = attach(b"t0", TUN | NO_PI)
sh("ip link set t0 up; ip addr add 10.9.0.1/24 dev t0; sysctl -qw net.ipv6.conf.t0.disable_ipv6=1")
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(3000):
    s.sendto(bytes(1000), ("10.9.0.2", 9))
text = sh("ip -s link show t0").split("\n")
dropped = int(text[5].split()[3])
print(0 < dropped < 3000)
# The end of the device is the end of the file.
got = 0
while select.select([f], [], [], 0.2)[0]:
    got += len(os.read(f, 2000)) > 0
print(got + dropped)
sh("ip link del t0")
print(os.read(f, 100))
"#;
    run("lost.py", program, "True\n3000\nb''\n");
}
