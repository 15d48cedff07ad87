#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records the output of Linux's tunnels: writes inner.pcap, outer.pcap, NAME.pcap and NAME.txt.

Usage: examples/on-linux.sh unshare -n python3 crates/weir/tests/tunnel/record.py NAME
(as root on Linux 6.1; NAME is the name of a script beside this one)

The script's comments name the input device and file and the output device. inner.pcap has
frames of crates/weir-tc/tests/actions/frames.py, ipinner.pcap the same of today, outer.pcap and ipouter.pcap those of `outers` and `ipouters` below. Output frames are
written unchanged, with times 0; of an underlay only datagrams are kept. The commands after `# sends:` send
packets themselves, through vxlan devices that keep their checksum offload. NAME.txt has the output of the
commands after `# show:`.
"""
import ctypes, fcntl, os, re, select, socket, struct, subprocess, sys, time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../weir-tc/tests/actions"))
from frames import checksum, frames  # noqa: E402

PACKET_AUXDATA, SIOCETHTOOL, ETHTOOL_STXCSUM = 8, 0x8946, 0x17
ALL, OUTGOING = 3, 4


def v4(text):
    return socket.inet_pton(socket.AF_INET, text)


def v6(text):
    return socket.inet_pton(socket.AF_INET6, text)


def outer(inner, vni=5, port=4789, src="192.0.2.2", tos=0x10, ttl=9, flags=0x08000000, low=0, check=None, cut=None, to=None):
    """Returns the frame `inner` in a datagram to the underlay's address, or to another one."""
    vxlan = struct.pack("!II", flags, vni << 8 | low) + inner
    vxlan = vxlan[:cut]
    udp = struct.pack("!HHHH", 40000 + vni, port, 8 + len(vxlan), 0) + vxlan
    six = ":" in src
    if six:
        ends = v6(src) + v6(to or "2001:db8:1::1")
        pseudo = ends + struct.pack("!II", len(udp), 17)
    else:
        ends = v4(src) + v4(to or "192.0.2.1")
        pseudo = ends + struct.pack("!HH", 17, len(udp))
    if check is None:
        check = checksum(pseudo + udp) or 0xFFFF
    udp = udp[:6] + struct.pack("!H", check) + udp[8:]
    if six:
        head = struct.pack("!IHBB", 6 << 28 | tos << 20, len(udp), 17, ttl) + ends
    else:
        head = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(udp), 77, 0, ttl, 17, 0) + ends
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    station = bytes.fromhex("020000000101")
    if to and six and to.startswith("ff"):
        station = b"\x33\x33" + v6(to)[12:]
    elif to and to.endswith("255"):
        station = b"\xff" * 6
    elif to and not six and v4(to)[0] >= 224:
        station = b"\x01\0\x5e" + bytes([v4(to)[1] & 127]) + v4(to)[2:]
    return station + bytes.fromhex("020000000202") + (b"\x86\xdd" if six else b"\x08\x00") + head + udp


def inners():
    # Linux reads the TOS of a frame that ends where its IP header should begin from beyond its end.
    return [frame for name, frame in frames().items() if name != "eth-only"]


def outers():
    inner = frames()
    udp, tcp = inner["ip4-udp"], inner["ip4-tcp"]
    ect4, ce4, tos4 = inner["ip4-udp-ect"], inner["ip4-tcp-ce"], inner["ip4-udp-tos"]
    ect6, plain6, arp = inner["ip6-tcp-ect"], inner["ip6-udp"], inner["eth-arp"]
    six = "2001:db8:1::2"
    made = [outer(frame) for frame in (udp, tcp, plain6, arp, inner["ip4-cut"], inner["vlan-udp"])]
    made += [outer(udp, ttl=15), outer(udp, ttl=16), outer(tcp, vni=6, ttl=99), outer(udp, vni=6, ttl=99)]
    made += [outer(udp, vni=6, src="192.0.2.3", tos=0x20), outer(arp, vni=6, src="192.0.2.3", tos=0)]
    made += [outer(udp, check=0), outer(udp, check=0x1234), outer(udp, flags=0), outer(udp, flags=0x08000001)]
    made += [outer(udp, low=1), outer(udp, flags=0x88000007), outer(udp, cut=8), outer(udp, cut=20), outer(udp, cut=30)]
    # The tunnel's own address as the inner source, then a group address.
    made += [outer(udp[:6] + bytes.fromhex("020000000070") + udp[12:])]
    made += [outer(udp[:6] + bytes.fromhex("010000000070") + udp[12:])]
    for frame in (udp, ect4, ce4, tos4, plain6, ect6):
        for ecn in range(4):
            made.append(outer(frame, tos=0x10 | ecn))
            made.append(outer(frame, vni=7, src=six, tos=0x10 | ecn))
    made += [outer(udp, vni=7, src=six, check=0), outer(udp, vni=7, src=six, check=0x4321)]
    made += [outer(udp, vni=1, port=4790), outer(udp, vni=2, port=4790), outer(plain6, vni=1, port=4790, src="192.0.2.3")]
    made += [outer(udp, vni=2, port=4791, src=six), outer(udp, vni=2, port=4791, src=six, check=0)]
    made += [outer(udp, vni=2, port=4791), outer(udp, vni=1, port=4791, src=six)]
    for flags in (0x08000000, 0x88000007, 0x88000008, 0x88080007, 0x88480007, 0x08000007, 0x89000007):
        made.append(outer(udp, vni=3, port=4792, flags=flags))
    return made


