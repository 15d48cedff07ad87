# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends requests to connection tracking (NETLINK_NETFILTER), most of them malformed, and prints what each is answered:
its errno, and the number of other messages. The table is flushed before each.

With the argument `corpus FOLDER` it writes the requests as inputs of the fuzz target `nfnetlink` instead.
"""

import errno
import os
import socket
import struct
import sys

NESTED = 0x8000
REQUEST, ACK, ECHO, DUMP, EXCL, CREATE = 1, 4, 8, 0x300, 0x200, 0x400
NEW, GET, DELETE, GET_ZERO, STATS_CPU, STATS, DYING, UNCONFIRMED = range(8)
TUPLE_ORIG, TUPLE_REPLY, STATUS, PROTOINFO, HELP, NAT_SRC, TIMEOUT, MARK = range(1, 9)
USE, ID, NAT_DST, TUPLE_MASTER, SEQ_ADJ_ORIG = range(11, 16)
MARK_MASK, LABELS, LABELS_MASK, SYNPROXY, FILTER, STATUS_MASK = range(21, 27)
INET, INET6 = 2, 10


def attr(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def nest(kind, *attrs):
    return attr(kind | NESTED, b"".join(attrs))


def be32(kind, number):
    return attr(kind, struct.pack("!I", number))


def message(kind, flags, family, *attrs, subsystem=1, version=0):
    body = struct.pack("=BBH", family, version, 0) + b"".join(attrs)
    return struct.pack("=IHHII", 16 + len(body), subsystem << 8 | kind, REQUEST | ACK | flags, 1, 0) + body


def proto(protocol, *ports):
    if protocol == 1:
        return nest(2, attr(1, bytes([1])), attr(4, struct.pack("!H", ports[0])), attr(5, bytes([ports[1]])), attr(6, b"\0"))
    if protocol == 58:
        return nest(2, attr(1, bytes([58])), attr(7, struct.pack("!H", ports[0])), attr(8, bytes([ports[1]])), attr(9, b"\0"))
    return nest(2, attr(1, bytes([protocol])), *(attr(2 + at, struct.pack("!H", port)) for at, port in enumerate(ports)))


def tuple_(kind, src, dst, *protocol):
    family = socket.AF_INET6 if ":" in src else socket.AF_INET
    base = 3 if family == socket.AF_INET6 else 1
    addresses = [attr(base + at, socket.inet_pton(family, address)) for at, address in enumerate((src, dst))]
    return nest(kind, nest(1, *addresses), proto(*protocol))


A, B, A6, B6 = "10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"
ORIG, REPLY = tuple_(TUPLE_ORIG, A, B, 17, 1000, 53), tuple_(TUPLE_REPLY, B, A, 17, 53, 1000)
TCP_ORIG, TCP_REPLY = tuple_(TUPLE_ORIG, A, B, 6, 1000, 80), tuple_(TUPLE_REPLY, B, A, 6, 80, 1000)
LONG = be32(TIMEOUT, 1000)
MAKE = CREATE | EXCL
UDP = message(NEW, MAKE, INET, ORIG, REPLY, LONG)
TCP = message(NEW, MAKE, INET, TCP_ORIG, TCP_REPLY, LONG, nest(PROTOINFO, nest(1, attr(1, b"\3"))))


def cut(data, at):
    """Returns a message without its last `at` octets, with a length that says so."""
    data = data[: len(data) - at]
    return struct.pack("=I", len(data)) + data[4:]


def requests():
    """Yields the requests: a name, and datagrams."""
    yield "udp", UDP
    yield "udp twice", UDP, UDP
    yield "udp again", UDP, message(NEW, CREATE, INET, ORIG, REPLY, LONG)
    yield "tcp", TCP
    yield "no create", message(NEW, 0, INET, ORIG, REPLY, LONG)
    yield "no time-out", message(NEW, MAKE, INET, ORIG, REPLY)
    yield "no reply", message(NEW, MAKE, INET, ORIG, LONG)
    yield "no original", message(NEW, MAKE, INET, REPLY, LONG)
    yield "no tuples", message(NEW, MAKE, INET, LONG)
    yield "nothing", message(NEW, MAKE, INET)
    yield "a short header", struct.pack("=IHHII", 18, 0x100, REQUEST | ACK | MAKE, 1, 0) + b"\2\0"
    yield "no header", struct.pack("=IHHII", 16, 0x100, REQUEST | ACK | MAKE, 1, 0)
    for version in (1, 7):
        yield f"version {version}", message(NEW, MAKE, INET, ORIG, REPLY, LONG, version=version)
    for family in (0, 1, INET6, 7, 255):
        yield f"family {family}", message(NEW, MAKE, family, ORIG, REPLY, LONG)
        yield f"get of family {family}", UDP, message(GET, 0, family, ORIG)
        yield f"dump of family {family}", UDP, message(GET, DUMP, family)
        yield f"delete of family {family}", UDP, message(DELETE, 0, family)
    for kind in range(8, 12):
        yield f"message {kind}", message(kind, 0, INET)
    for subsystem in (0, 2, 13, 200):
        yield f"subsystem {subsystem}", message(3, 0, INET, subsystem=subsystem)
    # Tuples.
    yield "different protocols", message(NEW, MAKE, INET, ORIG, TCP_REPLY, LONG)
    yield "an empty tuple", message(NEW, MAKE, INET, nest(TUPLE_ORIG), REPLY, LONG)
    yield "a tuple without nesting", message(NEW, MAKE, INET, attr(TUPLE_ORIG, b"x"), REPLY, LONG)
    yield "no addresses", message(NEW, MAKE, INET, nest(TUPLE_ORIG, proto(17, 1, 2)), REPLY, LONG)
    yield "no protocol", message(NEW, MAKE, INET, nest(TUPLE_ORIG, nest(1, attr(1, bytes(4)), attr(2, bytes(4)))), REPLY, LONG)
    one = nest(1, attr(1, bytes(4)))
    yield "one address", message(NEW, MAKE, INET, nest(TUPLE_ORIG, one, proto(17, 1, 2)), REPLY, LONG)
    for length in (0, 3, 5, 16):
        wrong = nest(1, attr(1, bytes(length)), attr(2, bytes(4)))
        yield f"address of {length}", message(NEW, MAKE, INET, nest(TUPLE_ORIG, wrong, proto(17, 1, 2)), REPLY, LONG)
    good = nest(1, attr(1, bytes([10, 0, 0, 1])), attr(2, bytes([10, 0, 0, 2])))
    for name, parts in (
        ("empty", ()),
        ("no number", (attr(2, b"\0\1"), attr(3, b"\0\2"))),
        ("no ports", (attr(1, b"\x11"),)),
        ("one port", (attr(1, b"\x11"), attr(2, b"\0\1"))),
        ("short port", (attr(1, b"\x11"), attr(2, b"\0"), attr(3, b"\0\2"))),
        ("long port", (attr(1, b"\x11"), attr(2, b"\0\1\0\0"), attr(3, b"\0\2"))),
        ("long number", (attr(1, b"\x11\0"), attr(2, b"\0\1"), attr(3, b"\0\2"))),
        ("icmp without id", (attr(1, b"\1"), attr(5, b"\x08"), attr(6, b"\0"))),
        ("icmp of unknown type", (attr(1, b"\1"), attr(4, b"\0\1"), attr(5, b"\x63"), attr(6, b"\0"))),
        ("icmp", (attr(1, b"\1"), attr(4, b"\0\1"), attr(5, b"\x08"), attr(6, b"\0"))),
        ("gre", (attr(1, b"\x2f"), attr(2, b"\0\0"), attr(3, b"\0\7"))),
        ("gre without keys", (attr(1, b"\x2f"),)),
        ("esp", (attr(1, b"\x32"),)),
        ("icmpv6", (attr(1, b"\x3a"), attr(7, b"\0\1"), attr(8, b"\x80"), attr(9, b"\0"))),
        ("an unknown attribute", (attr(1, b"\x11"), attr(2, b"\0\1"), attr(3, b"\0\2"), attr(99, b"x"))),
    ):
        yield f"protocol: {name}", UDP, message(GET, 0, INET, nest(TUPLE_ORIG, good, nest(2, *parts)))
    # Debian's kernel has no zones.
    for zone in (b"", b"\0"):
        yield f"zone of {len(zone)}", UDP, message(GET, 0, INET, ORIG, attr(18, zone))
    yield "a master", message(NEW, MAKE, INET, ORIG, REPLY, LONG, tuple_(TUPLE_MASTER, A, B, 17, 7, 7))
    # Single values.
    for kind, name in ((TIMEOUT, "time-out"), (STATUS, "status"), (MARK, "mark")):
        for length in (0, 2, 3, 5, 8):
            rest = () if kind == TIMEOUT else (LONG,)
            yield f"{name} of {length}", message(NEW, MAKE, INET, ORIG, REPLY, attr(kind, bytes(length)), *rest)
    for bit in range(17):
        yield f"status bit {bit}", message(NEW, MAKE, INET, ORIG, REPLY, LONG, be32(STATUS, 1 << bit))
        yield f"change to bit {bit}", UDP, message(NEW, 0, INET, ORIG, be32(STATUS, 8 | 1 << bit))
    yield "status 0", UDP, message(NEW, 0, INET, ORIG, be32(STATUS, 0))
    for length in (0, 1, 3, 4, 8, 12, 16, 17, 20):
        yield f"labels of {length}", UDP, message(NEW, 0, INET, ORIG, attr(LABELS, bytes(length)))
        both = attr(LABELS, bytes(16)) + attr(LABELS_MASK, bytes(length))
        yield f"mask of labels of {length}", UDP, message(NEW, 0, INET, ORIG, both)
    yield "a mask of labels alone", UDP, message(NEW, 0, INET, ORIG, attr(LABELS_MASK, bytes(16)))
    # Protocols' states.
    for state in (0, 1, 3, 9, 10, 11, 14, 15, 200):
        info = nest(PROTOINFO, nest(1, attr(1, bytes([state]))))
        yield f"tcp state {state}", message(NEW, MAKE, INET, TCP_ORIG, TCP_REPLY, LONG, info)
        yield f"change to tcp state {state}", TCP, message(NEW, 0, INET, TCP_ORIG, info)
    for name, info in (
        ("empty", nest(PROTOINFO)),
        ("empty tcp", nest(PROTOINFO, nest(1))),
        ("of another protocol", nest(PROTOINFO, nest(3, attr(1, b"\3")))),
        ("short", attr(PROTOINFO, b"xx")),
        ("state of 2", nest(PROTOINFO, nest(1, attr(1, b"\0\3")))),
        ("scale of 2", nest(PROTOINFO, nest(1, attr(1, b"\3"), attr(2, b"\0\7"), attr(3, b"\7")))),
        ("scale of 15", nest(PROTOINFO, nest(1, attr(1, b"\3"), attr(2, b"\x0f"), attr(3, b"\x0f")))),
        ("flags of 1", nest(PROTOINFO, nest(1, attr(1, b"\3"), attr(4, b"\1")))),
        ("flags", nest(PROTOINFO, nest(1, attr(1, b"\3"), attr(4, b"\x0a\x0a"), attr(5, b"\x0a\x0a")))),
    ):
        yield f"protocol's state {name}", TCP, message(NEW, 0, INET, TCP_ORIG, info)
        yield f"udp with protocol's state {name}", UDP, message(NEW, 0, INET, ORIG, info)
    for protocol, number, attrs in (
        (132, 3, (attr(1, b"\4"), be32(2, 1), be32(3, 2))),
        (132, 3, (attr(1, b"\4"),)),
        (132, 3, ()),
        (132, 3, (attr(1, b"\x63"), be32(2, 1), be32(3, 2))),
        (33, 2, (attr(1, b"\4"), attr(2, b"\0"), attr(3, bytes(8)))),
        (33, 2, (attr(1, b"\4"),)),
        (33, 2, (attr(1, b"\4"), attr(2, b"\2"))),
        (33, 2, (attr(1, b"\x63"), attr(2, b"\0"))),
        (33, 2, ()),
    ):
        ends = tuple_(TUPLE_ORIG, A, B, protocol, 5, 6), tuple_(TUPLE_REPLY, B, A, protocol, 6, 5)
        info = nest(PROTOINFO, nest(number, *attrs))
        yield f"protocol {protocol} with {len(attrs)}", message(NEW, MAKE, INET, *ends, LONG, info)
    # Translation.
    lone = attr(1, bytes([192, 0, 2, 1]))
    for kind in (NAT_SRC, NAT_DST):
        for name, parts in (
            ("nothing", ()),
            ("an address", (lone,)),
            ("a short address", (attr(1, b"xx"),)),
            ("a range", (lone, attr(2, bytes([192, 0, 2, 9])))),
            ("ports", (nest(3, attr(1, b"\0\7"), attr(2, b"\0\x09")),)),
            ("one port", (lone, nest(3, attr(1, b"\0\7")))),
            ("a short port", (lone, nest(3, attr(1, b"\7")))),
            ("no port", (lone, nest(3))),
            ("ports in the wrong order", (lone, nest(3, attr(1, b"\0\x09"), attr(2, b"\0\7")))),
            ("an IPv6 address", (attr(4, bytes(16)),)),
        ):
            yield f"translation {kind} with {name}", message(NEW, MAKE, INET, ORIG, REPLY, LONG, nest(kind, *parts))
        yield f"change of translation {kind}", UDP, message(NEW, 0, INET, ORIG, nest(kind, lone))
    # Helpers: only what needs none.
    yield "help without a name", UDP, message(NEW, 0, INET, ORIG, nest(HELP))
    yield "help with an empty name", UDP, message(NEW, 0, INET, ORIG, nest(HELP, attr(1, b"\0")))
    # Look-ups and deletions.
    yield "get", UDP, message(GET, 0, INET, ORIG)
    yield "get by reply", UDP, message(GET, 0, INET, REPLY)
    yield "get of none", message(GET, 0, INET, ORIG)
    yield "get without a tuple", message(GET, 0, INET)
    yield "get with counters zeroed", UDP, message(GET_ZERO, 0, INET, ORIG)
    yield "delete", UDP, message(DELETE, 0, INET, ORIG)
    yield "delete of none", message(DELETE, 0, INET, ORIG)
    yield "delete with a wrong id", UDP, message(DELETE, 0, INET, ORIG, be32(ID, 77))
    for length in (0, 2, 8):
        yield f"delete with an id of {length}", UDP, message(DELETE, 0, INET, ORIG, attr(ID, bytes(length)))
    yield "flush by mark", UDP, message(DELETE, 0, INET, be32(MARK, 1), be32(MARK_MASK, 0xFFFFFFFF))
    for name, attrs in (
        ("mark", (be32(MARK, 0), be32(MARK_MASK, 0xFFFFFFFF))),
        ("mark without a mask", (be32(MARK, 1),)),
        ("a mask alone", (be32(MARK_MASK, 1),)),
        ("a short mark", (attr(MARK, b"xx"), be32(MARK_MASK, 1))),
        ("status", (be32(STATUS, 8), be32(STATUS_MASK, 8))),
        ("status without a mask", (be32(STATUS, 8),)),
        ("a mask of the status alone", (be32(STATUS_MASK, 8),)),
        ("a short status", (attr(STATUS, b"x"), be32(STATUS_MASK, 8))),
        ("an empty filter", (nest(FILTER),)),
        ("a filter with flags", (nest(FILTER, attr(1, struct.pack("=I", 1)), attr(2, struct.pack("=I", 1))), ORIG, REPLY)),
        ("a filter with one set of flags", (nest(FILTER, attr(1, struct.pack("=I", 1))), ORIG)),
        ("a filter with unknown flags", (nest(FILTER, attr(1, struct.pack("=I", 1 << 20)), attr(2, struct.pack("=I", 0))), ORIG)),
        ("a filter without tuples", (nest(FILTER, attr(1, struct.pack("=I", 3)), attr(2, struct.pack("=I", 0))),)),
        ("a filter with short flags", (nest(FILTER, attr(1, b"\1"), attr(2, b"\0")), ORIG)),
    ):
        yield f"dump by {name}", UDP, message(GET, DUMP, INET, *attrs)
    for kind in (STATS_CPU, DYING, UNCONFIRMED):
        yield f"dump of {kind}", message(kind, DUMP, INET)
        yield f"{kind} without a dump", message(kind, 0, INET)
    yield "count", UDP, message(STATS, 0, INET)
    # Cut in the middle of attributes.
    for at in range(1, len(UDP) - 20, 3):
        yield f"{at} less", cut(UDP, at)
    for at in (20, 22, 24, 26, 28, 30, 36, 44, 46, 48, 52):
        for length in (0, 3, 0x7FFF):
            yield f"length {length} at {at}", UDP[:at] + struct.pack("=H", length) + UDP[at + 2:]


def ask(sock, datagram):
    """Returns what a request is answered."""
    sock.send(datagram)
    others = 0
    while True:
        try:
            data = sock.recv(65536)
        except socket.timeout:
            return f"no answer, {others} messages"
        while len(data) >= 16:
            length, kind = struct.unpack_from("=IH", data)
            if kind in (2, 3):
                (code,) = struct.unpack_from("=i", data, 16)
                return f"{errno.errorcode[-code] if code else 'ok'}{f', {others} messages' if others else ''}"
            others += 1
            data = data[(length + 3) & ~3:]


def corpus(folder):
    os.makedirs(folder, exist_ok=True)
    chosen = (
        "udp", "udp again", "tcp", "no create", "no reply", "version 7", "get of family 10", "dump of family 2", "subsystem 2",
        "no addresses", "protocol: icmp", "protocol: gre", "protocol: icmpv6", "protocol: one port", "zone of 1", "a master",
        "mark of 4", "status bit 3", "change to bit 2", "labels of 16", "mask of labels of 16", "change to tcp state 3",
        "protocol's state scale of 15", "protocol's state flags", "protocol 132 with 3", "protocol 33 with 2",
        "translation 6 with an address", "translation 6 with a range", "translation 6 with one port",
        "translation 13 with ports", "help with an empty name", "get", "get with counters zeroed", "delete",
        "delete with a wrong id", "flush by mark", "dump by mark", "dump by status", "dump by a filter with flags",
        "dump of 4", "count", "7 less", "length 3 at 24",
    )
    for name, *datagrams in requests():
        if name not in chosen:
            continue
        with open(os.path.join(folder, name.replace(" ", "-").replace(":", "")), "wb") as file:
            file.write(b"\1" + b"".join(data + b"\0" * (-len(data) % 4) for data in datagrams))


def main():
    if sys.argv[1:2] == ["corpus"]:
        return corpus(sys.argv[2])
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    sock.bind((0, 0))
    sock.settimeout(1)
    for name, *datagrams in requests():
        ask(sock, message(DELETE, 0, 0))
        answers = [ask(sock, datagram) for datagram in datagrams]
        print(f"{name}: {answers[-1]}" if all(answer == "ok" for answer in answers[:-1]) else f"{name}: {answers}")


main()
