#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records a kernel's replies to requests that a policy refuses: writes answers.vec.

Usage: unshare -n python3 record.py     (as root, or with unshare -rn)

Each case is sent four times: plain, with NETLINK_CAP_ACK, with NETLINK_EXT_ACK, and with both.
"""
import os, socket, struct

SOL_NETLINK, CAP_ACK, EXT_ACK = 270, 10, 11
NESTED = 0x8000
NEWLINK, NEWNEIGH, NEWACTION, NEWNEXTHOP = 16, 28, 48, 104
HEAD = {
    NEWLINK: struct.pack("=BxHiII", 0, 0, 1, 0, 0),
    NEWNEIGH: struct.pack("=BxxxiHBB", 2, 1, 0x80, 0, 0),
    NEWACTION: bytes(4),
    NEWNEXTHOP: struct.pack("=BBBxI", 2, 0, 0, 0),
}


def attr(ty, payload):
    raw = struct.pack("=HH", 4 + len(payload), ty) + payload
    return raw + bytes(-len(raw) % 4)


def u32(ty, value):
    return attr(ty, struct.pack("=I", value))


def action(value, selector):
    return attr(1, attr(1, attr(1, b"gact\0") + attr(7, struct.pack("=II", value, selector))))


CASES = [
    ("a link name too long", NEWLINK, attr(3, b"sixteen-bytes-16\0")),
    ("an empty link name", NEWLINK, attr(3, b"")),
    ("a short MTU", NEWLINK, attr(4, b"\1\2")),
    ("a short MTU behind a good name", NEWLINK, attr(3, b"lo\0") + attr(4, b"\1\2")),
    ("a link address too long", NEWLINK, attr(1, bytes(33))),
    ("a nest that is too short", NEWLINK, attr(18 | NESTED, b"\1\2")),
    ("an interface index below 1", NEWLINK, u32(49, 0)),
    ("a header that is cut", NEWLINK, None),
    ("a reserved bit", NEWNEIGH, attr(1, bytes([192, 0, 2, 1])) + u32(15, 0x80000000)),
    ("a strict attribute among liberal ones", NEWNEIGH, attr(13, b"\1\2")),
    ("bits that may not be selected", NEWACTION, action(8, 8)),
    ("a value that is not selected", NEWACTION, action(1, 0)),
    ("an unknown type", NEWNEXTHOP, u32(99, 1)),
    ("a short integer", NEWNEXTHOP, attr(1, b"\1\2")),
    ("a long integer", NEWNEXTHOP, attr(1, bytes(8))),
    ("no nest flag", NEWNEXTHOP, attr(8, attr(1, b"\0\0\0\0"))),
    ("a nest flag", NEWNEXTHOP, u32(5 | NESTED, 1)),
    ("a flag with a value", NEWNEXTHOP, attr(4, b"\1")),
    ("a type without a rule", NEWNEXTHOP, attr(9, b"")),
    ("bytes left over", NEWNEXTHOP, u32(1, 7) + b"\1\0\0\0"),
]

s = {}
for cap in (0, 1):
    for ext in (0, 1):
        s[cap, ext] = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        s[cap, ext].bind((4242 + 2 * cap + ext, 0))
        s[cap, ext].setsockopt(SOL_NETLINK, CAP_ACK, cap)
        s[cap, ext].setsockopt(SOL_NETLINK, EXT_ACK, ext)

out = [f"# Made by record.py on Linux {'.'.join(os.uname().release.split('.')[:2])}."]
for name, ty, attrs in CASES:
    for cap in (0, 1):
        for ext in (0, 1):
            body = HEAD[ty][:4] if attrs is None else HEAD[ty] + attrs
            request = struct.pack("=IHHII", 16 + len(body), ty, 5, 1, 0) + body
            s[cap, ext].send(request)
            answer = s[cap, ext].recv(65536)
            out.append(f"$ {name}, cap {cap}, ext {ext}")
            out.append("> " + request.hex())
            out.append("< " + answer.hex())
here = os.path.dirname(os.path.abspath(__file__))
open(f"{here}/answers.vec", "w").write("\n".join(out) + "\n")
