#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records what Linux's bridge sends: writes NAME.txt for the scripts beside this one.

Usage: examples/on-linux.sh unshare -n python3 crates/weir/tests/bridge-frames/record.py [NAME...]
(as root on Linux 6.1, or on the host's kernel for scripts without VLANs)

A script configures a bridge with the ports p1 to p4. Its comments name the frames that arrive:

    # frame: MS PORT DESTINATION SOURCE [TAG...] [type=HEX] [data=HEX]

A tag is the four octets on the wire, in hexadecimal. Without a type, the frame has ethertype 88b5 and its number as
data. A line of NAME.txt is the number of the frame after which another one left, the port, and what left.

In a script with the comment `# set`, equal BPDUs, LACPDUs, queries and ARP probes between two arrivals are one line, frames after the last arrival do not
count, and the age in a configuration BPDU is 0 or 1: they leave by timers. The number of an LACPDU is that of the last
LACPDU or marker that arrived, or 0, and that of a request of the ARP monitor the last frame that was neither an ARP packet nor one of IPv6. With `# data`, BPDUs do not count.
"""
import os, select, socket, struct, subprocess, sys, time

# The bridge's host reports the bridge's own group, 224.0.0.106, after a random delay.
OWN_REPORT = "01005e00006a020000000099"
# The same to a querier of IGMPv3.
OWN_REPORT_V3 = "01005e000016020000000099"
LACP = "0180c2000002"
# A request of the ARP monitor.
PROBE = "ffffffffffff0200000000500806"
# A solicitation of it for an IPv6 target that ends with 2.
SOLICITATION = "3333ff00000202000000005086dd"
# Our own host's reports of IPv6 groups leave after random delays.
MLD_REPORT = "3333000000160200000000"
HERE = os.path.dirname(os.path.abspath(__file__))
PORTS = ["p1", "p2", "p3", "p4"]
PACKET_AUXDATA, SOL_PACKET, OUTGOING = 8, 263, 4


def frames(script):
    """Returns (ms, port, octets) of each frame of a script."""
    found = []
    for line in open(script):
        if not line.startswith("# frame: "):
            continue
        ms, port, dst, src, *rest = line.split()[2:]
        kind, data, tags = "88b5", f"{len(found):04x}", ""
        for word in rest:
            if word.startswith("type="):
                kind = word[5:]
            elif word.startswith("data="):
                data = word[5:]
            else:
                tags += word
        octets = bytes.fromhex((dst + src).replace(":", "") + tags + kind + data)
        found.append((int(ms), port, octets.ljust(60 + len(tags) // 2, b"\0")))
    return found


def receive(sock):
    """Returns a frame with its tag, or None for one that the socket's own device sent."""
    data, control, _, address = sock.recvmsg(2048, 256)
    if address[2] == OUTGOING:
        return None
    for level, ty, aux in control:
        if level == SOL_PACKET and ty == PACKET_AUXDATA:
            status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", aux[:20])
            if status & 0x10:
                data = data[:12] + struct.pack("!HH", tpid, tci) + data[12:]
    return data


def number_of(frame, number):
    """Returns the number of the frame that a frame is a copy of, or else the number of the last frame."""
    at = 12
    while frame[at:at + 2] in (b"\x81\0", b"\x88\xa8"):
        at += 4
    if frame[at:at + 2] == b"\x88\xb5":
        return int.from_bytes(frame[at + 2:at + 4], "big")
    return number


def settle(lines, todo):
    """Returns the lines of a script with the comment `# set`."""
    def aged(frame):
        if frame[28:34] == "424203" and frame[40:42] == "00" and frame[88:92] != "0000":
            return frame[:88] + "0001" + frame[92:]
        return frame
    def numbered(number, frame):
        arrived = [octets.hex() for _, _, octets in todo[:number + 1]]
        if frame.startswith(LACP):
            return max([n for n, octets in enumerate(arrived) if octets.startswith(LACP)], default=0)
        if frame.startswith((PROBE, SOLICITATION)):
            return max([n for n, octets in enumerate(arrived) if octets[24:28] not in ("0806", "86dd")], default=0)
        return number
    last = len(todo) - 1
    lines = [(numbered(number, frame), port, aged(frame)) for number, port, frame in lines if number < last]
    timed = ("0180c2000000", LACP, PROBE, SOLICITATION, "01005e000001")
    bpdus = {line for line in lines if line[2].startswith(timed)}
    return list(bpdus) + [line for line in lines if line not in bpdus]


def record(name):
    script = os.path.join(HERE, name + ".sh")
    for n, port in enumerate(PORTS, 1):
        subprocess.run(
            f"ip link add {port} address 02:00:00:00:00:{n:02x} type veth peer name q{n};"
            f"ip link set {port} up; ip link set q{n} arp off up",
            shell=True, check=True)
    subprocess.run(["sh", script], check=True)
    time.sleep(0.3)
    sockets = {}
    for n, port in enumerate(PORTS, 1):
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        sock.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        sock.bind((f"q{n}", 0))
        sock.setblocking(False)
        sockets[sock] = port
    by_port = {port: sock for sock, port in sockets.items()}
    lines, begin = [], time.monotonic()
    todo = frames(script)
    for number, (_, port, octets) in enumerate(todo):
        by_port[port].send(octets)
        later = todo[number + 1][0] if number + 1 < len(todo) else todo[number][0] + 50
        end = begin + later / 1000
        heard = []
        while (left := end - time.monotonic()) > 0:
            for sock in select.select(list(sockets), [], [], left)[0]:
                data = receive(sock)
                if data is not None and not data.hex().startswith((OWN_REPORT, OWN_REPORT_V3, MLD_REPORT)):
                    heard.append((number_of(data, number), sockets[sock], data.hex()))
        lines += heard
    for port in PORTS:
        subprocess.run(["ip", "link", "del", port], check=True)
    for bridge in os.listdir("/sys/class/net"):
        if bridge.startswith(("br", "bond0")):
            subprocess.run(["ip", "link", "del", bridge], check=True)
    if "# set\n" in open(script):
        lines = settle(lines, todo)
    if "# data\n" in open(script):
        lines = [line for line in lines if not line[2].startswith("0180c2000000")]
    with open(os.path.join(HERE, name + ".txt"), "w") as out:
        out.writelines("%d %s %s\n" % line for line in sorted(lines))
    print(name, len(lines))


for setting in ["all", "default"]:
    with open(f"/proc/sys/net/ipv6/conf/{setting}/disable_ipv6", "w") as file:
        file.write("1")
names = sys.argv[1:] or sorted(f[:-3] for f in os.listdir(HERE) if f.endswith(".sh"))
for name in names:
    record(name)
