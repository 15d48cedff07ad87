# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A multicast routing daemon that says what it sees; see mroute.sh."""
import errno
import fcntl
import socket
import struct
import subprocess
import time

INIT, DONE, ADD_VIF, DEL_VIF, ADD_MFC, DEL_MFC, VERSION, ASSERT, PIM, TABLE, ADD_PROXY, DEL_PROXY, FLUSH = range(200, 213)
TUNNEL, SRCRT, REGISTER, IFINDEX = 1, 2, 4, 8
VIFCNT, SGCNT = 0x89E0, 0x89E1
DEVICES = "abcd"


def attempt(name, what):
    try:
        answer = what()
    except OSError as error:
        answer = errno.errorcode[error.errno]
    print(f"{name}: {'done' if answer is None else answer}")


def igmp():
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP)


def number(value):
    return struct.pack("i", value)


def vif(index, local, flags=0, threshold=1, remote="0.0.0.0"):
    local = struct.pack("I", local) if isinstance(local, int) else socket.inet_aton(local)
    return struct.pack("HBBI", index, flags, threshold, 0) + local + socket.inet_aton(remote)


def mfc(source, group, parent, out):
    hops = bytes(out.get(index, 0) for index in range(32))
    head = socket.inet_aton(source) + socket.inet_aton(group) + struct.pack("H", parent) + hops
    return head + bytes(60 - len(head))


def option(sock, name, value):
    return lambda: sock.setsockopt(0, name, value)


def counts(sock, index):
    answer = fcntl.ioctl(sock, VIFCNT, struct.pack("HxxxxxxQQQQ", index, 0, 0, 0, 0))
    return struct.unpack("HxxxxxxQQQQ", answer)[1:]


def uses(sock, source, group):
    asked = socket.inet_aton(source) + socket.inet_aton(group) + bytes(24)
    return struct.unpack("8xQQQ", fcntl.ioctl(sock, SGCNT, asked))


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(source, group, ttl=8, length=40, df=False, options=b"", protocol=17):
    words = 5 + len(options) // 4
    head = struct.pack("!BBHHHBBH", 0x40 | words, 0, length, 7, 0x4000 if df else 0, ttl, protocol, 0)
    head += socket.inet_aton(source) + socket.inet_aton(group) + options
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    size = length - 4 * words
    return head + struct.pack("!HHHH", 1000, 2000, size, 0) + bytes(size - 8)


wires = {}
for name in DEVICES:
    wires[name] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    wires[name].bind((name + "1", 0x0800))


