# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The frames that record.py sends through actions, by name.

A name begins with the kind of the frame (eth, ip4, ip6, vlan, mpls, ife), so that a .cmd file can select
frames by prefix. Checksums are correct unless the name says otherwise.
"""
import struct

SRC, DST = bytes.fromhex("020000000001"), bytes.fromhex("0200000000d0")
A4, B4 = bytes([192, 0, 2, 1]), bytes([198, 51, 100, 9])
A6, B6 = bytes.fromhex("20010db8000000000000000000000001"), bytes.fromhex("20010db80001000000000000000000b9")
ICMP, IGMP, TCP, UDP, ICMP6, SCTP, UDPLITE = 1, 2, 6, 17, 58, 132, 136
PAYLOAD = bytes(range(0xa0, 0xa8))


def checksum(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def put(data, at, form, value):
    size = struct.calcsize(form)
    return data[:at] + struct.pack(form, value) + data[at + size:]


def eth(kind, payload, tags=()):
    head = DST + SRC
    for proto, tci in tags:
        head += struct.pack("!HH", proto, tci)
    return head + struct.pack("!H", kind) + payload


# A transport segment depends on the pseudo header and on the offset of its length.

def segment(proto, pseudo, payload=PAYLOAD, check=None):
    if proto == TCP:
        data, at = struct.pack("!HHIIBBHHH", 4321, 80, 1000, 2000, 0x50, 0x18, 512, 0, 0) + payload, 16
    elif proto in (UDP, UDPLITE):
        data, at = struct.pack("!HHHH", 4321, 53, 8 + len(payload), 0) + payload, 6
    elif proto == ICMP:
        data, at = struct.pack("!BBHHH", 8, 0, 0, 7, 1) + payload, 2
    elif proto == ICMP6:
        data, at = struct.pack("!BBHHH", 128, 0, 0, 7, 1) + payload, 2
    elif proto == IGMP:
        data, at = struct.pack("!BBH4s", 0x16, 0, 0, bytes([239, 1, 2, 3])) + payload, 2
    elif proto == SCTP:
        data = struct.pack("!HHII", 4321, 9, 77, 0) + payload
        return put(data, 8, "<I", crc32c(data) if check is None else check)
    else:
        return payload
    covered = b"" if proto in (ICMP, IGMP) else pseudo(proto, len(data))
    return put(data, at, "!H", (checksum(covered + data) or 0xffff) if check is None else check)


def ip4(proto, payload=PAYLOAD, check=None, src=A4, dst=B4, tos=0, ttl=64, frag=0, options=b"", whole=None,
        total=None, header=None):
    pseudo = lambda proto, length: src + dst + struct.pack("!BBH", 0, proto, length)
    data = segment(proto, pseudo, payload, check) if whole is None else whole
    ihl = 5 + len(options) // 4
    length = ihl * 4 + len(data) if total is None else total
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | ihl, tos, length, 0x1234, frag, ttl, proto, 0, src, dst) + options
    return put(head, 10, "!H", checksum(head) if header is None else header) + data


def ip6(proto, payload=PAYLOAD, check=None, chain=(), tclass=0, whole=None, length=None):
    pseudo = lambda proto, length: A6 + B6 + struct.pack("!II", length, proto)
    data = segment(proto, pseudo, payload, check) if whole is None else whole
    following = proto
    for kind, body in reversed(chain):
        data = bytes([following]) + body + data
        following = kind
    head = struct.pack("!IHBB", 6 << 28 | tclass << 20 | 0x12345, len(data) if length is None else length, following, 64)
    return head + A6 + B6 + data


def lse(label, bottom, ttl=64, tc=0):
    return struct.pack("!I", label << 12 | tc << 9 | bottom << 8 | ttl)


HOP = (0, bytes([0, 1, 4, 0, 0, 0, 0]))
JUMBO = (0, bytes([0, 0xc2, 4, 0, 0, 0, 16]))
BAD_JUMBO = (0, bytes([0, 1, 0, 0xc2, 4, 0, 16]))
ROUTING = (43, bytes([0, 253, 0, 0, 0, 0, 0]))
DEST = (60, bytes([0, 1, 4, 0, 0, 0, 0]))
FRAGMENT = (44, bytes([0, 0, 1, 0, 0, 0, 9]))
CTAG, STAG = 0x8100, 0x88a8
ERROR = struct.pack("!BBHI", 3, 1, 0, 0) + ip4(UDP, src=B4, dst=A4)
ERROR = put(ERROR, 2, "!H", checksum(ERROR))
ERROR_OUT = struct.pack("!BBHI", 11, 0, 0, 0) + ip4(TCP, src=A4, dst=B4)[:28]
ERROR_OUT = put(ERROR_OUT, 2, "!H", checksum(ERROR_OUT))


def ife(data, frame):
    return eth(0xed3e, struct.pack("!H", 2 + len(data)) + data + frame)


def datum(kind, length, value):
    return struct.pack("!HH", kind, 4 + length) + value + bytes(-len(value) % 4)


def frames():
    v4 = lambda *args, **kw: eth(0x0800, ip4(*args, **kw))
    v6 = lambda *args, **kw: eth(0x86dd, ip6(*args, **kw))
    udp = ip4(UDP)
    return {
        "ip4-udp": v4(UDP),
        "ip4-udp-odd": v4(UDP, payload=bytes(range(0x11, 0x20))),
        "ip4-udp-nocheck": v4(UDP, check=0),
        "ip4-udp-wrong": v4(UDP, check=0x1234, header=0x4321),
        "ip4-udp-padded": v4(UDP, payload=b"x") + bytes(17),
        "ip4-udp-length": v4(UDP, whole=struct.pack("!HHHH", 1, 2, 9, 0x5555) + PAYLOAD),
        "ip4-udp-zero": v4(UDP, payload=b"", whole=struct.pack("!HHHH", 1, 2, 8, 0x77)),
        "ip4-udp-options": v4(UDP, options=bytes([7, 7, 4, 0, 0, 0, 0, 0])),
        "ip4-udp-first": v4(UDP, frag=0x2000, check=0x99),
        "ip4-udp-later": v4(UDP, frag=0x0010, whole=bytes(range(32))),
        "ip4-udp-tos": v4(UDP, tos=0xb9),
        "ip4-udp-ect": v4(UDP, tos=0x02),
        "ip4-udp-reverse": v4(UDP, src=B4, dst=A4),
        "ip4-tcp": v4(TCP),
        "ip4-tcp-odd": v4(TCP, payload=b"odd"),
        "ip4-tcp-wrong": v4(TCP, check=0),
        "ip4-tcp-options": v4(TCP, options=bytes([1, 1, 1, 0])),
        "ip4-tcp-first": v4(TCP, frag=0x2000, payload=bytes(24)),
        "ip4-tcp-reverse": v4(TCP, src=B4, dst=A4),
        "ip4-tcp-ce": v4(TCP, tos=0x03),
        "ip4-icmp": v4(ICMP),
        "ip4-icmp-wrong": v4(ICMP, check=0xffff, payload=b"odd"),
        "ip4-icmp-later": v4(ICMP, frag=0x2001, whole=bytes(24)),
        "ip4-icmp-error": v4(ICMP, whole=ERROR, src=B4, dst=A4),
        "ip4-icmp-error-out": v4(ICMP, whole=ERROR_OUT),
        "ip4-icmp-error-cut": v4(ICMP, whole=ERROR[:20]),
        "ip4-igmp-wrong": v4(IGMP, check=1),
        "ip4-udplite": v4(UDPLITE, check=5),
        "ip4-udplite-part": v4(UDPLITE, whole=struct.pack("!HHHH", 1, 2, 8, 9) + PAYLOAD),
        "ip4-udplite-all": v4(UDPLITE, whole=struct.pack("!HHHH", 1, 2, 0, 9) + PAYLOAD),
        "ip4-udplite-few": v4(UDPLITE, whole=struct.pack("!HHHH", 1, 2, 7, 9) + PAYLOAD),
        "ip4-sctp": v4(SCTP, check=0x01020304),
        "ip4-other": v4(47),
        "ip4-long": v4(UDP, total=200),
        "ip4-few": v4(UDP, total=24),
        "wrong-ihl": eth(0x0800, b"\x4f" + udp[1:]),
        "ip4-cut": eth(0x0800, udp[:10]),
        "ip4-cut-tcp": eth(0x0800, ip4(TCP)[:30]),
        "ip4-cut-udp": eth(0x0800, ip4(UDP)[:26]),
        "ip4-cut-icmp": eth(0x0800, ip4(ICMP)[:24]),
        "ip6-udp": v6(UDP),
        "ip6-udp-wrong": v6(UDP, check=0, payload=b"odd"),
        "ip6-udp-length": v6(UDP, whole=struct.pack("!HHHH", 1, 2, 9, 0x5555) + PAYLOAD),
        "ip6-tcp": v6(TCP),
        "ip6-tcp-wrong": v6(TCP, check=1, tclass=0xb9),
        "ip6-tcp-ect": v6(TCP, tclass=0x01),
        "ip6-icmp": v6(ICMP6),
        "ip6-icmp-wrong": v6(ICMP6, check=1),
        "ip6-udplite": v6(UDPLITE, check=5),
        "ip6-udplite-part": v6(UDPLITE, whole=struct.pack("!HHHH", 1, 2, 8, 9) + PAYLOAD),
        "ip6-udplite-all": v6(UDPLITE, whole=struct.pack("!HHHH", 1, 2, 0, 9) + PAYLOAD),
        "ip6-sctp": v6(SCTP, check=1),
        "ip6-hop-udp": v6(UDP, check=1, chain=[HOP]),
        "ip6-chain-tcp": v6(TCP, check=1, chain=[HOP, DEST, ROUTING]),
        "ip6-jumbo": v6(UDP, check=1, chain=[JUMBO], length=0),
        "ip6-jumbo-bad": v6(UDP, check=1, chain=[BAD_JUMBO]),
        "ip6-fragment": v6(UDP, check=1, chain=[FRAGMENT]),
        "ip6-none": v6(59),
        "ip6-long": v6(TCP, check=1, length=500),
        "ip6-cut": eth(0x86dd, ip6(UDP)[:30]),
        "ip6-cut-chain": eth(0x86dd, ip6(UDP, chain=[HOP])[:44]),
        "ip6-cut-tcp": eth(0x86dd, ip6(TCP)[:50]),
        "vlan-udp": eth(0x0800, udp, [(CTAG, 0x6007)]),
        "vlan-tcp6": eth(0x86dd, ip6(TCP, check=1), [(STAG, 7)]),
        "vlan-two": eth(0x0800, ip4(TCP, check=1), [(STAG, 0x2005), (CTAG, 0xb007)]),
        "vlan-three": eth(0x0800, udp, [(CTAG, 1), (CTAG, 2), (CTAG, 3)]),
        "vlan-llc": eth(18, bytes([0x42, 0x42, 3]) + bytes(15), [(CTAG, 9)]),
        "vlan-ipx": eth(18, bytes([0xff, 0xff, 3]) + bytes(15), [(CTAG, 9), (CTAG, 8)]),
        "vlan-cut": eth(0x8100, bytes([0, 5])),
        "vlan-cut-two": eth(0x8100, bytes([0, 6]), [(CTAG, 9)]),
        "eth-only": eth(0x0800, b""),
        "eth-arp": eth(0x0806, bytes.fromhex("0001080006040001") + SRC + A4 + bytes(6) + B4),
        "eth-llc": eth(20, bytes([0x42, 0x42, 3]) + bytes(17)),
        "mpls-one": eth(0x8847, lse(100, 1, tc=5) + udp),
        "mpls-two": eth(0x8847, lse(100, 0) + lse(200, 1) + udp),
        "mpls-multicast": eth(0x8848, lse(16, 1) + udp),
        "mpls-ttl": eth(0x8847, lse(100, 1, ttl=1) + udp),
        "mpls-zero": eth(0x8847, lse(100, 1, ttl=0) + udp),
        "mpls-cut": eth(0x8847, b"\0\1"),
        "mpls-vlan": eth(0x8847, lse(100, 1) + udp, [(CTAG, 7)]),
        "ife-mark": ife(datum(1, 4, b"\0\0\0\7"), v4(UDP)),
        "ife-prio-vlan": ife(datum(3, 4, b"\0\1\0\2"), eth(0x86dd, ip6(UDP), [(CTAG, 5)])),
        "ife-all": ife(datum(1, 4, b"\1\2\3\4") + datum(5, 2, b"\3\4") + datum(3, 4, b"\0\0\0\5"), v4(TCP)),
        "ife-none": ife(b"", v4(UDP)),
        "ife-unknown": ife(datum(2, 4, bytes(4)) + datum(700, 1, b"x"), v4(UDP)),
        "ife-empty": ife(datum(1, 0, b""), v4(UDP)),
        "ife-other": ife(datum(1, 4, b"\0\0\0\7"), b"\2\0\0\0\0\1" + v4(UDP)[6:]),
        "ife-broadcast": ife(datum(1, 4, b"\0\0\0\7"), b"\xff" * 6 + v4(UDP)[6:]),
        "ife-llc": ife(datum(1, 4, b"\0\0\0\7"), eth(20, bytes([0x42, 0x42, 3]) + bytes(17))),
        "ife-short": eth(0xed3e, struct.pack("!H", 1) + v4(UDP)),
        "ife-zero": eth(0xed3e, struct.pack("!H", 0) + v4(UDP)),
        "ife-long": eth(0xed3e, struct.pack("!H", 200) + v4(UDP)),
        "ife-cut": eth(0xed3e, b"\0"),
        "ife-small": ife(struct.pack("!HH", 1, 3) + bytes(4), v4(UDP)),
        "ife-big": ife(struct.pack("!HH", 1, 9) + bytes(4), v4(UDP)),
        "ife-huge": ife(struct.pack("!HH", 1, 0xfffe) + bytes(4), v4(UDP)),
        "ife-odd": ife(struct.pack("!HH", 1, 5) + bytes(2), v4(UDP)),
        "ife-just": ife(datum(1, 4, b"\0\0\0\7"), v4(UDP)[:14]),
        "mpls-two-vlans": eth(0x8847, lse(100, 1) + udp, [(STAG, 6), (CTAG, 7)]),
    }
