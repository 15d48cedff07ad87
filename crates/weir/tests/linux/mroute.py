# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A multicast routing daemon that says what it sees; see mroute.sh and mroute6.sh."""
import socket
import struct
import subprocess
import time

from mroute_family import *

# Options of a packet that routers read: record route, padding.
RECORD = b"\1\4\0\0\0\0" if V6 else b"\x07\x07\x04\0\0\0\0\0"
wires = {}
for name in DEVICES:
    wires[name] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    wires[name].bind((name + "1", ETHERTYPE))


def seen():
    """What came out of the wires since the last time: of multicast packets, the TTL and the length."""
    time.sleep(0.1)
    found = []
    for name, wire in wires.items():
        while True:
            try:
                frame, sender = wire.recvfrom(4096, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            data = frame[14:]
            # Not those that this program sends, and no report of groups.
            if sender[2] == socket.PACKET_OUTGOING or is_noise(group_of(data)):
                continue
            more = " wrong checksum" if is_broken(data) else ""
            mac = frame[:6].hex(":")
            found.append(f"{name} {shown(group_of(data))} ttl {ttl_of(data)} length {len(data)} to {mac}{more}")
    return found


def send(name, what, *, say=True):
    head = mac_of(group_of(what)) + bytes((2, 0, 0, 0, 1, 0)) + struct.pack("!H", ETHERTYPE)
    wires[name].send(head + what)
    if say:
        print(f"sent by {name}:", "; ".join(seen()) or "nothing")


def reports(sock):
    time.sleep(0.1)
    while True:
        try:
            data, control, _, sender = sock.recvmsg(200, 200, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if V6:
            if data[0]:
                print(f"  ICMPv6 message {data[0]} from {sender[0]}, {len(data)} bytes")
                continue
            kind, vif = data[1], struct.unpack("H", data[2:4])[0]
            print(f"  report {kind} mif {vif} {shown(data[8:24])} {shown(data[24:40])} from {sender}, {len(data)} bytes, "
                  f"{data[:8].hex()}, {len(control)} control messages")
            continue
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
    for name in FILES:
        print(open("/proc/net/" + name).read(), end="")


def forwarding():
    names = ["all", "default", "lo"] + [name + "0" for name in DEVICES]
    values = [open(f"{CONF}/{name}/mc_forwarding").read().strip() for name in names]
    print("mc_forwarding", *values)
    link = subprocess.run(["ip", "-d", "link", "show", "a0"], capture_output=True, text=True).stdout
    print("allmulti", link.split("allmulti ")[1].split()[0] if "allmulti " in link else "-", "ALLMULTI" in link)


print("# other sockets")
udp = socket.socket(FAMILY, socket.SOCK_DGRAM)
icmp = socket.socket(FAMILY, socket.SOCK_RAW, OTHER)
for sock in (udp, icmp):
    attempt("init", option(sock, INIT, number(1)))
    attempt("version", lambda: sock.getsockopt(LEVEL, VERSION))
if V6:
    attempt("init on IPv4", option(socket.socket(socket.AF_INET, socket.SOCK_RAW, 58), INIT, number(1)))
else:
    attempt("init on IPv6", option(socket.socket(socket.AF_INET6, socket.SOCK_RAW, 2), INIT, number(1)))
attempt("count of icmp", lambda: counts(icmp, 0))

print("# wrong values")
daemon, other = daemon_socket(), daemon_socket()
attempt("done before", option(daemon, DONE, b""))
attempt("init short", option(daemon, INIT, b"\1\0"))
attempt("init long", option(daemon, INIT, bytes(8)))
attempt("init", option(daemon, INIT, number(1)))
attempt("init again", option(daemon, INIT, number(1)))
attempt("init of another", option(other, INIT, number(1)))
attempt("done of another", option(other, DONE, b""))
attempt("version", lambda: hex(daemon.getsockopt(LEVEL, VERSION)))
attempt("version, two bytes", lambda: daemon.getsockopt(LEVEL, VERSION, 2).hex())
attempt("version, no byte", lambda: daemon.getsockopt(LEVEL, VERSION, 0))
attempt("version, many bytes", lambda: len(daemon.getsockopt(LEVEL, VERSION, 100)))
attempt("set version", option(daemon, VERSION, number(1)))
attempt("get init", lambda: daemon.getsockopt(LEVEL, INIT))
attempt("get table", lambda: daemon.getsockopt(LEVEL, TABLE))
attempt("table", option(daemon, TABLE, number(5)))
attempt("option 213", option(daemon, 213, number(5)))
attempt("option 199", option(daemon, 199, number(5)))
vif_lengths = (("1 byte", bytes(1)), ("11 bytes", bytes(11))) if V6 else (("15 bytes", bytes(15)), ("17 bytes", bytes(17)))
for name, value in (("short", b""), *vif_lengths):
    attempt("vif " + name, option(daemon, ADD_VIF, value))
    attempt("del vif " + name, option(daemon, DEL_VIF, value))
entry_more = () if V6 else (("61 bytes", bytes(61)),)
for name, value in (("short", b""), (f"{ENTRY - 1} bytes", bytes(ENTRY - 1)), *entry_more):
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
attempt("get assert", lambda: daemon.getsockopt(LEVEL, ASSERT))
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
for line in open("/proc/net/" + FILES[0]):
    print(line[:57].rstrip("\n"))
attempt("static vif", option(other, ADD_VIF, vif(3, "10.0.4.1")))
forwarding()

print("# forwarding")
attempt("mfc", option(daemon, ADD_MFC, mfc("10.0.1.2", "225.1.1.1", 0, {0: 1, 1: 1, 3: 4, 31: 5, 9: 1})))
send("a", packet("10.0.1.2", "225.1.1.1"))
send("a", packet("10.0.1.2", "225.1.1.1", ttl=5))
send("a", packet("10.0.1.2", "225.1.1.1", ttl=2))
send("a", packet("10.0.1.2", "225.1.1.1", ttl=1))
send("a", packet("10.0.1.2", "225.1.1.1", length=1500))
send("a", packet("10.0.1.2", "225.1.1.1", options=RECORD, length=60))
reports(daemon)
attempt("uses", lambda: uses(daemon, "10.0.1.2", "225.1.1.1"))
for index in (0, 1, 3, 31):
    attempt(f"counts of vif {index}", lambda: counts(daemon, index))
show()

print("# MTU")
subprocess.run(["ip", "link", "set", "b0", "mtu", str(MTU)], check=True)
send("a", packet("10.0.1.2", "225.1.1.1", length=LONG, df=True))
send("a", packet("10.0.1.2", "225.1.1.1", length=LONG))
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
sender = socket.socket(FAMILY, socket.SOCK_DGRAM)
sender.bind((text("10.0.1.1"), 1000))
multicast_options(sender, device=indices["a"])
for ttl in (1, 3, 9):
    multicast_options(sender, ttl=ttl)
    sender.sendto(b"x" * 20, (text("225.3.0.1"), 2000))
    print(f"own with TTL {ttl}:", "; ".join(seen()))
multicast_options(sender, loop=0)
sender.sendto(b"x" * 20, (text("225.3.0.1"), 2000))
print("own without a loop:", "; ".join(seen()))
multicast_options(sender, loop=1)
sender.sendto(b"x" * 20, (text("225.3.0.2"), 2000))
print("own without a route:", "; ".join(seen()))
reports(daemon)
show()
attempt("mfc", option(daemon, ADD_MFC, mfc("10.0.1.1", "225.3.0.2", 0, {1: 1})))
print("resolved:", "; ".join(seen()))
show()


def member(index):
    sock = socket.socket(FAMILY, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((text("225.3.0.1"), 2000))
    join(sock, "225.3.0.1", index)
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
    sender.sendto(b"x" * 20, (text("225.3.0.1"), 2000))
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

if V6:
    print("# MLD for the daemon")
    alert, other_alert, pad = b"\5\2\0\0\1\0", b"\5\2\0\1\1\0", b"\1\4\0\0\0\0"
    report = bytes((131, 0, 0, 0, 0, 0, 0, 0)) + address("225.4.0.1")
    echo = bytes((128, 0, 0, 0, 0, 0, 0, 0))
    for message in (report, echo):
        for options in (alert, other_alert, pad, b""):
            send("a", packet("10.0.1.2", "225.4.0.1", protocol=58, options=options, payload=message))
    send("a", packet("10.0.1.2", "225.4.0.1", options=alert))
else:
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
