# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Requests for the VNIs of a vxlan device.

vxlan-vni.py add|delete vni FIRST[-LAST] dev DEVICE [remote|group ADDRESS]: as `bridge vni`, which in iproute2 6.1 may take
memory that it has not set for a remote. Without arguments: requests that iproute2 does not send, and their answers."""
import os
import socket
import struct
import subprocess
import sys

NEWTUNNEL, DELTUNNEL, GETTUNNEL = 120, 121, 122
REQUEST, ACK, DUMP, NESTED = 1, 4, 0x300, 0x8000
BRIDGE, INET = 7, 2
ENTRY = 1
START, END, GROUP, GROUP6, STATS = 1, 2, 3, 4, 5


def attr(ty, data):
    return struct.pack("=HH", 4 + len(data), ty) + data + bytes(-len(data) % 4)


def attrs(data):
    found = []
    while len(data) >= 4:
        size, ty = struct.unpack_from("=HH", data)
        if size < 4:
            break
        found.append((ty, data[4:size]))
        data = data[(size + 3) & ~3 :]
    return found


def shown(ty, value):
    """Statistics without the padding that user-mode Linux has."""
    if ty & 0x3FFF != STATS:
        return value.hex()
    return [(ty, value.hex()) for ty, value in attrs(value) if ty != 9]


def u32(ty, value):
    return attr(ty, struct.pack("=I", value))


def entry(*inner):
    return attr(ENTRY | NESTED, b"".join(inner))


def head(name, family=BRIDGE, flags=0, index=None):
    index = socket.if_nametoindex(name) if index is None else index
    return struct.pack("=BBHI", family, flags, 0, index)


sys.stdout.reconfigure(line_buffering=True)
asks = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
asks.bind((0, 0))
asks.setsockopt(270, 11, 1)
asks.settimeout(5)


def ask(text, ty, body, flags=ACK):
    asks.send(struct.pack("=IHHII", 16 + len(body), ty, REQUEST | flags, 1, 0) + body)
    print("+", text)
    while True:
        data = asks.recv(1 << 16)
        while len(data) >= 16:
            size, ty, flags = struct.unpack_from("=IHH", data)
            message, data = data[16:size], data[(size + 3) & ~3 :]
            if ty in (2, 3):
                error = struct.unpack_from("=i", message)[0]
                words = ""
                if flags & 0x200 and ty == 2:
                    place = 4 + (16 if flags & 0x100 else struct.unpack_from("=I", message, 4)[0])
                    # Words and place. User-mode Linux pads policies.
                    words = [(ty & 0x3FFF, value) for ty, value in attrs(message[place:]) if ty & 0x3FFF < 4]
                if flags & 0x200 and ty == 3:
                    words = [(ty & 0x3FFF, value) for ty, value in attrs(message[4:])]
                print("done" if ty == 3 else "answer", error, words)
                return
            print(ty, hex(flags), message[:4].hex(), "device", struct.unpack_from("=I", message, 4)[0] and "x")
            for ty, value in attrs(message[8:]):
                print("   ", ty & 0x3FFF, bool(ty & NESTED), [(ty & 0x3FFF, shown(ty, value)) for ty, value in attrs(value)])


def words():
    """Serves the command line."""
    verb, _, span, _, name, *remote = sys.argv[1:]
    first, _, last = span.partition("-")
    inner = [u32(START, int(first)), u32(END, int(last or first))]
    if remote:
        six = ":" in remote[1]
        family = socket.AF_INET6 if six else socket.AF_INET
        inner.append(attr(GROUP6 if six else GROUP, socket.inet_pton(family, remote[1])))
    body = head(name) + entry(*inner)
    ty = NEWTUNNEL if verb == "add" else DELTUNNEL
    asks.send(struct.pack("=IHHII", 16 + len(body), ty, REQUEST | ACK, 1, 0) + body)
    answer = asks.recv(1 << 16)
    flags, error = struct.unpack_from("=H8xi", answer, 6)
    if error:
        place = 20 + (16 if flags & 0x100 else struct.unpack_from("=I", answer, 20)[0])
        texts = [value for ty, value in attrs(answer[place:]) if flags & 0x200 and ty == 1]
        print(f"Error: {texts[0][:-1].decode()}." if texts else os.strerror(-error))
        sys.exit(2)
    sys.exit()


def sh(line):
    subprocess.run(line, shell=True, check=True)


if len(sys.argv) > 1:
    words()
sh("ip link add vy0 type vxlan external vnifilter dstport 4795")
sh("ip link add vy1 type vxlan external dstport 4796")
here = head("vy0")
ask("nothing", NEWTUNNEL, here)
ask("no device", NEWTUNNEL, head("", index=999) + entry(u32(START, 5)))
ask("index 0", NEWTUNNEL, head("", index=0) + entry(u32(START, 5)))
ask("no filter", NEWTUNNEL, head("vy1") + entry(u32(START, 5)))
ask("another kind", NEWTUNNEL, head("lo") + entry(u32(START, 5)))
ask("short", NEWTUNNEL, here[:4])
ask("another family", NEWTUNNEL, head("vy0", INET) + entry(u32(START, 5)))
ask("flags", NEWTUNNEL, head("vy0", flags=0xFF) + entry(u32(START, 5)))
ask("not nested", NEWTUNNEL, here + attr(ENTRY, u32(START, 6)))
ask("an empty entry", NEWTUNNEL, here + entry())
ask("an unknown attribute", NEWTUNNEL, here + attr(9, b"") + entry(u32(START, 7)))
ask("an unknown attribute of an entry", NEWTUNNEL, here + entry(u32(START, 7), attr(9, b"")))
ask("statistics", NEWTUNNEL, here + entry(u32(START, 7), attr(STATS | NESTED, b"")))
ask("two octets", NEWTUNNEL, here + entry(attr(START, b"\1\0")))
ask("an end", NEWTUNNEL, here + entry(u32(END, 2)))
ask("before the beginning", NEWTUNNEL, here + entry(u32(START, 30), u32(END, 20)))
ask("to 0", NEWTUNNEL, here + entry(u32(START, 30), u32(END, 0)))
ask("more than 24 bits", NEWTUNNEL, here + entry(u32(START, 0x1000005)))
ask("two groups", NEWTUNNEL, here + entry(u32(START, 8), attr(GROUP, bytes([10, 0, 0, 9])), attr(GROUP6, bytes(15) + b"\1")))
ask("several", NEWTUNNEL, here + entry(u32(START, 40)) + entry(u32(START, 42), u32(END, 43)))
ask("several with an error", DELTUNNEL, here + entry(u32(START, 40)) + entry(u32(START, 41)) + entry(u32(START, 42)))
ask("one", GETTUNNEL, here)
ask("all", GETTUNNEL, here, DUMP)
ask("all with statistics", GETTUNNEL, head("vy0", flags=1), DUMP)
ask("all with other flags", GETTUNNEL, head("vy0", flags=2), DUMP)
ask("all of another family", GETTUNNEL, head("vy0", INET), DUMP)
ask("all of another kind", GETTUNNEL, head("lo"), DUMP)
ask("all of no filter", GETTUNNEL, head("vy1"), DUMP)
ask("all of no device", GETTUNNEL, head("", index=999), DUMP)
ask("all of a short request", GETTUNNEL, here[:4], DUMP)
ask("all of a request with an attribute", GETTUNNEL, here + attr(9, b""), DUMP)
sh("ip link set vy0 type vxlan dev lo remote 10.0.0.3")
ask("remotes", NEWTUNNEL, here + entry(u32(START, 50), u32(END, 52), attr(GROUP, bytes([10, 0, 0, 4]))))
ask("no remote", NEWTUNNEL, here + entry(u32(START, 51)))
ask("any remote", NEWTUNNEL, here + entry(u32(START, 52), attr(GROUP, bytes(4))))
ask("all", GETTUNNEL, here, DUMP)
ask("many", NEWTUNNEL, here + b"".join(entry(u32(START, vni)) for vni in range(1000, 1602, 2)))
sh("bridge vni show dev vy0 | cksum; bridge -s vni show dev vy0 | grep -c RX")