def gpeouters():
    """Returns datagrams with packets of the protocols that the generic protocol extension names, and of others."""
    inner = frames()
    udp, tcp, plain6, arp = inner["ip4-udp"], inner["ip4-tcp"], inner["ip6-udp"], inner["eth-arp"]
    six = "2001:db8:1::2"
    IP, IP6, ETH, NSH, MPLS = 1, 2, 3, 4, 5
    bits = 0x0C000000
    label = struct.pack("!I", 100 << 12 | 0x1FF)
    payloads = [(IP, udp[14:]), (IP, tcp[14:]), (IP6, plain6[14:]), (ETH, udp), (ETH, arp), (NSH, bytes(24)), (MPLS, label + udp[14:])]
    made = []
    for port in (4790, 4791, 4792):
        for vni in (5, 6, 7):
            made += [outer(payload, vni=vni, port=port, flags=bits | kind) for kind, payload in payloads]
            made += [outer(payload, vni=vni, port=port, flags=bits | kind, src=six) for kind, payload in payloads[:3]]
    for kind in (0, 6, 7, 8, 0x80, 0xFF):
        made.append(outer(udp[14:], port=4790, flags=bits | kind))
    # Without the next protocol, another version, OAM, the instance bit missing, and reserved bits.
    for flags in (0x08000001, 0x1C000001, 0x2C000001, 0x3C000001, 0x0D000001, 0x04000001, 0x4C000001, 0x8C000001, 0x0E000001, 0x0C000101, 0x0C800001, 0x0C200001):
        made.append(outer(udp[14:], port=4790, flags=flags))
    made += [outer(udp[14:], port=4790, flags=bits | IP, low=1), outer(udp[14:], port=4790, flags=bits | IP, check=0)]
    made += [outer(udp[14:], port=4790, flags=bits | IP, src=six, check=0), outer(udp[14:], port=4791, flags=bits | IP, src=six, check=0)]
    made += [outer(udp[14:], port=4790, flags=bits | kind, cut=cut) for kind in (IP, IP6, NSH, MPLS) for cut in (7, 8, 9, 20, 27, 28, 40)]
    made += [outer(udp, port=4790, flags=bits | ETH, cut=cut) for cut in (7, 22, 30)]
    # What the protocol says does not fit the packet.
    made += [outer(udp[14:], port=4790, flags=bits | IP6), outer(plain6[14:], port=4790, flags=bits | IP), outer(udp, port=4790, flags=bits | IP)]
    for frame in (udp, inner["ip4-udp-ect"], inner["ip4-tcp-ce"], plain6, inner["ip6-tcp-ect"]):
        kind = IP if frame[12:14] == b"\x08\x00" else IP6
        for ecn in range(4):
            made.append(outer(frame[14:], port=4790, flags=bits | kind, tos=0x10 | ecn))
            made.append(outer(frame[14:], port=4790, vni=7, src=six, flags=bits | kind, tos=0x10 | ecn))
    return made


def remcsumouters():
    """Returns datagrams with remote checksum offload."""
    inner = frames()
    RCO, UDP = 0x08200000, 0x80
    def left(frame, check):
        """Returns the frame with the sum of the pseudo header as its checksum."""
        packet = frame[14:]
        start = 34 if packet[0] >> 4 == 4 else 54
        length = len(frame) - start
        if start == 34:
            pseudo = packet[12:20] + struct.pack("!BBH", 0, packet[9], length)
        else:
            pseudo = packet[8:40] + struct.pack("!II", length, packet[6])
        return frame[:start + check] + struct.pack("!H", checksum(pseudo) ^ 0xFFFF) + frame[start + check + 2:]
    udp, tcp = left(inner["ip4-udp"], 6), left(inner["ip4-tcp"], 16)
    udp6, tcp6 = left(inner["ip6-udp"], 6), left(inner["ip6-tcp"], 16)
    made = []
    for port in (4789, 4790, 4791, 4792):
        for frame, low in ((udp, 17 | UDP), (tcp, 17), (udp6, 27 | UDP), (tcp6, 27)):
            for src in ("192.0.2.2", "2001:db8:1::2"):
                made.append(outer(frame, port=port, flags=RCO, low=low, src=src))
            made += [outer(frame, port=port, low=low), outer(frame, port=port, flags=RCO, low=low, check=0)]
            made += [outer(frame, port=port, flags=RCO | flag, low=low) for flag in (1, 0x80000007, 0x00400000)]
        # The checksum lies elsewhere, at the end, or behind it.
        made += [outer(udp, port=port, flags=RCO, low=low) for low in (0, 1, UDP, 16, 17, 18 | UDP, 19 | UDP, 20 | UDP, 21 | UDP, 22, 0x7F, 0xFF)]
        # The sum is 0, and the padding of a short frame counts.
        made += [outer(udp[:-2] + struct.pack("!H", word), port=port, flags=RCO, low=17 | UDP) for word in range(0xA4A0, 0xA4A4)]
        odd = udp[:40] + b"\0\0" + udp[42:]
        rest = checksum(odd[34:48] + b"\0\0")
        made += [outer(odd[:48] + struct.pack("!H", rest), port=port, flags=RCO, low=17 | UDP), outer(udp + bytes(10), port=port, flags=RCO, low=17 | UDP)]
        made += [outer(inner[name], port=port) for name in ("ip4-udp", "eth-arp")]
    return made


