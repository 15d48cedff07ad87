#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Frames that each increment certain SNMP counters of a router.

counters.py pcap FOLDER     writes a capture of each group, FOLDER/GROUP.pcap
counters.py send DEVICE     on Linux: sends each group that standard input names out of a device, and says so
"""
import ipaddress, socket, struct, sys, time

ROUTER, HOST, OTHER = b"\2\0\0\0\0\1", b"\2\0\0\0\0\2", b"\2\0\0\0\0\x99"


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packed(address):
    return ipaddress.ip_address(address).packed


def frame(payload, to=ROUTER, ethertype=None):
    if ethertype is None:
        ethertype = 0x86DD if payload[0] >> 4 == 6 else 0x0800
    return (to + HOST + struct.pack(">H", ethertype) + payload).ljust(60, b"\0")


def v4(protocol, payload, dst="10.0.0.1", src="10.0.0.2", ttl=64, tos=0, frag=0, ident=1, length=None, first=0x45, bad=0):
    length = 20 + len(payload) if length is None else length
    head = struct.pack(">BBHHHBBH4s4s", first, tos, length, ident, frag, ttl, protocol, 0, packed(src), packed(dst))
    # With options, which the payload begins with, they count too.
    options = payload[: max(0, (first & 15) * 4 - 20)]
    return head[:10] + struct.pack(">H", checksum(head + options) ^ bad) + head[12:] + payload


def v6(protocol, payload, dst="fd00::1", src="fd00::2", hops=64, tos=0, length=None, first=6):
    length = len(payload) if length is None else length
    head = struct.pack(">IHBB", first << 28 | tos << 20, length, protocol, hops)
    return head + packed(src) + packed(dst) + payload


def pseudo(src, dst, protocol, length):
    return packed(src) + packed(dst) + struct.pack(">II", length, protocol)


def upper(protocol, message, at, src, dst, bad=0):
    total = checksum(pseudo(src, dst, protocol, len(message)) + message) ^ bad
    return message[:at] + struct.pack(">H", total or 0xFFFF) + message[at + 2 :]


V4, V6 = ("10.0.0.2", "10.0.0.1"), ("fd00::2", "fd00::1")


def udp(src, dst, size=8, bad=0, length=None, protocol=17):
    message = struct.pack(">HHHH", 7, 9, 8 + size if length is None else length, 0) + bytes(size)
    return upper(protocol, message, 6, src, dst, bad)


def tcp(src, dst, flags=2, offset=5, bad=0):
    return upper(6, struct.pack(">HHIIBBHHH", 7, 9, 1, 0, offset << 4, flags, 100, 0, 0), 16, src, dst, bad)


def icmp(kind, code=0, rest=b"\0\1\0\1", data=bytes(8), bad=0):
    message = struct.pack(">BBH", kind, code, 0) + rest + data
    return message[:2] + struct.pack(">H", checksum(message) ^ bad) + message[4:]


def icmp6(kind, code=0, rest=b"\0\1\0\1", data=bytes(8), src=V6[0], dst=V6[1], bad=0):
    return upper(58, struct.pack(">BBH", kind, code, 0) + rest + data, 2, src, dst, bad)


def fragment(following, offset, more, ident=7):
    return struct.pack(">BBHI", following, 0, offset | more, ident)


def pad(following, *options):
    """A header of options: eight bytes, padded."""
    body = bytes(options)
    return struct.pack(">BB", following, 0) + body + b"\1\4\0\0\0\0"[: 6 - len(body)]


OUT4, OUT6 = "10.1.0.2", "fd01::2"
ECHO, ECHO6 = icmp(8), icmp6(128)
OURS4, OURS6 = v4(17, udp("10.0.0.1", "10.0.0.2")), v6(17, udp("fd00::1", "fd00::2"))
OURS6_TCP = v6(6, tcp("fd00::1", "fd00::2"), dst="fd00::2", src="fd00::1")

GROUPS = {
    "forward": [v4(17, udp(V4[0], OUT4), dst=OUT4, tos=tos) for tos in (0, 1, 2, 3, 3)]
    + [v4(17, udp(V4[0], OUT4, 500), dst=OUT4)],
    "fragments-out": [v4(17, udp(V4[0], OUT4, 1300), dst=OUT4)],
    "too-big": [v4(17, udp(V4[0], OUT4, 1300), dst=OUT4, frag=0x4000)],
    "ttl": [v4(17, udp(V4[0], OUT4), dst=OUT4, ttl=1)],
    "headers": [
        v4(17, udp(*V4), bad=1),
        v4(17, udp(*V4), first=0x55),
        v4(17, udp(*V4), first=0x44),
        v4(17, udp(*V4), length=900),
        v4(17, udp(*V4), length=19),
    ],
    "options": [v4(1, b"\x01\x01\x01\0" + ECHO, first=0x46), v4(1, b"\x07\x02\x01\0" + ECHO, first=0x46)],
    "no-route": [v4(17, udp(V4[0], "10.9.0.1"), dst="10.9.0.1")],
    "unreachable": [v4(17, udp(V4[0], "10.8.0.1"), dst="10.8.0.1")],
    "prohibit": [v4(17, udp(V4[0], "10.7.0.1"), dst="10.7.0.1")],
    "blackhole": [v4(17, udp(V4[0], "10.6.0.1"), dst="10.6.0.1")],
    "martians": [
        v4(17, udp("224.0.0.5", V4[1]), src="224.0.0.5"),
        v4(17, udp(*V4), src="127.0.0.1"),
        v4(17, udp(*V4), dst="0.0.0.9"),
    ],
    "spoofed": [v4(17, udp("10.1.0.77", V4[1]), src="10.1.0.77")],
    "udp": [v4(17, udp(*V4)), v4(17, udp(*V4, bad=1)), v4(17, udp(*V4, length=4)), v4(17, b"\0\7\0\7")],
    "udplite": [v4(136, udp(*V4, protocol=136))],
    "tcp": [v4(6, tcp(*V4)), v4(6, tcp(*V4, flags=4)), v4(6, tcp(*V4, bad=1)), v4(6, tcp(*V4, offset=4))],
    "icmp": [
        v4(1, ECHO),
        v4(1, icmp(8, bad=1)),
        v4(1, icmp(13, data=b"")),
        v4(1, icmp(0)),
        v4(1, icmp(17)),
        v4(1, icmp(40)),
        v4(1, ECHO[:4]),
    ],
    "icmp-errors": [
        v4(1, icmp(3, 3, data=OURS4[:28])),
        v4(1, icmp(3, 1, data=v4(1, ECHO)[:28])),
        v4(1, icmp(3, 1, data=v4(99, ECHO)[:28])),
        v4(1, icmp(3, 16, data=OURS4[:28])),
        v4(1, icmp(3, 3, data=OURS4[:24])),
        v4(1, icmp(3, 3, data=OURS4[:12])),
        v4(1, icmp(11, 0, data=OURS4[:28])),
        v4(1, icmp(11, 1, data=OURS4[:28])),
        v4(1, icmp(12, 0, data=OURS4[:28])),
        v4(1, icmp(4, 0, data=OURS4[:28])),
        v4(1, icmp(5, 1, data=OURS4[:28])),
    ],
    "protocols": [v4(99, bytes(20)), v4(2, b"\x11\0\xee\xff\0\0\0\0", dst="224.0.0.1", ttl=1)],
    "broadcast": [
        v4(17, udp(V4[0], "255.255.255.255"), dst="255.255.255.255"),
        v4(1, ECHO, dst="10.0.0.255"),
        v4(17, udp(V4[0], "224.0.0.1"), dst="224.0.0.1"),
    ],
    "other-host": [v4(1, ECHO)],
    "reassembly": [
        v4(1, ECHO[:8], frag=0x2000),
        v4(1, ECHO[8:], frag=1),
    ],
    "overlap": [
        v4(1, bytes(16), frag=0x2000, ident=2),
        v4(1, bytes(16), frag=0x2001, ident=2),
    ],
    "incomplete": [v4(1, ECHO[:8], frag=0x2000, ident=3)],
    "limited": [v4(17, udp(*V4))] * 10,
    "forward6": [v6(17, udp(V6[0], OUT6), dst=OUT6, tos=tos) for tos in (0, 1, 2, 3, 3)],
    "too-big6": [v6(17, udp(V6[0], OUT6, 1300), dst=OUT6)],
    "hops6": [v6(17, udp(V6[0], OUT6), dst=OUT6, hops=1)],
    "headers6": [
        v6(17, udp(*V6), first=5),
        v6(17, udp(*V6), length=900),
        v6(17, udp(*V6), src="::1"),
        v6(17, udp(*V6), src="ff02::1"),
        v6(17, udp(*V6), dst="ff01::1"),
        v6(0, pad(17, 0x80, 0) + udp(*V6)),
        v6(0, pad(17, 0x40, 0) + udp(*V6)),
        v6(0, pad(17) + udp(*V6)),
        v6(60, pad(17, 0x80, 0) + udp(*V6)),
        v6(60, pad(17) + udp(*V6)),
        v6(60, b"\x11\x09"),
    ],
    "routing6": [
        v6(43, b"\x11\0\0\0\0\0\0\0" + udp(*V6)),
        v6(43, b"\x11\0\0\1\0\0\0\0" + udp(*V6)),
        v6(43, b"\x11\x09\0\0"),
    ],
    "no-route6": [v6(17, udp(V6[0], "fd09::1"), dst="fd09::1")],
    "refused6": [v6(17, udp(V6[0], a), dst=a) for a in ("fd08::1", "fd07::1", "fd06::1")],
    "link-local6": [v6(17, udp("fe80::2", OUT6), dst=OUT6, src="fe80::2")],
    "udp6": [
        v6(17, udp(*V6)),
        v6(17, udp(*V6, bad=1)),
        v6(17, struct.pack(">HHHH", 7, 9, 8, 0)),
        v6(17, udp(*V6, length=4)),
        v6(17, b"\0\7\0\7"),
    ],
    "tcp6": [v6(6, tcp(*V6)), v6(6, tcp(*V6, flags=4)), v6(6, tcp(*V6, bad=1)), v6(6, tcp(*V6, offset=4))],
    "icmp6": [
        v6(58, ECHO6),
        v6(58, icmp6(128, bad=1)),
        v6(58, ECHO6[:4]),
        v6(58, icmp6(129)),
        v6(58, icmp6(200)),
        v6(58, icmp6(128, dst="fd01::1"), dst="fd01::1"),
        v6(58, icmp6(128, dst="ff02::1"), dst="ff02::1"),
        v6(58, icmp6(128, dst="ff02::99"), dst="ff02::99"),
    ],
    "icmp6-errors": [
        v6(58, icmp6(1, 4, data=OURS6[:48])),
        v6(58, icmp6(1, 4, data=OURS6_TCP[:60])),
        v6(58, icmp6(1, 3, data=v6(58, ECHO6)[:48])),
        v6(58, icmp6(3, 0, data=OURS6[:44])),
        v6(58, icmp6(4, 0, data=OURS6[:20])),
        v6(58, icmp6(2, 0, b"\0\0\5\0", data=OURS6[:20])),
        v6(58, icmp6(99, 0, data=OURS6[:48])),
    ],
    "neighbour6": [
        v6(58, icmp6(135, 0, bytes(4), packed("fd00::1") + b"\1\1" + HOST), hops=255),
    ],
    "protocols6": [v6(99, bytes(20)), v6(59, b"")],
    "reassembly6": [
        v6(44, fragment(58, 0, 1) + ECHO6[:8]),
        v6(44, fragment(58, 8, 0) + ECHO6[8:]),
        v6(44, fragment(58, 0, 0, 8) + ECHO6),
    ],
    "overlap6": [
        v6(44, fragment(58, 0, 1, 9) + bytes(16)),
        v6(44, fragment(58, 8, 1, 9) + bytes(16)),
    ],
    "fragments6": [
        v6(44, fragment(58, 0, 1, 10) + ECHO6[:12]),
        v6(44, fragment(58, 0, 1, 11) + ECHO6[:4]),
        v6(44, fragment(17, 0, 0)[:4]),
    ],
    "incomplete6": [v6(44, fragment(58, 0, 1, 12) + ECHO6[:8])],
    "limited6": [v6(17, udp(*V6))] * 10,
}
LINK = {
    "255.255.255.255": b"\xff" * 6,
    "10.0.0.255": b"\xff" * 6,
    "224.0.0.1": b"\1\0\x5e\0\0\1",
}


def frames(group):
    if group == "arp":
        ask = struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1) + HOST + packed("10.1.0.9") + bytes(6) + packed("10.0.0.1")
        return [frame(ask, ethertype=0x0806)]
    if group == "other-host":
        return [frame(packet, to=OTHER) for packet in GROUPS[group]]
    out = []
    for packet in GROUPS[group]:
        to, ethertype = ROUTER, None
        if packet[0] >> 4 == 4:
            to = LINK.get(str(ipaddress.ip_address(packet[16:20])), ROUTER)
        elif packet[24] == 0xFF:
            to = b"\x33\x33" + packet[36:40]
        if packet[0] >> 4 == 5:
            ethertype = 0x86DD if group.endswith("6") else 0x0800
        out.append(frame(packet, to, ethertype))
    return out


def main():
    what, where = sys.argv[1:3]
    if what == "pcap":
        for group in [*GROUPS, "arp"]:
            with open(f"{where}/{group}.pcap", "wb") as out:
                out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
                for data in frames(group):
                    out.write(struct.pack("<IIII", 0, 0, len(data), len(data)) + data)
        return
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    out.bind((where, 0))
    for group in sys.stdin:
        for data in frames(group.strip()):
            out.send(data)
        time.sleep(0.1)
        print("sent", flush=True)


main()
