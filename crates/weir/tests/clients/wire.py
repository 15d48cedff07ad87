# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends requests that no library sends: unknown types, bad lengths, nests and attributes, strict checks.
Prints the messages that answer each: (type, flags, sequence, errno). After each request it sends an
ordinary one, whose answer shows that no more messages follow and that the socket still works."""

import socket
import struct

ROUTE, EXT_ACK, STRICT = 0, 11, 12
NEWLINK, DELLINK, GETLINK, NEWROUTE, NEWQDISC = 16, 17, 18, 24, 36
NEWADDR, NEWNEIGH, NEWRULE, GETROUTE, NEWTFILTER, NEWACTION = 20, 28, 32, 26, 44, 48
REQUEST, ACK, DUMP, CREATE, EXCL = 1, 4, 0x300, 0x400, 0x200
LAST = 999
link = struct.pack("=BBHiII", 0, 0, 0, 0, 0, 0)
loopback = struct.pack("=BBHiII", 0, 0, 0, 1, 0, 0)


def message(kind, flags, payload=b"", seq=1, length=None):
    length = 16 + len(payload) if length is None else length
    return struct.pack("=IHHII", length, kind, flags, seq, 0) + payload


def attr(kind, payload):
    return struct.pack("=HH", 4 + len(payload), kind) + payload + b"\0" * (-len(payload) % 4)


def answers(sock):
    found = []
    while True:
        data = sock.recv(1 << 18)
        while len(data) >= 16:
            length, kind, flags, seq, _ = struct.unpack("=IHHII", data[:16])
            if seq == LAST:
                return found
            error = struct.unpack("=i", data[16:20])[0] if kind in (2, 3) else None
            # The number of links, and the split of a dump into datagrams, do not matter here.
            if (kind, seq) != (NEWLINK, 1) or error is not None:
                found.append((kind, flags & ~0x100, seq, error))
            data = data[(length + 3) & ~3 :]


def tell(name, request, *options):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, ROUTE) as sock:
        sock.bind((0, 0))
        sock.settimeout(120)
        for option in options:
            sock.setsockopt(270, option, 1)
        try:
            sock.send(request)
        except OSError as error:
            print(name, "cannot be sent:", error.strerror)
            return
        sock.send(message(GETLINK, REQUEST, loopback, LAST))
        print(name, answers(sock))


tell("unknown type", message(9999, 5, link))
tell("reserved type", message(15, 5, link))
tell("no-op", message(1, 5))
tell("done", message(3, 5))
tell("half a header", b"\1\2\3")
tell("length too small", message(GETLINK, 0x301, link, length=4))
tell("length too large", message(GETLINK, 5, link, length=4000))
tell("short payload", message(NEWLINK, 5, b"\0\0"))
tell("no payload", message(NEWLINK, 5))
tell("not a request", message(GETLINK, 4, link))
new = REQUEST | ACK | CREATE | EXCL
for kind in (NEWLINK, DELLINK, NEWADDR, NEWROUTE, NEWNEIGH, NEWRULE, NEWQDISC, NEWTFILTER, NEWACTION):
    for size in (1, 8, 15):
        tell(f"type {kind}, {size} octets", message(kind, new, b"\0" * size))
tell("attribute of length 0", message(NEWLINK, new, link + struct.pack("=HH", 0, 3)))
tell("attribute of length 3", message(NEWLINK, new, link + struct.pack("=HH", 3, 3)))
tell("attribute beyond the end", message(NEWLINK, new, link + struct.pack("=HH", 200, 3) + b"abcd"))
tell("long name", message(NEWLINK, new, link + attr(3, b"x" * 40 + b"\0")))
tell("empty name", message(NEWLINK, new, link + attr(3, b"") + attr(18, attr(1, b"dummy\0"))))
tell("name without end", message(NEWLINK, new, link + attr(3, b"abc") + attr(18, attr(1, b"dummy"))))
tell("mtu of two octets", message(NEWLINK, new, link + attr(3, b"q0\0") + attr(4, b"\1\2")))
tell("noise in a nest", message(NEWLINK, new, link + attr(3, b"q1\0") + attr(18, b"\xff" * 40)))
tell("deep nest", message(NEWLINK, new, link + attr(18, attr(2, attr(1, attr(1, attr(1, b"")))))))
tell("info data of none", message(NEWLINK, new, link + attr(18, attr(2, b""))))
tell("unknown attribute", message(GETLINK, 5, loopback + attr(1000, b"1234")))
tell("unknown attribute, strict", message(GETLINK, 5, loopback + attr(1000, b"1234")), STRICT)
tell("unknown attribute, strict dump", message(GETLINK, 0x301, link + attr(1000, b"1234")), STRICT)
tell("known attribute, strict dump", message(GETLINK, 0x301, link + attr(4, b"1234")), STRICT)
tell("index, strict dump", message(GETLINK, 0x301, loopback), STRICT)
tell("octets at the end, strict", message(GETLINK, 5, loopback + b"\1\0\0"), STRICT)
tell("short header, strict dump", message(GETLINK, 0x301, b"\0\0\0\0"), STRICT)
tell("noise for pfifo", message(NEWQDISC, new, struct.pack("=BBHiIII", 0, 0, 0, 1, 0, 0xFFFFFFFF, 0) + attr(1, b"pfifo\0") + attr(2, b"\1")))
tell("action without table", message(NEWACTION, new, b"\0" * 4))
tell("route of family 99", message(NEWROUTE, new, struct.pack("=BBBBBBBBI", 99, 0, 0, 0, 0, 0, 0, 0, 0)))
tell("prefix of 64 in IPv4", message(NEWROUTE, new, struct.pack("=BBBBBBBBI", 2, 64, 0, 0, 254, 3, 0, 1, 0)))
tell("route type 77", message(NEWROUTE, new, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 3, 0, 77, 0)))
tell("two at once", message(9999, 5, link, 7) + message(9998, 5, link, 8))
tell("one good, one bad", message(GETLINK, REQUEST, loopback, 7) + message(9998, 5, link, 8))