def groupouters():
    """Returns datagrams to groups, to all hosts, and to the underlay's address."""
    inner = frames()
    udp, plain6 = inner["ip4-udp"], inner["ip6-udp"]
    made = []
    for vni in (5, 6, 9):
        for to in ("239.1.1.1", "239.1.1.2", "224.0.0.1", "192.0.2.1", "192.0.2.255", "255.255.255.255"):
            made.append(outer(udp, vni=vni, to=to))
    for vni in (7, 9):
        for to in ("ff05::100", "ff05::101", "ff02::1", "2001:db8:1::1"):
            made.append(outer(plain6, vni=vni, src="2001:db8:1::2", to=to))
            made.append(outer(plain6, vni=vni, src="2001:db8:1::2", to=to, check=0))
    made += [outer(udp, vni=5, to="239.1.1.1", port=4788), outer(udp, vni=5, to="239.1.1.1", check=0x1234)]
    made += [outer(udp, vni=5, to="239.1.1.1", src="192.0.2.3", ttl=1)]
    return made


def ip(protocol, payload, src="192.0.2.2", tos=0x10, ttl=9):
    """Returns a frame with an IP packet to the underlay's address."""
    if ":" in src:
        ends = v6(src) + v6("2001:db8:1::1")
        head = struct.pack("!IHBB", 6 << 28 | tos << 20, len(payload), protocol, ttl) + ends
        return bytes.fromhex("02000000010102000000020286dd") + head + payload
    ends = v4(src) + v4("192.0.2.1")
    head = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(payload), 77, 0, ttl, protocol, 0) + ends
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return bytes.fromhex("0200000001010200000002020800") + head + payload


def gre(payload, kind, key=None, seq=None, check=None, flags=0, **outer):
    """Returns a frame with a GRE packet; `check` is an error added to the checksum."""
    flags |= (0 if key is None else 0x2000) | (0 if seq is None else 0x1000) | (0 if check is None else 0x8000)
    head = struct.pack("!HH", flags, kind)
    if check is not None:
        head += bytes(4)
    if key is not None:
        head += struct.pack("!I", key)
    if seq is not None:
        head += struct.pack("!I", seq)
    data = head + payload
    if check is not None:
        data = data[:4] + struct.pack("!H", checksum(data) ^ check) + data[6:]
    return ip(47, data, **outer)


def ipouters():
    inner = frames()
    udp, tcp, plain6 = inner["ip4-udp"], inner["ip4-tcp"], inner["ip6-udp"]
    ect4, ce4, ect6 = inner["ip4-udp-ect"], inner["ip4-tcp-ce"], inner["ip6-tcp-ect"]
    TEB, IP, IP6 = 0x6558, 0x800, 0x86DD
    made = []
    for src in ("192.0.2.2", "192.0.2.3", "192.0.2.4"):
        made += [ip(4, frame[14:], src=src) for frame in (udp, tcp)]
        made += [ip(4, plain6[14:], src=src), ip(41, plain6[14:], src=src)]
        made += [gre(udp[14:], IP, src=src), gre(plain6[14:], IP6, src=src), gre(udp, TEB, src=src)]
        for key in (5, 6, 9, 10):
            made += [gre(udp[14:], IP, key=key, src=src), gre(udp, TEB, key=key, src=src)]
            made += [gre(plain6, TEB, key=key, src=src, check=0), gre(tcp[14:], IP, key=key, src=src, check=0)]
    for seq in (3, 4, 4, 9, 6, 10, 0x80000009, 0x8000000A, 0x8000000B, 11):
        made.append(gre(udp[14:], IP, key=5, seq=seq, check=0))
    made += [gre(udp[14:], IP, key=5, seq=0x7FFFFFFF), gre(udp[14:], IP, key=5, seq=12, check=0x100)]
    made += [gre(udp[14:], IP, flags=1), gre(udp[14:], IP, flags=0x4000), gre(udp[14:], IP, flags=0x0800)]
    made += [gre(b"", IP), gre(udp[:13], TEB, key=5), gre(b"", TEB, key=5), ip(47, bytes(3)), ip(47, bytes.fromhex("20000800"))]
    for frame in (udp, ect4, ce4, plain6, ect6):
        kind = IP if frame[12:14] == b"\x08\x00" else IP6
        for ecn in range(4):
            made += [gre(frame[14:], kind, tos=0x10 | ecn), gre(frame, TEB, key=5, tos=0x10 | ecn)]
            if kind == IP:
                made.append(ip(4, frame[14:], tos=0x10 | ecn))
    return made


def mirrored(frame, session, version=1, seq=1, start=0, more=None, short=None, **more_of_gre):
    """Returns a frame with an ERSPAN packet; `start` is added to the base of its header, and `more` follows that."""
    head = struct.pack("!I", version << 28 | session | start)
    if more is None:
        more = struct.pack("!I", 0x12345) if version == 1 else struct.pack("!II", 0x1020304, 0x81F8)
    return gre((head + more + frame)[:short], 0x88BE if version == 1 else 0x22EB, seq=seq, **more_of_gre)


