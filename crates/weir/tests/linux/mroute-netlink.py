# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Requests about multicast routes, and what listeners hear; see mroute-netlink.sh and mroute6-netlink.sh."""
import errno
import re
import socket
import struct
import subprocess
import tempfile
import time

from mroute_family import *

NEWLINK, GETLINK, NEWROUTE, DELROUTE, GETROUTE, CACHEREPORT = 16, 18, 24, 25, 26, 96
DST, SRC, IIF, OIF, PREFSRC, MULTIPATH, TABLE, EXPIRES, PAD = 1, 2, 3, 4, 7, 9, 15, 23, 24
UNIVERSE, MULTICAST, STATIC, MROUTED = 0, 5, 4, 17
MR, BITS, GROUPS, IP = (129, 128, (10, 31), "ip -6") if V6 else (128, 32, (6, 30), "ip")
REQUEST, ACK, DUMP = 1, 4, 0x300


def attribute(kind, value):
    return struct.pack("HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def ip(kind, name):
    return attribute(kind, address(name))


def word(kind, value):
    return attribute(kind, struct.pack("I", value))


def hops(*thresholds):
    return attribute(MULTIPATH, b"".join(struct.pack("HBBi", 8, 0, ttl, 0) for ttl in thresholds))


def rtmsg(family=MR, dst_len=BITS, src_len=BITS, protocol=STATIC, kind=MULTICAST, scope=UNIVERSE, table=0, flags=0):
    return struct.pack("BBBBBBBBI", family, dst_len, src_len, 0, table, protocol, scope, kind, flags)


class Netlink:
    def __init__(self, strict=False):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self.socket.bind((0, 0))
        self.socket.setsockopt(270, 11, 1)
        if strict:
            self.socket.setsockopt(270, 12, 1)
        self.sequence = 0

    def ask(self, name, kind, payload, flags=ACK):
        self.sequence += 1
        self.socket.send(struct.pack("IHHII", 16 + len(payload), kind, REQUEST | flags, self.sequence, 0) + payload)
        print(f"{name}:")
        while True:
            data = self.socket.recv(65536)
            while data:
                length, kind, flags, _, _ = struct.unpack("IHHII", data[:16])
                body, data = data[16:length], data[(length + 3) & ~3 :]
                if kind in (2, 3):
                    code = struct.unpack("i", body[:4])[0] if len(body) >= 4 else 0
                    text = re.search(rb"[A-Za-z][A-Za-z0-9_:, -]{6,}\0", body[4:])
                    print("  end" if kind == 3 else "  answer", errno.errorcode.get(-code, code),
                          text.group()[:-1].decode() if text and code else "", f"flags {flags & 0x20:x}")
                    return
                if kind in (NEWROUTE, NEWLINK):
                    show(kind, body, flags)


def show(kind, body, flags):
    size = 16 if kind in (NEWLINK, GETLINK) else 12
    if kind == CACHEREPORT:
        size = 4
    elif body[0] != MR:
        return
    head = bytearray(body[:size])
    if kind == CACHEREPORT:
        head = head[:1]
    print(f"  message {kind} flags {flags:x}: {head.hex()}")
    rest = body[size:]
    while len(rest) >= 4:
        length, name = struct.unpack("HH", rest[:4])
        value = rest[4:length]
        if kind == NEWLINK:
            table(value)
            rest = rest[(length + 3) & ~3 :]
            continue
        if kind != CACHEREPORT and name == PAD:
            # Some processors want 64 bits aligned.
            rest = rest[(length + 3) & ~3 :]
            continue
        if name == EXPIRES and len(value) == 8:
            value = b"times"
        if kind == CACHEREPORT and name == 5:
            # The kernel leaves what follows type and code as it was in memory.
            value = (b"" if V6 else value[:2]) + b"..%d" % len(value)
        print(f"    {name}: {value.hex()}")
        rest = rest[(length + 3) & ~3 :]


def table(data, indent="    "):
    """Attributes of a table or, deeper, of its VIFs."""
    while len(data) >= 4:
        length, name = struct.unpack("HH", data[:4])
        value = data[4:length]
        if len(indent) < 8 and name == 6 or len(indent) == 8:
            print(f"{indent}{name}:")
            table(value, indent + "    ")
        elif len(indent) < 8 or name != 10:
            print(f"{indent}{name}: {value.hex()}")
        data = data[(length + 3) & ~3 :]


def run(*command):
    print("+", *command, flush=True)
    subprocess.run(command, stderr=subprocess.STDOUT)


def send(source, group):
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    wire.bind(("a1", ETHERTYPE))
    wire.send(mac_of(address(group)) + bytes((2, 0, 0, 0, 1, 0)) + struct.pack("!H", ETHERTYPE) + packet(source, group))
    time.sleep(0.1)


def hear(sock):
    time.sleep(0.1)
    while True:
        try:
            data = sock.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        while data:
            length, kind, flags, sequence, port = struct.unpack("IHHII", data[:16])
            print(f"heard {kind} of {port} {sequence}")
            show(kind, data[16:length], flags)
            data = data[(length + 3) & ~3 :]


listener = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
listener.bind((0, 0))
for group in GROUPS:
    listener.setsockopt(270, 1, group)
places = [tempfile.TemporaryFile("w+") for _ in range(2)]
monitors = [
    subprocess.Popen(IP.split() + ["monitor", "mroute"], stdout=places[0]),
    subprocess.Popen(IP.split() + ["monitor", "netconf"], stdout=places[1]),
]
time.sleep(0.5)
loose, strict = Netlink(), Netlink(True)
A, B, C = (socket.if_nametoindex(name + "0") for name in "abc")

print("# without a daemon")
loose.ask("tables", GETLINK, struct.pack("BBHiII", MR, 0, 0, 0, 0, 0), DUMP)
loose.ask("routes", GETROUTE, rtmsg(), DUMP)
loose.ask("get", GETROUTE, rtmsg() + ip(SRC, "10.0.1.2") + ip(DST, "225.1.1.1"))
loose.ask("new without a VIF", NEWROUTE, rtmsg() + ip(SRC, "10.0.1.2") + ip(DST, "225.1.1.1") + word(IIF, A))
loose.ask("delete", DELROUTE, rtmsg() + ip(SRC, "10.0.1.2") + ip(DST, "225.1.1.1"))

print("# a daemon")
daemon = daemon_socket()
attempt("init", option(daemon, INIT, number(1)))
for index in (0, 1, 2):
    attempt(f"vif {index}", option(daemon, ADD_VIF, vif(index, f"10.0.{index + 1}.1")))
run(*IP.split(), "netconf", "show", "dev", "a0")
attempt("mfc", option(daemon, ADD_MFC, mfc("10.0.1.2", "225.1.1.1", 0, {1: 1, 2: 3})))
send("10.0.1.2", "225.1.1.1")
send("10.0.1.3", "225.1.1.2")
hear(listener)
both = ip(SRC, "10.0.1.2") + ip(DST, "225.1.1.1")
loose.ask("tables", GETLINK, struct.pack("BBHiII", MR, 0, 0, 0, 0, 0), DUMP)
loose.ask("get", GETROUTE, rtmsg() + both)
strict.ask("get", GETROUTE, rtmsg(protocol=0, kind=0) + both)
strict.ask("get with values", GETROUTE, rtmsg() + both)
strict.ask("get without lengths", GETROUTE, rtmsg(protocol=0, kind=0, src_len=0) + both)
strict.ask("get with a length of 24", GETROUTE, rtmsg(protocol=0, kind=0, src_len=24) + both)
strict.ask("get with a device", GETROUTE, rtmsg(protocol=0, kind=0) + both + word(IIF, A))
strict.ask("get of a table", GETROUTE, rtmsg(protocol=0, kind=0) + both + word(TABLE, 5))
strict.ask("get short", GETROUTE, rtmsg()[:8])
strict.ask("get of one that waits", GETROUTE,
           rtmsg(protocol=0, kind=0) + ip(SRC, "10.0.1.3") + ip(DST, "225.1.1.2"))
plain = dict(dst_len=0, src_len=0, protocol=0, kind=0)
strict.ask("dump", GETROUTE, rtmsg(**plain), DUMP)
strict.ask("dump by b0", GETROUTE, rtmsg(**plain) + word(OIF, B), DUMP)
strict.ask("dump by a0", GETROUTE, rtmsg(**plain) + word(OIF, A), DUMP)
strict.ask("dump by no device", GETROUTE, rtmsg(**plain) + word(OIF, 99), DUMP)
strict.ask("dump of table 5", GETROUTE, rtmsg(**plain) + word(TABLE, 5), DUMP)
for protocol, kind in ((STATIC, 0), (0, MULTICAST), (0, 1)):
    strict.ask(f"dump of {protocol} {kind}", GETROUTE, rtmsg(**dict(plain, protocol=protocol, kind=kind)), DUMP)
strict.ask("dump of lengths", GETROUTE, rtmsg(), DUMP)
strict.ask("dump of all families", GETROUTE, rtmsg(family=0, **plain), DUMP)
strict.ask("tables", GETLINK, struct.pack("BBHiII", MR, 0, 0, 0, 0, 0), DUMP)
strict.ask("table with an index", GETLINK, struct.pack("BBHiII", MR, 0, 0, 5, 0, 0), DUMP)
strict.ask("table with an attribute", GETLINK, struct.pack("BBHiII", MR, 0, 0, 0, 0, 0) + word(1, 1), DUMP)
strict.ask("table, short", GETLINK, bytes((MR, 0, 0, 0)), DUMP)

print("# requests")
more = ip(SRC, "10.0.1.4") + ip(DST, "225.1.1.4") + word(IIF, A)
for name, head in (
    ("of 24 bits", rtmsg(dst_len=24)),
    ("of source 0", rtmsg(src_len=0)),
    ("of unicast", rtmsg(kind=1)),
    ("of scope link", rtmsg(scope=253)),
    ("of boot", rtmsg(protocol=3)),
):
    loose.ask("new " + name, NEWROUTE, head + more)
loose.ask("new by no device", NEWROUTE, rtmsg() + ip(DST, "225.1.1.4") + word(IIF, 99))
loose.ask("new by lo", NEWROUTE, rtmsg() + ip(DST, "225.1.1.4") + word(IIF, 1))
loose.ask("new for no group", NEWROUTE, rtmsg() + ip(DST, "10.1.1.1") + word(IIF, A))
loose.ask("new with a short address", NEWROUTE, rtmsg() + attribute(DST, b"12") + word(IIF, A))
loose.ask("new with short hops", NEWROUTE, rtmsg() + more + attribute(MULTIPATH, b"1234"))
loose.ask("new with bytes behind hops", NEWROUTE, rtmsg() + more + attribute(MULTIPATH, bytes((8, 0, 0, 1)) + bytes(7)))
loose.ask("new with hops of no length", NEWROUTE, rtmsg() + more + attribute(MULTIPATH, bytes(8)))
loose.ask("new", NEWROUTE, rtmsg() + more + hops(0, 1, 5))
loose.ask("new again", NEWROUTE, rtmsg(protocol=MROUTED) + more + hops(0, 0, 7))
loose.ask("new of mrouted", NEWROUTE, rtmsg(protocol=MROUTED) + ip(DST, "225.1.1.5") + word(IIF, B) + hops(*[1] * 33))
loose.ask("new proxy", NEWROUTE, rtmsg() + ip(DST, "225.1.1.5") + word(IIF, A) + ip(PREFSRC, "1.2.3.4"))
loose.ask("new in table 77", NEWROUTE, rtmsg() + ip(DST, "225.1.1.6") + word(IIF, A) + word(TABLE, 77))
hear(listener)
loose.ask("dump", GETROUTE, rtmsg(), DUMP)
loose.ask("delete none", DELROUTE, rtmsg() + ip(DST, "225.1.1.9"))
loose.ask("delete", DELROUTE, rtmsg() + more)
loose.ask("delete of boot", DELROUTE, rtmsg(protocol=3) + ip(DST, "225.1.1.6"))
hear(listener)
for command in (
    "mroute", "-s mroute", "mroute show table all", "mroute show iif a0",
    "mroute show iif c0", "-j mroute", "-d mroute", "mrule",
    "rule show table 253", "route show table all type multicast",
):
    if command.startswith("-s"):
        # Ages are times.
        print("+", IP, command)
        text = subprocess.run((IP + " " + command).split(), capture_output=True, text=True).stdout
        print(re.sub(r"Age +[0-9.]+", "Age -", text), end="")
    else:
        run(*IP.split(), *command.split())
send("10.0.1.9", "225.1.1.7")
loose.ask("resolved", NEWROUTE, rtmsg() + ip(SRC, "10.0.1.9") + ip(DST, "225.1.1.7") + word(IIF, A) + hops(0, 1))
time.sleep(0.1)
run("cat", "/proc/net/" + FILES[1])
run("ip", "link", "del", "c0")
run(*IP.split(), "mroute")
# Nobody adds an entry: packets wait for ten seconds.
send("10.0.1.3", "225.1.1.9")
run("cat", "/proc/net/" + FILES[1])
time.sleep(11)
run("cat", "/proc/net/" + FILES[1])
daemon.close()
time.sleep(0.2)
run(*IP.split(), "mroute")
hear(listener)
for name, monitor, place in zip(("mroute", "netconf"), monitors, places):
    monitor.terminate()
    monitor.wait()
    place.seek(0)
    print(f"# ip monitor {name}")
    print(place.read(), end="")