def seen():
    """What came out of the wires since the last time: of multicast packets, the TTL and the length."""
    time.sleep(0.1)
    found = []
    for name, wire in wires.items():
        while True:
            try:
                frame, address = wire.recvfrom(4096, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            # Not those that this program sends, and no report of groups.
            if address[2] == socket.PACKET_OUTGOING or frame[30:33] == bytes((224, 0, 0)):
                continue
            group = socket.inet_ntoa(frame[30:34])
            more = "" if checksum(frame[14 : 14 + 4 * (frame[14] & 15)]) == 0 else " wrong checksum"
            mac = frame[:6].hex(":")
            found.append(f"{name} {group} ttl {frame[22]} length {len(frame) - 14} to {mac}{more}")
    return found


def send(name, what, *, say=True):
    group = what[16:20]
    mac = bytes((1, 0, 0x5E, group[1] & 0x7F)) + group[2:]
    wires[name].send(mac + bytes((2, 0, 0, 0, 1, 0)) + b"\x08\x00" + what)
    if say:
        print(f"sent by {name}:", "; ".join(seen()) or "nothing")


def reports(sock):
    time.sleep(0.1)
    while True:
        try:
            data, control, _, sender = sock.recvmsg(200, 200, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if data[9]:
            print(f"  packet of protocol {data[9]} from {sender[0]}, {len(data)} bytes")
            continue
        kind, _, low, high = data[8:12]
        ends = socket.inet_ntoa(data[12:16]), socket.inet_ntoa(data[16:20])
        length = struct.unpack("=H", data[2:4])[0]
        at = 4 * (data[0] & 15)
        print(f"  report {kind} vif {low + 256 * high} {ends[0]} {ends[1]} from {sender}, {len(data)} bytes, "
              f"length {socket.ntohs(length)}, igmp {data[at]} {data[at + 1]}, {len(control)} control messages")


def show():
    for name in ("ip_mr_vif", "ip_mr_cache"):
        print(open("/proc/net/" + name).read(), end="")


def forwarding():
    names = ["all", "default", "lo"] + [name + "0" for name in DEVICES]
    values = [open(f"/proc/sys/net/ipv4/conf/{name}/mc_forwarding").read().strip() for name in names]
    print("mc_forwarding", *values)
    link = subprocess.run(["ip", "-d", "link", "show", "a0"], capture_output=True, text=True).stdout
    print("allmulti", link.split("allmulti ")[1].split()[0] if "allmulti " in link else "-", "ALLMULTI" in link)


print("# other sockets")
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
icmp = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
for sock in (udp, icmp):
    attempt("init", option(sock, INIT, number(1)))
    attempt("version", lambda: sock.getsockopt(0, VERSION))
attempt("init on IPv6", option(socket.socket(socket.AF_INET6, socket.SOCK_RAW, 2), INIT, number(1)))
attempt("count of icmp", lambda: counts(icmp, 0))

print("# wrong values")
daemon, other = igmp(), igmp()
attempt("done before", option(daemon, DONE, b""))
attempt("init short", option(daemon, INIT, b"\1\0"))
attempt("init long", option(daemon, INIT, bytes(8)))
attempt("init", option(daemon, INIT, number(1)))
attempt("init again", option(daemon, INIT, number(1)))
attempt("init of another", option(other, INIT, number(1)))
attempt("done of another", option(other, DONE, b""))
attempt("version", lambda: hex(daemon.getsockopt(0, VERSION)))
attempt("version, two bytes", lambda: daemon.getsockopt(0, VERSION, 2).hex())
attempt("version, no byte", lambda: daemon.getsockopt(0, VERSION, 0))
attempt("version, many bytes", lambda: len(daemon.getsockopt(0, VERSION, 100)))
attempt("set version", option(daemon, VERSION, number(1)))
attempt("get init", lambda: daemon.getsockopt(0, INIT))
attempt("get table", lambda: daemon.getsockopt(0, TABLE))
attempt("table", option(daemon, TABLE, number(5)))
attempt("option 213", option(daemon, 213, number(5)))
attempt("option 199", option(daemon, 199, number(5)))
for name, value in (("short", b""), ("15 bytes", bytes(15)), ("17 bytes", bytes(17))):
    attempt("vif " + name, option(daemon, ADD_VIF, value))
    attempt("del vif " + name, option(daemon, DEL_VIF, value))
for name, value in (("short", b""), ("59 bytes", bytes(59)), ("61 bytes", bytes(61))):
    for what in (ADD_MFC, DEL_MFC, ADD_PROXY, DEL_PROXY):
        attempt(f"mfc {name} {what}", option(daemon, what, value))
attempt("vif 32", option(daemon, ADD_VIF, vif(32, "10.0.1.1")))
attempt("vif 65535", option(daemon, ADD_VIF, vif(65535, "10.0.1.1")))
attempt("del vif 32", option(daemon, DEL_VIF, vif(32, "10.0.1.1")))
attempt("del vif 0", option(daemon, DEL_VIF, vif(0, "10.0.1.1")))
attempt("vif of an unknown address", option(daemon, ADD_VIF, vif(0, "10.9.9.9")))
attempt("vif of no device", option(daemon, ADD_VIF, vif(0, 99, IFINDEX)))
attempt("vif with flag 2", option(daemon, ADD_VIF, vif(0, "10.0.1.1", SRCRT)))
attempt("vif with flag 9", option(daemon, ADD_VIF, vif(0, "10.0.1.1", 9)))
attempt("tunnel vif", option(daemon, ADD_VIF, vif(0, "10.0.1.1", TUNNEL, remote="10.0.2.2")))
attempt("mfc with parent 32", option(daemon, ADD_MFC, mfc("10.0.1.2", "225.1.1.1", 32, {})))
attempt("mfc for no group", option(daemon, ADD_MFC, mfc("10.0.1.2", "10.1.1.1", 0, {})))
attempt("del mfc", option(daemon, DEL_MFC, mfc("10.0.1.2", "225.1.1.1", 0, {})))
attempt("del proxy", option(daemon, DEL_PROXY, mfc("10.0.1.2", "225.1.1.1", 0, {})))
attempt("assert short", option(daemon, ASSERT, b"1"))
attempt("flush short", option(daemon, FLUSH, b"1"))
attempt("assert", option(daemon, ASSERT, number(5)))
attempt("get assert", lambda: daemon.getsockopt(0, ASSERT))
attempt("assert", option(daemon, ASSERT, number(0)))
attempt("counts of vif 0", lambda: counts(daemon, 0))
attempt("counts of vif 40", lambda: counts(daemon, 40))
attempt("uses", lambda: uses(daemon, "10.0.1.2", "225.1.1.1"))
forwarding()
show()

print("# vifs")
indices = {name: socket.if_nametoindex(name + "0") for name in DEVICES}
attempt("vif 0", option(daemon, ADD_VIF, vif(0, "10.0.1.1")))
attempt("vif 0 again", option(daemon, ADD_VIF, vif(0, "10.0.1.1")))
attempt("vif 1", option(daemon, ADD_VIF, vif(1, indices["b"], IFINDEX, 5)))
attempt("vif 31", option(daemon, ADD_VIF, vif(31, "10.0.3.1")))
attempt("counts of vif 2", lambda: counts(daemon, 2))
attempt("counts of vif 1", lambda: counts(daemon, 1))
forwarding()
for line in open("/proc/net/ip_mr_vif"):
    print(line[:57])
attempt("static vif", option(other, ADD_VIF, vif(3, "10.0.4.1")))
forwarding()

print("# forwarding")
attempt("mfc", option(daemon, ADD_MFC, mfc("10.0.1.2", "225.1.1.1", 0, {0: 1, 1: 1, 3: 4, 31: 5, 9: 1})))
send("a", packet("10.0.1.2", "225.1.1.1"))
send("a", packet("10.0.1.2", "225.1.1.1", ttl=5))
send("a", packet("10.0.1.2", "225.1.1.1", ttl=2))
send("a", packet("10.0.1.2", "225.1.1.1", ttl=1))
send("a", packet("10.0.1.2", "225.1.1.1", length=1500))
send("a", packet("10.0.1.2", "225.1.1.1", options=b"\x07\x07\x04\0\0\0\0\0", length=60))
reports(daemon)
attempt("uses", lambda: uses(daemon, "10.0.1.2", "225.1.1.1"))
for index in (0, 1, 3, 31):
    attempt(f"counts of vif {index}", lambda: counts(daemon, index))
show()

print("# MTU")
subprocess.run(["ip", "link", "set", "b0", "mtu", "600"], check=True)
send("a", packet("10.0.1.2", "225.1.1.1", length=1000, df=True))
send("a", packet("10.0.1.2", "225.1.1.1", length=1000))
attempt("counts of vif 1", lambda: counts(daemon, 1))
subprocess.run(["ip", "link", "set", "b0", "mtu", "1500"], check=True)

print("# the wrong device")
send("b", packet("10.0.1.2", "225.1.1.1"))
reports(daemon)
attempt("assert", option(daemon, ASSERT, number(1)))
time.sleep(3)
send("b", packet("10.0.1.2", "225.1.1.1"))
send("b", packet("10.0.1.2", "225.1.1.1"))
reports(daemon)
attempt("uses", lambda: uses(daemon, "10.0.1.2", "225.1.1.1"))
attempt("counts of vif 1", lambda: counts(daemon, 1))

print("# groups of one link, no vif, and packets to be dropped")
send("a", packet("10.0.1.2", "224.0.0.9"))
subprocess.run(["ip", "link", "set", "d0", "down"], check=True)
send("a", packet("10.0.1.2", "225.1.1.1"))
subprocess.run(["ip", "link", "set", "d0", "up"], check=True)
attempt("counts of vif 3", lambda: counts(daemon, 3))
attempt("del vif 3", option(daemon, DEL_VIF, vif(3, "0.0.0.0")))
forwarding()
send("d", packet("10.0.4.2", "225.1.1.1"))
send("a", packet("10.0.1.2", "225.1.1.1"))
reports(daemon)
show()

print("# unresolved")
for n in range(6):
    send("a", packet("10.0.1.3", "225.1.1.2", length=40 + n), say=False)
for n in range(12):
    send("a", packet("10.0.1.3", f"225.1.2.{n}"), say=False)
print("out:", seen())
reports(daemon)
show()
attempt("resolved", option(daemon, ADD_MFC, mfc("10.0.1.3", "225.1.1.2", 0, {1: 1})))
print("out:", seen())
attempt("resolved to nothing", option(daemon, ADD_MFC, mfc("10.0.1.3", "225.1.2.3", 0, {})))
attempt("resolved from elsewhere", option(daemon, ADD_MFC, mfc("10.0.1.3", "225.1.2.4", 1, {31: 1})))
print("out:", seen())
reports(daemon)
show()
time.sleep(11)
show()
attempt("changed", option(daemon, ADD_MFC, mfc("10.0.1.3", "225.1.1.2", 0, {31: 1})))
send("a", packet("10.0.1.3", "225.1.1.2"))
attempt("deleted", option(daemon, DEL_MFC, mfc("10.0.1.3", "225.1.1.2", 9, {})))
send("a", packet("10.0.1.3", "225.1.1.2"))
reports(daemon)
attempt("flush", option(daemon, FLUSH, number(1)))
show()
forwarding()

print("# proxies")
attempt("*,*", option(daemon, ADD_PROXY, mfc("0.0.0.0", "0.0.0.0", 0, {0: 1, 1: 1})))
attempt("*,G", option(daemon, ADD_PROXY, mfc("0.0.0.0", "225.2.0.1", 0, {1: 1, 31: 1})))
attempt("*,G twice", option(daemon, ADD_PROXY, mfc("0.0.0.0", "225.2.0.1", 1, {31: 1})))
for name in "abc":
    send(name, packet("10.0.1.9", "225.2.0.1"))
    send(name, packet("10.0.1.9", "225.2.0.2"))
reports(daemon)
show()
attempt("del *,G of 31", option(daemon, DEL_PROXY, mfc("0.0.0.0", "225.2.0.1", 31, {})))
attempt("del *,G of 0", option(daemon, DEL_PROXY, mfc("0.0.0.0", "225.2.0.1", 0, {})))
show()
for name in "abc":
    send(name, packet("10.0.1.9", "225.2.0.1"))
attempt("flush", option(daemon, FLUSH, number(1)))
send("a", packet("10.0.1.9", "225.2.0.1"))
reports(daemon)

print("# our own programs")
attempt("mfc", option(daemon, ADD_MFC, mfc("10.0.1.1", "225.3.0.1", 0, {1: 1, 31: 4})))
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.bind(("10.0.1.1", 1000))
own = socket.inet_aton("10.0.1.1")
sender.setsockopt(0, socket.IP_MULTICAST_IF, own)
for ttl in (1, 3, 9):
    sender.setsockopt(0, socket.IP_MULTICAST_TTL, ttl)
    sender.sendto(b"x" * 20, ("225.3.0.1", 2000))
    print(f"own with TTL {ttl}:", "; ".join(seen()))
sender.setsockopt(0, socket.IP_MULTICAST_LOOP, 0)
sender.sendto(b"x" * 20, ("225.3.0.1", 2000))
print("own without a loop:", "; ".join(seen()))
sender.setsockopt(0, socket.IP_MULTICAST_LOOP, 1)
sender.sendto(b"x" * 20, ("225.3.0.2", 2000))
print("own without a route:", "; ".join(seen()))
reports(daemon)
show()
attempt("mfc", option(daemon, ADD_MFC, mfc("10.0.1.1", "225.3.0.2", 0, {1: 1})))
print("resolved:", "; ".join(seen()))
show()


def member(index):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("225.3.0.1", 2000))
    sock.setsockopt(0, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("225.3.0.1") + struct.pack("4xI", index))
    return sock


def heard(sock):
    time.sleep(0.1)
    count = 0
    while True:
        try:
            sock.recv(2000, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return count
        count += 1


print("# a program of ours is a member")
for name in "abd":
    receiver = member(indices[name])
    attempt("mfc", option(daemon, ADD_MFC, mfc("10.0.1.2", "225.3.0.1", 0, {1: 1, 31: 4})))
    send("a", packet("10.0.1.2", "225.3.0.1"))
    print(f"member on {name} heard", heard(receiver))
    sender.sendto(b"x" * 20, ("225.3.0.1", 2000))
    print("own:", "; ".join(seen()))
    print(f"member on {name} heard", heard(receiver))
    attempt("uses", lambda: uses(daemon, "10.0.1.2", "225.3.0.1"))
    attempt("uses", lambda: uses(daemon, "10.0.1.1", "225.3.0.1"))
    receiver.close()
    time.sleep(0.1)
receiver = member(indices["a"])
send("a", packet("10.0.1.7", "225.3.0.1"))
print("unresolved, heard", heard(receiver))
reports(daemon)
receiver.close()
time.sleep(0.1)

print("# IGMP for the daemon")
send("a", packet("10.0.1.2", "225.4.0.1", protocol=2, ttl=1))
send("a", packet("10.0.1.2", "225.4.0.1", protocol=2, ttl=1, options=b"\x94\x04\0\0", length=44))
send("a", packet("10.0.1.2", "225.4.0.1", protocol=103, options=b"\x94\x04\0\0", length=44))
reports(daemon)

print("# the end")
attempt("static mfc", option(other, ADD_MFC, mfc("10.0.1.2", "225.5.0.1", 0, {1: 1})))
attempt("static vif", option(other, ADD_VIF, vif(3, "10.0.4.1")))
attempt("a vif and its device", option(daemon, ADD_VIF, vif(5, "10.0.4.1")))
wires.pop("d").close()
subprocess.run(["ip", "link", "del", "d1"], check=True)
DEVICES = "abc"
forwarding()
show()
attempt("flush vifs", option(daemon, FLUSH, number(4)))
attempt("static vif", option(other, ADD_VIF, vif(3, "10.0.1.1")))
attempt("done", option(daemon, DONE, b""))
forwarding()
show()
send("a", packet("10.0.1.2", "225.5.0.1"))
attempt("init of another", option(other, INIT, number(1)))
send("a", packet("10.0.1.2", "225.5.0.1"))
send("a", packet("10.0.1.2", "225.5.0.2"))
reports(other)
show()
other.close()
time.sleep(0.2)
forwarding()
show()
attempt("flush all", option(daemon, FLUSH, number(15)))
show()
attempt("init", option(daemon, INIT, number(1)))
attempt("vif 0", option(daemon, ADD_VIF, vif(0, "10.0.1.1")))
daemon.close()
time.sleep(0.2)
forwarding()
show()