def erspanouters():
    inner = frames()
    udp, plain6, arp = inner["ip4-udp"], inner["ip6-udp"], inner["eth-arp"]
    I, III, TEB = 0x88BE, 0x22EB, 0x6558
    made, seq = [], 0
    for src in ("192.0.2.2", "192.0.2.3", "192.0.2.4", "2001:db8:1::2", "2001:db8:1::3", "2001:db8:1::4"):
        for session in (0, 5, 6, 9, 0x3FF):
            for version in (1, 2):
                for frame in (udp, plain6, arp, inner["vlan-udp"]):
                    seq += 1
                    made.append(mirrored(frame, session, version, seq, src=src))
        seq += 1
        made += [gre(udp, I, src=src), gre(udp, III, src=src), gre(udp, TEB, key=5, src=src), gre(udp, TEB, key=9, src=src)]
        made += [gre(udp, I, key=5, src=src), gre(udp, I, check=0, src=src), gre(arp[:20], I, src=src)]
        made += [mirrored(udp, 5, version, seq + version, src=src, more=b"") for version in (0, 3, 15)]
        made += [mirrored(udp, 5, version, seq + 20, src=src, check=check) for version in (1, 2) for check in (0, 1)]
        made += [mirrored(udp, 5, version, seq + 21, src=src, short=short) for version in (1, 2) for short in (0, 3, 4, 7, 8, 11, 12, 13, 26, 40)]
        made += [mirrored(udp, 5, 1, seq + 22, start=start, src=src) for start in (0x400, 0x1800, 0xFFF << 16, 0xE000)]
        for more in (bytes(8), bytes([255] * 8), struct.pack("!II", 1, 0x8018), struct.pack("!II", 1, 0x8008)):
            made.append(mirrored(udp, 9, 2, seq + 23, more=more, src=src))
        for number in (seq + 24, seq + 23, seq - 9, seq + 0x80000000):
            made += [mirrored(udp, 5, version, number, src=src) for version in (1, 2)]
        for frame in (udp, inner["ip4-udp-ect"], inner["ip4-tcp-ce"], plain6, inner["ip6-tcp-ect"]):
            for ecn in range(4):
                made.append(mirrored(frame, 5, 1, seq + 30, src=src, tos=0x10 | ecn))
        seq += 40
    return made


def labelled(payload, *labels, to="020000000101", last=True):
    """Returns a frame with labels: numbers, or tuples of number, TTL and traffic class."""
    stack = b""
    for place, label in enumerate(labels):
        number, ttl, tc = (label + (64, 0)[len(label) - 1:]) if isinstance(label, tuple) else (label, 64, 0)
        bottom = last and place == len(labels) - 1
        stack += struct.pack("!I", number << 12 | tc << 9 | bottom << 8 | ttl)
    return bytes.fromhex(to + "0200000002028847") + stack + payload


def mplsouters():
    inner = frames()
    packets = [inner[name][14:] for name in ("ip4-udp", "ip4-tcp", "ip6-udp", "ip6-tcp-ect", "ip4-udp-ect")]
    made = []
    for packet in packets:
        for label in (100, 101, 102, 103, 104, 105, 106, 107, 0, 2):
            made += [labelled(packet, label), labelled(packet, (label, 9, 5), (500, 7))]
            made += [labelled(packet, (label, ttl)) for ttl in (0, 1, 2)]
        for below in range(16, 24):
            made += [labelled(packet, 105, below), labelled(packet, 105, 7, below), labelled(packet, 105, 500, 501, 502, below)]
    udp = packets[0]
    made += [labelled(udp, 999), labelled(udp, 1001), labelled(udp, 3), labelled(udp, 15), labelled(udp, 16)]
    made += [labelled(udp, 100, to="020000000999"), labelled(udp, 100, to="ffffffffffff"), labelled(udp, 100, to="01005e000001")]
    made += [labelled(b"", 100)[:16], labelled(b"", 100), labelled(b"", 102), labelled(udp[:11], 102), labelled(udp[:12], 102)]
    made += [labelled(bytes(40), 102), labelled(udp, 102, last=False), labelled(udp, 100, last=False)]
    made += [labelled(udp + bytes(1500 - len(udp) - 4 * n), *[label] * n) for n in (1, 2) for label in (100, 101, 102, 107)]
    return made


