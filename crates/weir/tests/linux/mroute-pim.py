# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A multicast routing daemon that speaks PIM; see mroute-pim.sh and mroute6-pim.sh."""
import re
import socket
import struct
import subprocess
import time

from mroute_family import *

NAME = "pim6reg" if V6 else "pimreg"
MAIN = 254 if V6 else 253
wires = {}
for name in DEVICES:
    wires[name] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    wires[name].bind((name + "1", ETHERTYPE))


def seen():
    """What came out of the wires since the last time: of multicast packets, the TTL and the length; of others, the protocol."""
    time.sleep(0.1)
    found = []
    for name, wire in wires.items():
        while True:
            try:
                frame, sender = wire.recvfrom(4096, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            data = frame[14:]
            if sender[2] == socket.PACKET_OUTGOING or is_noise(group_of(data)) or V6 and data[6] == 58 and data[40] in (135, 136):
                continue
            more = "" if frame[0] & 1 else f" protocol {data[6] if V6 else data[9]} {data[40 if V6 else 20:][:2].hex()}"
            found.append(f"{name} {shown(group_of(data))} ttl {ttl_of(data)} length {len(data)}{more}")
    return found


def send(name, what, unicast=False):
    mac = bytes((2, 0, 0, 0, 0, 1 + DEVICES.index(name))) if unicast else mac_of(group_of(what))
    head = mac + bytes((2, 0, 0, 0, 1, 0)) + struct.pack("!H", ETHERTYPE)
    wires[name].send(head + what)
    print(f"sent by {name}:", "; ".join(seen()) or "nothing")


def reports(sock):
    time.sleep(0.1)
    while True:
        try:
            data, sender = sock.recvfrom(3000, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if V6:
            if data[0] == 0:
                print(f"  report from {sender[0]}, {len(data)} bytes: {data[:40].hex()} {data[40:64].hex() if data[1] > 2 else ''}")
            continue
        if data[9] == 0:
            whole = data[8] > 2
            # The kernel leaves what follows type and code as it was in memory.
            print(f"  report from {sender[0]}, {len(data)} bytes: {data[:20].hex()} {data[20 : 44 if whole else 22].hex()}")
        else:
            print(f"  packet of protocol {data[9]} from {sender[0]}, {len(data)} bytes")


def show():
    for name in FILES:
        print(open("/proc/net/" + name).read(), end="")


def run(*command):
    print("+", *command, flush=True)
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    # The recording kernel does not show the number of receive queues.
    print(re.sub(r"(?m)^\d+: ", "N: ", out).replace("numrxqueues 1 ", ""), end="")


def link(name):
    run("ip", "-d", "-s", "link", "show", name)
    run("ip", "addr", "show", name)


def table():
    """The attributes of IPv4's tables without their VIFs."""
    if V6:
        return
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    sock.bind((0, 0))
    sock.send(struct.pack("IHHIIBBHiII", 32, 18, 0x301, 1, 0, 128, 0, 0, 0, 0, 0))
    data = sock.recv(65536)
    while data:
        length, kind = struct.unpack("IH", data[:6])
        if kind == 16 and data[16] == 128:
            rest, found = data[36:length], []
            while len(rest) >= 4:
                size, name = struct.unpack("HH", rest[:4])
                if name != 6:
                    found.append(f"{name}: {rest[4:size].hex()}")
                rest = rest[(size + 3) & ~3 :]
            print("table", *found)
        data = data[(length + 3) & ~3 :]


def register(source, group, flags=0, kind=0x21, wrong=False, all_bytes=False, inner=None, to="10.0.1.1", protocol=103):
    """A message of PIM version 2 with a packet."""
    inner = packet(source, group, ttl=5) if inner is None else inner
    head = struct.pack("!BBHI", kind, 0, 0, flags)
    covered = head + inner if all_bytes else head
    if V6:
        pseudo = b"" if all_bytes else address("10.0.1.2") + address(to) + struct.pack("!II", 8, 103)
        covered = pseudo + covered
    check = checksum(covered) ^ (1 if wrong else 0)
    head = head[:2] + struct.pack("!H", check) + head[4:]
    body = head + inner
    if V6:
        return struct.pack("!IHBB", 6 << 28, len(body), protocol, 64) + address("10.0.1.2") + address(to) + body
    return packet("10.0.1.2", to, ttl=64, length=20 + len(body), protocol=protocol, payload=body)


daemon, other = daemon_socket(), daemon_socket()
print("# options")
attempt("get pim", lambda: daemon.getsockopt(LEVEL, PIM))
attempt("pim short", option(daemon, PIM, b"1"))
attempt("init", option(daemon, INIT, number(1)))
for value in (1, 4, 0, 4, 5, 0, 1):
    attempt(f"pim {value}", option(daemon, PIM, number(value)))
    attempt("get pim, assert", lambda: (daemon.getsockopt(LEVEL, PIM), daemon.getsockopt(LEVEL, ASSERT)))
    table()

print("# the register VIF")
attempt("vif 0", option(daemon, ADD_VIF, vif(0, "10.0.1.1")))
attempt("vif 1", option(daemon, ADD_VIF, vif(1, "10.0.2.1")))
attempt("register with more", option(daemon, ADD_VIF, vif(2, "10.0.1.1", REGISTER | 8)))
attempt("register, taken", option(daemon, ADD_VIF, vif(1, "10.0.1.1", REGISTER)))
run("ip", "link", "add", NAME, "type", "dummy")
attempt("register, name taken", option(daemon, ADD_VIF, vif(2, "10.0.1.1", REGISTER)))
run("ip", "link", "del", NAME)
attempt("register", option(daemon, ADD_VIF, vif(2, "10.0.1.1", REGISTER)))
attempt("second register", option(daemon, ADD_VIF, vif(3, "10.0.1.1", REGISTER)))
table()
link(NAME)
run("ip", "link", "del", NAME)
run("ip", "link", "set", NAME, "netns", "1")
run("ip", "link", "set", NAME, "mtu", "1000")
run("ip", "link", "set", NAME, "mtu", "%d" % (1452 if V6 else 1472))
family = "ipv6" if V6 else "ipv4"
run("sysctl", f"net.{family}.conf.{NAME}.mc_forwarding", f"net.{family}.conf.{NAME}.forwarding")
if not V6:
    run("sysctl", f"net.ipv4.conf.{NAME}.rp_filter")
run("ip", "-6" if V6 else "-4", "route", "show", "table", "all", "dev", NAME)
show()

print("# packets to the register VIF")
attempt("mfc", option(daemon, ADD_MFC, mfc("10.0.1.2", "225.1.1.1", 0, {1: 1, 2: 1})))
send("a", packet("10.0.1.2", "225.1.1.1"))
send("a", packet("10.0.1.2", "225.1.1.1", ttl=1))
send("a", packet("10.0.1.2", "225.1.1.1", length=1500))
reports(daemon)
attempt("counts of vif 2", lambda: counts(daemon, 2))
show()
link(NAME)

print("# received registers")
attempt("mfc", option(daemon, ADD_MFC, mfc("10.9.9.9", "225.2.2.2", 2, {1: 1})))
for name, what in (
    ("good", register("10.9.9.9", "225.2.2.2")),
    ("checksum of all", register("10.9.9.9", "225.2.2.2", all_bytes=True)),
    ("wrong checksum", register("10.9.9.9", "225.2.2.2", wrong=True)),
    ("null", register("10.9.9.9", "225.2.2.2", flags=0x40000000)),
    ("border", register("10.9.9.9", "225.2.2.2", flags=0x80000000)),
    ("register stop", register("10.9.9.9", "225.2.2.2", kind=0x22)),
    ("version 1", register("10.9.9.9", "225.2.2.2", kind=0x11)),
    ("no group", register("10.9.9.9", "10.2.2.2")),
    ("short", register("10.9.9.9", "225.2.2.2", inner=packet("10.9.9.9", "225.2.2.2")[:-4])),
    ("long", register("10.9.9.9", "225.2.2.2", inner=packet("10.9.9.9", "225.2.2.2") + b"more")),
    ("no packet", register("10.9.9.9", "225.2.2.2", inner=b"")),
    ("another group", register("10.9.9.9", "225.2.2.3")),
):
    print(name)
    send("a", what, unicast=True)
reports(daemon)
if not V6:
    for code, version in ((1, 0x10000000), (2, 0x10000000), (1, 0x20000000)):
        inner = packet("10.9.9.9", "225.2.2.2", ttl=5)
        body = struct.pack("!BBHI", 0x14, code, 0, version)
        for flaw in (0, 1):
            body = body[:2] + struct.pack("!H", checksum(body[:2] + b"\0\0" + body[4:8] + inner) ^ flaw) + body[4:8] + inner
            send("a", packet("10.0.1.2", "10.0.1.1", length=20 + len(body), protocol=2, payload=body), unicast=True)
    reports(daemon)
attempt("counts of vif 2", lambda: counts(daemon, 2))
show()
link(NAME)

print("# the wrong VIF")
time.sleep(3.1)
send("c", packet("10.0.1.2", "225.1.1.1"))
send("b", packet("10.0.1.2", "225.1.1.1"))
reports(daemon)
attempt("vif 3", option(daemon, ADD_VIF, vif(3, "10.0.3.1")))
send("c", packet("10.0.1.2", "225.1.1.1"))
reports(daemon)
time.sleep(3.1)
send("c", packet("10.0.1.2", "225.1.1.1"))
reports(daemon)
attempt("pim 0", option(daemon, PIM, number(0)))
attempt("pim 4", option(daemon, PIM, number(4)))
time.sleep(3.1)
send("c", packet("10.0.1.2", "225.1.1.1"))
reports(daemon)
attempt("pim 0", option(daemon, PIM, number(0)))
attempt("assert", option(daemon, ASSERT, number(1)))
time.sleep(3.1)
send("c", packet("10.0.1.2", "225.1.1.1"))
reports(daemon)
time.sleep(3.1)
send("b", packet("10.0.1.2", "225.1.1.1"))
reports(daemon)

print("# without PIM")
send("a", register("10.9.9.9", "225.2.2.2"), unicast=True)

print("# other tables")
attempt("table 100", option(other, TABLE, number(100)))
attempt("register of 100", option(other, ADD_VIF, vif(7, "10.0.1.1", REGISTER)))
table()
link(NAME + "100")
attempt("del register of 100", option(other, DEL_VIF, vif(7, "0.0.0.0")))
link(NAME + "100")
attempt("init of 100", option(other, INIT, number(1)))
attempt("register of 100", option(other, ADD_VIF, vif(7, "10.0.1.1", REGISTER)))
attempt("flush of 100", option(other, FLUSH, number(4)))
link(NAME + "100")
attempt("register of 100", option(other, ADD_VIF, vif(7, "10.0.1.1", REGISTER)))
other.close()
time.sleep(0.2)
link(NAME + "100")

print("# no register VIF")
attempt("del register", option(daemon, DEL_VIF, vif(2, "0.0.0.0")))
link(NAME)
send("a", register("10.9.9.9", "225.2.2.2"), unicast=True)
attempt("register", option(daemon, ADD_VIF, vif(2, "10.0.1.1", REGISTER)))
attempt("done", option(daemon, DONE, b""))
link(NAME)
show()
