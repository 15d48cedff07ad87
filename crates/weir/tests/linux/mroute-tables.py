# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Several multicast routing tables, and the rules that choose one; see mroute-tables.sh and mroute6-tables.sh."""
import re
import socket
import struct
import subprocess
import tempfile
import time

from mroute_family import *

MR, IP, MAIN = (129, "ip -6", 254) if V6 else (128, "ip", 253)
wires = {}
for name in DEVICES:
    wires[name] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    wires[name].bind((name + "1", ETHERTYPE))


def seen():
    """What came out of the wires since the last time: of multicast packets, the TTL."""
    time.sleep(0.1)
    found = []
    for name, wire in wires.items():
        while True:
            try:
                frame, sender = wire.recvfrom(4096, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            data = frame[14:]
            if sender[2] != socket.PACKET_OUTGOING and not is_noise(group_of(data)):
                found.append(f"{name} {shown(group_of(data))} ttl {ttl_of(data)}")
    return found


def send(name, source, group):
    what = packet(source, group)
    head = mac_of(group_of(what)) + bytes((2, 0, 0, 0, 1, 0)) + struct.pack("!H", ETHERTYPE)
    wires[name].send(head + what)
    print(f"sent by {name} to {group}:", "; ".join(seen()) or "nothing")


def reports(**daemons):
    time.sleep(0.1)
    for name, sock in daemons.items():
        while True:
            try:
                data = sock.recv(200, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            if V6 and data[0] == 0:
                print(f"  {name}: report {data[1]} mif {data[2]} {shown(data[8:24])} {shown(data[24:40])}")
            elif not V6 and data[9] == 0:
                print(f"  {name}: report {data[8]} vif {data[10]} {shown(data[12:16])} {shown(data[16:20])}")


def run(*command):
    print("+", *command, flush=True)
    subprocess.run(command, stderr=subprocess.STDOUT)


def mr(command):
    run(*IP.split(), *command.split())


def tables():
    """Which tables there are: all of IPv4, as links of the family."""
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    sock.bind((0, 0))
    sock.send(struct.pack("IHHIIBBHiII", 32, 18, 0x301, 1, 0, MR, 0, 0, 0, 0, 0))
    data = sock.recv(65536)
    while data:
        length, kind = struct.unpack("IH", data[:6])
        if kind == 16 and data[16] == MR:
            print("table", struct.unpack("I", data[40:44])[0])
        data = data[(length + 3) & ~3 :]


def families():
    """The families of all rules in the order of a dump."""
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    sock.bind((0, 0))
    sock.send(struct.pack("IHHIIBBBBBBBBI", 28, 34, 0x301, 1, 0, *[0] * 9))
    found = []
    while True:
        data = sock.recv(65536)
        while data:
            length, kind = struct.unpack("IH", data[:6])
            if kind == 3:
                print("families", *found)
                return
            found.append(data[16])
            data = data[(length + 3) & ~3 :]


monitor_file = tempfile.TemporaryFile("w+")
monitor = subprocess.Popen(IP.split() + ["monitor", "rule"], stdout=monitor_file)
route_file = tempfile.TemporaryFile("w+")
route_monitor = subprocess.Popen(IP.split() + ["-ts", "monitor", "mroute"], stdout=route_file)
time.sleep(0.5)

print("# rules")
mr("mrule")
families()
for command in (
    "add iif a0 table 100", "add pref 40 iif b0 table 200", "add pref 40 iif b0 table 200", "add pref 50 oif c0 table 300",
    "add pref 60 iif none0 table 100", "add pref 70 fwmark 7 table 100", "add pref 80 unreachable iif d0",
    "add pref 90 prohibit iif none1", "add pref 95 blackhole iif none1", "add pref 30 goto 50", "add pref 99 goto 60",
    "add pref 110 from 10.1.0.0/16 to 10.2.0.0/16 table 5" if not V6 else "add pref 110 from fc00::/16 to fc01::/16 table 5",
    "add pref 111 ipproto udp sport 5 dport 7-9 table 5", "add pref 112 uidrange 5-9 table 5", "add pref 113 not iif a0 table 5",
    "add pref 114 suppress_prefixlength 5 table 5", "add pref 115 l3mdev", "add pref 116 tos 4 table 5",
    "del pref 17", "del pref 30", "del iif a0", "del pref 115", "del table 5", "del pref 111", "del pref 112",
):
    mr("mrule " + command)
mr("mrule")
mr("-d mrule")
mr("-j mrule")
mr("rule show")
families()
run("ip", "link", "add", "none0", "type", "dummy")
run("ip", "link", "add", "none2", "type", "dummy")
run("ip", "link", "set", "none2", "name", "none1")
mr("mrule")
run("ip", "link", "del", "none0")
run("ip", "link", "del", "none1")
mr("mrule")
mr("mrule flush")
mr("mrule")
mr("mrule add pref 32767 table %s" % ("main" if V6 else "default"))

print("# tables")
one, two, other = daemon_socket(), daemon_socket(), daemon_socket()
attempt("table short", option(two, TABLE, b"1"))
for value in (1000000000, 999999999, 100000000, 99999999, 253, 0):
    attempt(f"table {value}", option(other, TABLE, number(value)))
attempt("table -1", option(other, TABLE, number(-1)))
if not V6:
    tables()
attempt("get table", lambda: other.getsockopt(LEVEL, TABLE))
attempt("table 100", option(two, TABLE, number(100)))
attempt("init", option(one, INIT, number(1)))
attempt("init of 100", option(two, INIT, number(1)))
attempt("table of a daemon", option(two, TABLE, number(5)))
attempt("table 100 of another", option(other, TABLE, number(100)))
attempt("init of another", option(other, INIT, number(1)))
attempt("assert", option(two, ASSERT, number(1)))
attempt("get assert", lambda: (one.getsockopt(LEVEL, ASSERT), two.getsockopt(LEVEL, ASSERT)))
for index, third in ((0, 1), (1, 2)):
    attempt(f"vif {index}", option(one, ADD_VIF, vif(index, f"10.0.{third}.1")))
for index, third in ((0, 1), (1, 3), (2, 4)):
    attempt(f"vif {index} of 100", option(two, ADD_VIF, vif(index, f"10.0.{third}.1")))
attempt("counts", lambda: counts(two, 2))
attempt("counts", lambda: counts(one, 2))
run("cat", "/proc/sys/net/ipv%d/conf/all/mc_forwarding" % (6 if V6 else 4))
run("cat", "/proc/sys/net/ipv%d/conf/a0/mc_forwarding" % (6 if V6 else 4))
run("cut", "-c1-57", "/proc/net/" + FILES[0])

print("# which table")
attempt("mfc", option(one, ADD_MFC, mfc("10.0.1.2", "225.1.1.1", 0, {1: 1})))
attempt("mfc of 100", option(two, ADD_MFC, mfc("10.0.1.2", "225.1.1.1", 0, {1: 1, 2: 1})))
attempt("static mfc of 100", option(other, ADD_MFC, mfc("10.0.1.5", "225.1.1.5", 0, {1: 1})))
send("a", "10.0.1.2", "225.1.1.1")
send("c", "10.0.3.2", "225.1.1.2")
reports(one=one, two=two)
mr("mrule add pref 10 iif a0 table 100")
send("a", "10.0.1.2", "225.1.1.1")
send("b", "10.0.2.2", "225.1.1.2")
send("a", "10.0.1.3", "225.1.1.3")
reports(one=one, two=two)
attempt("mfc of 100", option(two, ADD_MFC, mfc("10.0.1.3", "225.1.1.3", 0, {2: 1})))
print("resolved:", seen())
for action in ("unreachable", "prohibit", "blackhole"):
    mr(f"mrule add pref 5 {action} iif a0")
    send("a", "10.0.1.2", "225.1.1.1")
    mr("mrule del pref 5")
mr("mrule add pref 5 iif a0 table 77")
send("a", "10.0.1.2", "225.1.1.1")
mr("mrule add pref 4 goto 32767")
send("a", "10.0.1.2", "225.1.1.1")
mr("mrule del pref 4")
mr("mrule del pref 5")
mr("mrule del pref 10")
mr("mrule add pref 10 not iif a0 table 100")
send("a", "10.0.1.2", "225.1.1.1")
send("c", "10.0.3.2", "225.1.1.1")
mr("mrule del pref 10")
mr("mrule add pref 10 oif a0 table 100")
send("a", "10.0.1.2", "225.1.1.1")
sender = socket.socket(FAMILY, socket.SOCK_DGRAM)
sender.bind((text("10.0.1.1"), 1000))
index = socket.if_nametoindex("a0")
multicast_options(sender, device=index, ttl=8)


def own():
    attempt("own", lambda: sender.sendto(b"x" * 20, (text("225.3.0.1"), 2000)))
    print("out:", "; ".join(seen()) or "nothing")


for table, daemon in ((MAIN, one), (100, two)):
    attempt("mfc", option(daemon, ADD_MFC, mfc("10.0.1.1", "225.3.0.1", 0, {1: 1})))
own()
mr("mrule add pref 8 iif lo table main")
own()
mr("mrule del pref 8")
mr("mrule add pref 8 iif a0 table 100")
own()
mr("mrule del pref 8")
mr("mrule add pref 8 iif lo table 100")
own()
mr("mrule del pref 8")
mr("mrule del pref 10")
mr("mrule del pref 32767")
send("a", "10.0.1.2", "225.1.1.1")
mr("mrule")
own()
mr("mrule add pref 32767 table %s" % ("main" if V6 else "default"))

print("# a member")
receiver = socket.socket(FAMILY, socket.SOCK_DGRAM)
receiver.bind((text("225.1.1.1"), 2000))
join(receiver, "225.1.1.1", index)
for rule in ("unreachable", "table 100"):
    mr(f"mrule add pref 5 iif a0 {rule}")
    send("a", "10.0.1.2", "225.1.1.1")
    try:
        print("heard", len(receiver.recv(2000, socket.MSG_DONTWAIT)))
    except BlockingIOError:
        print("heard nothing")
    mr("mrule del pref 5")
receiver.close()

print("# netlink")
for command in ("show", "show table 100", "show table all", "show table 77", "show table main", "show table default"):
    mr("mroute " + command)
mr("route show table 100 type multicast")
run("cat", "/proc/net/" + FILES[1])
if not V6:
    tables()
attempt("uses", lambda: uses(two, "10.0.1.2", "225.1.1.1"))
attempt("uses", lambda: uses(one, "10.0.1.2", "225.1.1.1"))
attempt("flush of 100", option(two, FLUSH, number(1)))
mr("mroute show table all")

print("# a VRF")
run("ip", "link", "add", "vrf0", "type", "vrf", "table", "100")
run("ip", "link", "set", "vrf0", "up")
mr("mrule")
families()
run("ip", "link", "set", "c0", "master", "vrf0")
run("ip", "link", "set", "d0", "master", "vrf0")
if V6:
    for third, name in ((3, "c0"), (4, "d0")):
        run("ip", "addr", "add", f"fc00:{third}::1/64", "dev", name, "nodad")
    time.sleep(0.3)
attempt("vif 1 of 100", lambda: counts(two, 1))
attempt("vif 2 of 100", lambda: counts(two, 2))
attempt("mfc", option(two, ADD_MFC, mfc("10.0.3.2", "225.1.1.1", 1, {2: 1})))
send("c", "10.0.3.2", "225.1.1.1")
send("c", "10.0.3.3", "225.1.1.2")
send("d", "10.0.4.3", "225.1.1.2")
send("a", "10.0.1.2", "225.1.1.1")
reports(one=one, two=two)
mr("mrule add pref 9 iif c0 blackhole")
send("c", "10.0.3.2", "225.1.1.1")
mr("mrule del pref 9")
mr("mrule add pref 9 iif vrf0 blackhole")
send("c", "10.0.3.2", "225.1.1.1")
mr("mrule del pref 9")
mr("mrule del pref 1000")
send("c", "10.0.3.2", "225.1.1.1")
mr("mrule add l3mdev pref 1000")
send("c", "10.0.3.2", "225.1.1.1")
sender.close()
sender = socket.socket(FAMILY, socket.SOCK_DGRAM)
sender.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"vrf0")
sender.bind((text("10.0.3.1"), 1000))
multicast_options(sender, device=socket.if_nametoindex("c0"), ttl=8)
attempt("mfc", option(two, ADD_MFC, mfc("10.0.3.1", "225.3.0.1", 1, {2: 1})))
own()
run("cat", "/proc/net/" + FILES[1])
mr("mroute show table all")

print("# the end")
attempt("done of another", option(other, DONE, b""))
two.close()
time.sleep(0.2)
run("cat", "/proc/sys/net/ipv%d/conf/all/mc_forwarding" % (6 if V6 else 4))
mr("mroute show table all")
attempt("init of 100", option(other, INIT, number(1)))
attempt("done", option(one, DONE, b""))
attempt("table of a former daemon", option(one, TABLE, number(5)))
attempt("init of 5", option(one, INIT, number(1)))
mr("mroute show table all")
run("ip", "link", "del", "vrf0")
mr("mrule")
for process, file in ((monitor, monitor_file), (route_monitor, route_file)):
    process.terminate()
    process.wait()
    file.seek(0)
    print("# a monitor")
    print(re.sub(r"(?m)^Timestamp.*\n|^\[[^]]*\] ", "", file.read()), end="")