def geneve(inner, vni=5, port=6081, options=b"", first=None, flags=0, kind=0x6558, src="192.0.2.2", tos=0x10, cut=None, **more):
    """Returns the frame `inner` in a Geneve packet to the underlay's address."""
    head = struct.pack("!BBHI", len(options) // 4 if first is None else first, flags, kind, vni << 8) + options
    udp = struct.pack("!HHHH", 40000 + vni, port, 0, 0) + (head + inner)[:cut]
    udp = udp[:4] + struct.pack("!H", len(udp)) + udp[6:]
    if more.get("check", True) or ":" in src:
        ends = v6(src) + v6("2001:db8:1::1") if ":" in src else v4(src) + v4("192.0.2.1")
        pseudo = ends + (struct.pack("!II", len(udp), 17) if ":" in src else struct.pack("!HH", 17, len(udp)))
        udp = udp[:6] + struct.pack("!H", checksum(pseudo + udp) or 0xFFFF) + udp[8:]
    return ip(17, udp, src=src, tos=tos)


def geneveouters():
    inner = frames()
    udp, tcp, plain6, arp = inner["ip4-udp"], inner["ip4-tcp"], inner["ip6-udp"], inner["eth-arp"]
    option = bytes.fromhex("0102800100112233")
    plain = bytes.fromhex("01020101aabbccdd")
    made = []
    for src in ("192.0.2.2", "192.0.2.3", "192.0.2.4", "2001:db8:1::2"):
        for vni in (5, 6, 7, 8):
            made += [geneve(frame, vni=vni, src=src) for frame in (udp, plain6, arp)]
            made += [geneve(udp, vni=vni, src=src, port=6082), geneve(udp, vni=vni, src=src, port=6082, options=option, flags=0x40)]
    made += [geneve(udp, check=False), geneve(udp, options=plain), geneve(udp, options=plain + plain), geneve(udp, options=option, flags=0x40)]
    made += [geneve(udp, flags=0x80), geneve(udp, kind=0x800), geneve(udp[14:], kind=0x800), geneve(udp, first=0x40)]
    made += [geneve(udp, cut=length) for length in (0, 7, 8, 20, 21, 22, 30)] + [geneve(udp, first=40, cut=50)]
    made += [geneve(udp[:6] + bytes.fromhex("020000000070") + udp[12:]), geneve(inner["vlan-udp"]), geneve(inner["ip4-cut"])]
    for frame in (udp, inner["ip4-udp-ect"], inner["ip4-tcp-ce"], plain6, inner["ip6-tcp-ect"]):
        for ecn in range(4):
            made += [geneve(frame, tos=0x10 | ecn), geneve(frame, vni=7, src="2001:db8:1::2", tos=0x10 | ecn)]
    return made


def tel(limit, frame, before=b""):
    """Returns a frame with an IPv6 packet that has an encapsulation limit in destination options."""
    options = before + bytes([4, 1, limit])
    options += bytes(-(len(options) + 2) % 8)
    head = frame[14:54]
    extra = bytes([head[6], (len(options) + 2) // 8 - 1]) + options
    head = head[:4] + struct.pack("!H", len(frame) - 54 + len(extra)) + bytes([60]) + head[7:]
    return frame[:14] + head + extra + frame[54:]


def sized(frame, length):
    """Returns a frame with an IP packet made as long as `length`, without a right checksum of its payload."""
    packet = frame[14:] + bytes(length - len(frame) + 14)
    if packet[0] >> 4 == 6:
        return frame[:14] + packet[:4] + struct.pack("!H", length - 40) + packet[6:]
    head = packet[:2] + struct.pack("!H", length) + packet[4:10] + bytes(2) + packet[12:20]
    return frame[:14] + head[:10] + struct.pack("!H", checksum(head)) + head[12:] + packet[20:]


def ip6inners():
    inner = frames()
    udp, plain6, tcp6 = inner["ip4-udp"], inner["ip6-udp"], inner["ip6-tcp"]
    made = inners()
    made += [tel(limit, frame) for limit in (0, 1, 5, 255) for frame in (plain6, tcp6)]
    made += [tel(5, plain6, before=bytes(2)), tel(0, plain6, before=bytes([1, 0])), tel(5, tel(6, plain6)), tel(5, plain6)[:62]]
    made += [sized(frame, length) for frame in (udp, plain6, tcp6, inner["ip4-tcp"]) for length in (1424, 1434, 1438, 1442, 1446, 1448, 1449, 1452, 1453, 1460, 1461)]
    return made


def ip6outers():
    inner = frames()
    udp, tcp, plain6 = inner["ip4-udp"], inner["ip4-tcp"], inner["ip6-udp"]
    ect4, ce4, ect6 = inner["ip4-udp-ect"], inner["ip4-tcp-ce"], inner["ip6-tcp-ect"]
    TEB, IP, IP6 = 0x6558, 0x800, 0x86DD
    made = []
    for src in ("2001:db8:1::2", "2001:db8:1::3", "2001:db8:1::4", "2001:db8:1::1", "2001:db8:7::9"):
        made += [ip(4, frame[14:], src=src) for frame in (udp, tcp)]
        made += [ip(4, plain6[14:], src=src), ip(41, plain6[14:], src=src), ip(41, udp[14:], src=src)]
        made += [ip(137, struct.pack("!I", 100 << 12 | 0x1FF) + udp[14:], src=src)]
        made += [tel(4, ip(41, plain6[14:], src=src)), tel(0, ip(4, udp[14:], src=src))]
        made += [gre(udp[14:], IP, src=src), gre(plain6[14:], IP6, src=src), gre(udp, TEB, src=src)]
        for key in (0, 5, 6, 9, 10):
            made += [gre(udp[14:], IP, key=key, src=src), gre(udp, TEB, key=key, src=src)]
            made += [gre(plain6, TEB, key=key, src=src, check=0), gre(tcp[14:], IP, key=key, src=src, check=0)]
    src = "2001:db8:1::2"
    for seq in (3, 4, 4, 9, 6, 10, 0x80000009, 0x8000000A, 0x8000000B, 11):
        made.append(gre(udp[14:], IP, key=5, seq=seq, check=0, src=src))
    made += [gre(udp[14:], IP, key=5, seq=0x7FFFFFFF, src=src), gre(udp[14:], IP, key=5, seq=12, check=0x100, src=src)]
    made += [gre(udp[14:], IP, flags=1, src=src), gre(udp[14:], IP, flags=0x4000, src=src), gre(udp[14:], IP, flags=0x0800, src=src)]
    made += [gre(b"", IP, src=src), gre(udp[:13], TEB, key=5, src=src), gre(b"", TEB, key=5, src=src), ip(47, bytes(3), src=src)]
    made += [ip(4, udp[14:33], src=src), ip(41, plain6[14:53], src=src), ip(41, b"", src=src), gre(udp[14:33], IP, src=src), gre(udp[:33], TEB, key=5, src=src)]
    made += [gre(inner["vlan-udp"], TEB, key=5, src=src), gre(inner["vlan-udp"][:37], TEB, key=5, src=src)]
    for src in ("2001:db8:1::2", "2001:db8:1::3"):
        for frame in (udp, ect4, ce4, plain6, ect6, inner["ip4-udp-tos"]):
            kind = IP if frame[12:14] == b"\x08\x00" else IP6
            for tos in (0x10, 0x11, 0x12, 0x13, 0xB8):
                made += [gre(frame[14:], kind, tos=tos, src=src), gre(frame, TEB, key=5, tos=tos, src=src)]
                made.append(ip(4 if kind == IP else 41, frame[14:], tos=tos, src=src))
    return made


def ip6routes():
    """Returns frames for in0, whose packets are routed to tunnels, and ICMPv6 errors about outer packets."""
    inner = frames()
    udp, plain6 = inner["ip4-udp"], inner["ip6-udp"]
    six = lambda last: plain6[:53] + bytes([last]) + plain6[54:]
    made = []

    def four(last, df):
        head = udp[14:20] + bytes([df, 0]) + udp[22:24] + bytes(2) + bytes([10, 9, 0, 9]) + udp[30:33] + bytes([last])
        return udp[:14] + head[:10] + struct.pack("!H", checksum(head)) + head[12:] + udp[34:]

    for last in (0xB9, 0xBA, 0xBB):
        made += [sized(frame, length) for frame in (six(last), four(last, 0)) for length in (200, 1280, 1400, 1500)]
        # Linux keeps the MTU with the route after the first packet that does not fit.
        made += [sized(four(last, 0x40), length) for length in (200, 1280, 1400)]
    made += [tel(0, six(0xB9)), tel(3, six(0xB9)), tel(0, six(0xBB))]

    def error(kind, code, info, quoted):
        ends = v6("2001:db8::5") + v6("2001:db8:1::1")
        data = struct.pack("!BBHI", kind, code, 0, info) + quoted[14:]
        data = data[:2] + struct.pack("!H", checksum(ends + struct.pack("!II", len(data), 58) + data)) + data[4:]
        head = struct.pack("!IHBB", 6 << 28, len(data), 58, 9) + ends
        return udp[:6] + bytes.fromhex("02000000000586dd") + head + data

    def sent(remote, payload, protocol):
        frame = ip(protocol, payload, src=remote)
        return frame[:22] + frame[38:54] + frame[22:38] + frame[54:]

    for remote in ("2001:db8:1::2", "2001:db8:1::4", "2001:db8:1::9"):
        for frame, protocol in ((six(0xB9), 41), (four(0xB9, 0x40), 4)):
            outer = sent(remote, frame[14:], protocol)
            limited, done = tel(4, outer), tel(0, outer)
            made += [error(1, code, 0, quoted) for code in (0, 1, 3, 4) for quoted in (outer, limited)]
            made += [error(3, code, 0, outer) for code in (0, 1)]
            made += [error(4, 0, pointer, quoted) for pointer in (42, 44) for quoted in (limited, done)] + [error(4, 1, 44, done)]
            long = sent(remote, sized(frame, 1350)[14:], protocol)
            made += [error(2, 0, mtu, quoted[:1200]) for mtu in (1280, 1300, 1400, 9000) for quoted in (long, tel(4, long))]
            made += [error(1, 0, 0, outer[:14 + length]) for length in (40, 48, 60, 79)]
            wrapped = gre(frame[14:], 0x86DD if protocol == 41 else 0x800, src=remote)
            wrapped = wrapped[:22] + wrapped[38:54] + wrapped[22:38] + wrapped[54:]
            made += [error(1, 0, 0, wrapped), six(0xBB), error(1, 4, 0, wrapped), six(0xBB)]
    return made


def between(frame, src, dst):
    """Returns a frame whose packet has other addresses, without a right checksum of its payload."""
    packet = frame[14:]
    if ":" in src:
        return frame[:14] + packet[:8] + v6(src) + v6(dst) + packet[40:]
    head = packet[:10] + bytes(2) + v4(src) + v4(dst)
    return frame[:14] + head[:10] + struct.pack("!H", checksum(head)) + head[12:] + packet[20:]


def hopinners():
    """Returns frames for in0, whose packets are routed to tunnels without a remote."""
    inner = frames()
    six = ["2002:c000:202::1", "2002:c000:203::1", "2002::1", "::192.0.2.4", "2001:db8:b::1", "2001:db8:c::1"]
    six += ["2001:db8:a::1", "2001:db8:a1::1", "2001:db8:a2::1", "2001:db8:a3::5efe:192.0.2.4", "2001:db8:a3::200:5efe:192.0.2.3"]
    six += ["2001:db8:a3::300:5efe:192.0.2.3", "2001:db8:a4::1", "2001:db8:d::1", "2001:db8:e::1"]
    four = ["10.8.1.1", "10.8.2.1", "10.8.3.1", "10.8.4.1", "10.8.9.1", "10.8.8.1"]
    made = [between(frame, "2001:db8::1", to) for to in six for frame in (inner["ip6-udp"], inner["ip6-tcp-ect"])]
    return made + [between(frame, "192.0.2.99", to) for to in four for frame in (inner["ip4-udp"], inner["ip4-tcp"])]


def sitouters():
    """Returns frames for sit devices that look at their senders."""
    inner = frames()
    udp, plain6 = inner["ip4-udp"], inner["ip6-udp"]

    def made(src, dst, outer, to="192.0.2.1"):
        frame = ip(41, between(plain6, src, dst)[14:], src=outer)
        return between(frame, outer, to)

    def advertises(src, outer, prefix, lifetime=1800):
        options = struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 7200, 3600, 0) + v6(prefix)
        options += struct.pack("!BBBBI", 24, 1, 0, 0, 900) + struct.pack("!BBBBI", 24, 2, 48, 8, 900) + v6(prefix)[:8]
        data = struct.pack("!BBHBBHII", 134, 0, 0, 50, 0, lifetime, 0, 0) + options
        ends = v6(src) + v6("ff02::1")
        data = data[:2] + struct.pack("!H", checksum(ends + struct.pack("!II", len(data), 58) + data)) + data[4:]
        return ip(41, struct.pack("!IHBB", 6 << 28, len(data), 58, 255) + ends + data, src=outer)

    six, own = "2001:db8::1", "2001:db8:a::5efe:192.0.2.1"
    out = [made(six, own, f"192.0.2.{n}") for n in (2, 3, 4)]
    for net in ("2001:db8:a::", "fe80::", "2001:db8:b::"):
        out += [made(net + id, own, f"192.0.2.{n}") for id in ("5efe:192.0.2.4", "200:5efe:192.0.2.4", "300:5efe:192.0.2.4") for n in (3, 4, 5)]
    for dst in ("2002:c000:207::1", "2002:c000:207:1::1", "2002:c000:208::1", six):
        out += [made(src, dst, f"192.0.2.{n}", "192.0.2.7") for src in ("2002:c000:202::1", "2002:c000:203::1", six) for n in (2, 3)]
    out += [ip(4, udp[14:], src="192.0.2.4"), ip(41, plain6[14:40], src="192.0.2.4")]
    out += [advertises("fe80::5efe:192.0.2.2", "192.0.2.2", "2001:db8:2::"), advertises("fe80::5efe:192.0.2.3", "192.0.2.3", "2001:db8:3::")]
    out += [advertises("fe80::5efe:192.0.2.4", "192.0.2.4", "2001:db8:4::"), advertises("fe80::9", "192.0.2.2", "2001:db8:5::", 0)]
    return out


def proxyinners():
    """Returns requests for the neighbours of a device that answers them, and what resembles such requests."""
    asker = bytes.fromhex("020000000901")
    made = []

    def ask(target, op=1, hardware=1, protocol=0x800, lengths=0x604, sender="10.0.0.9", cut=None, tag=b""):
        body = struct.pack("!HHHH", hardware, protocol, lengths, op) + asker + v4(sender) + bytes(6) + v4(target)
        made.append((b"\xff" * 6 + asker + tag + b"\x08\x06" + body)[:cut])

    def solicit(target, ty=135, code=0, src="fd00::9", dst=None, options=b"\1\1" + asker, tclass=0, header=58, tag=b""):
        to = v6("ff02::1:ff00:0")[:13] + v6(target)[13:] if dst is None else v6(dst)
        message = struct.pack("!BBHI", ty, code, 0, 0) + v6(target) + options
        check = checksum(v6(src) + to + struct.pack("!II", len(message), 58) + message)
        message = message[:2] + struct.pack("!H", check) + message[4:]
        head = struct.pack("!IHBB", 6 << 28 | tclass << 20 | 0x12345, len(message), header, 255) + v6(src) + to
        made.append(b"\x33\x33" + to[12:] + bytes.fromhex("020000000902") + tag + b"\x86\xdd" + head + message)

    for number in range(1, 10):
        ask(f"10.0.0.{number}")
        solicit(f"fd00::{number}")
    ask("10.0.0.1", sender="0.0.0.0")
    for op in (0, 2, 3):
        ask("10.0.0.1", op=op)
    for hardware in (6, 7):
        ask("10.0.0.1", hardware=hardware)
    ask("10.0.0.1", protocol=0x801)
    for lengths in (0x605, 0x804):
        ask("10.0.0.1", lengths=lengths)
    # Linux takes frames of 28 octets or more for whole.
    ask("10.0.0.1", cut=27)
    ask("10.0.0.1", tag=bytes.fromhex("81000007"))
    for target in ("127.0.0.1", "224.0.0.9"):
        ask(target)
    other = b"\2\1" + bytes(6)
    for options in (b"", other, other + b"\1\1" + asker, b"\1\0" + asker, b"\x0e\0" + bytes(6), b"\1\2" + asker + bytes(8), b"\2\4" + bytes(6)):
        solicit("fd00::1", options=options)
    for ty, code in ((136, 0), (135, 1), (133, 0)):
        solicit("fd00::1", ty=ty, code=code)
    for src, dst in (("::", None), ("fd00::9", "::1"), ("fd00::9", "fd00::1"), ("fd00::1", "fd00::1")):
        solicit("fd00::1", src=src, dst=dst)
    for tclass in (0x0f, 0xb9, 0xf0):
        solicit("fd00::1", tclass=tclass)
    solicit("fd00::1", header=17)
    solicit("fd00::1", tag=bytes.fromhex("81000007"))
    solicit("ff02::9")
    return made + [frames()[name] for name in ("ip4-udp", "ip6-icmp")]


def write(path, packets):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, packet in enumerate(packets):
            file.write(struct.pack("<IIII", 0, number, len(packet), len(packet)) + packet)


def listen(device):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    sock.bind((device, ALL))
    sock.setsockopt(263, PACKET_AUXDATA, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    return sock


def heard(sock, wait):
    out = []
    while select.select([sock], [], [], wait)[0]:
        data, aux, _, address = sock.recvmsg(65535, 256)
        if address[2] == OUTGOING:
            continue
        for _, kind, value in aux:
            if kind == PACKET_AUXDATA:
                status, tci, tpid = struct.unpack("=I12xHH", value)
                if status & 0x10:
                    data = data[:12] + struct.pack("!HH", tpid if status & 0x40 else 0x8100, tci) + data[12:]
        out.append(data)
    return out


def is_datagram(frame):
    """Returns whether an outer packet belongs to a tunnel: UDP, IPv4, IPv6, GRE, or options in front of them."""
    of = (17, 4, 41, 47, 60, 137)
    return frame[12:14] == b"\x08\x00" and frame[23] in of or frame[12:14] == b"\x86\xdd" and frame[20] in of


def is_error(frame):
    """Returns whether a frame has an ICMP or ICMPv6 error."""
    return frame[12:14] == b"\x08\x00" and frame[23] == 1 or frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54] < 128


def has_icmp6(frame):
    """Returns whether a datagram has a frame with ICMPv6, also behind a hop-by-hop header."""
    inner = frame[50 if frame[12:14] == b"\x08\x00" else 70:]
    return inner[12:14] == b"\x86\xdd" and inner[20] in (0, 58)


def main():
    (name,) = sys.argv[1:]
    script = f"{HERE}/{name}.sh"
    text = open(script).read()
    inlet, kind = re.search(r"^# in: (\w+) (\w+)$", text, re.M).groups()
    outlet = re.search(r"^# out: (\w+)$", text, re.M).group(1)
    made = {"inner": inners, "proxyinner": proxyinners, "outer": outers, "groupouter": groupouters, "gpeouter": gpeouters, "remcsumouter": remcsumouters, "ipinner": inners, "ipouter": ipouters, "mplsouter": mplsouters, "geneveouter": geneveouters, "erspanouter": erspanouters, "ip6inner": ip6inners, "ip6outer": ip6outers, "ip6route": ip6routes, "hopinner": hopinners, "sitouter": sitouters}[kind]()
    write(f"{HERE}/{kind}.pcap", made)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["sh", script], check=True)
    control = socket.socket()
    sends = re.findall(r"^# sends: (.*)$", text, re.M)
    for _, device in socket.if_nameindex():
        if sends and device.startswith("vx"):
            continue
        # Checksums are computed, not left to the device.
        buffer = ctypes.create_string_buffer(struct.pack("=II", ETHTOOL_STXCSUM, 0), 8)
        request = struct.pack("16sQ", device.encode(), ctypes.addressof(buffer))
        try:
            fcntl.ioctl(control, SIOCETHTOOL, request + bytes(16))
        except OSError:
            pass
    time.sleep(1)
    sock = listen("p" + outlet)
    heard(sock, 0.2)
    send = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    send.bind(("p" + inlet, 0))
    out = []
    for frame in made:
        send.send(frame)
        out += heard(sock, 0.02)
    for command in sends:
        subprocess.run(command, shell=True, check=True, cwd=HERE)
        out += heard(sock, 0.1)
    out += heard(sock, 0.3)
    if sends:
        out = [frame for frame in out if not has_icmp6(frame)]
    if name.startswith("mpls"):
        out = [frame for frame in out if frame[:2] != b"33"]
    if outlet == "u0":
        out = [frame for frame in out if is_datagram(frame)]
    if outlet == "in0":
        out = [frame for frame in out if is_error(frame)]
    write(f"{HERE}/{name}.pcap", out)
    shown = ""
    for command in re.findall(r"^# show: (.*)$", text, re.M):
        done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        shown += f"+ {command}\n{done.stdout}"
    with open(f"{HERE}/{name}.txt", "w") as file:
        file.write(shown)
    print(f"{name}: {len(made)} frames in, {len(out)} out")


main()
