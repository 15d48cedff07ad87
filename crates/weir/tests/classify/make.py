#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Makes packets.pcap and the random rule sets beside it: NAME.cmd, tc commands for the ingress of d0.

Usage: make.py      (rewrites all of them; the seeds are below)

record.sh lets Linux classify the packets under each rule set; ../classify.rs compares Weir's counters
with those. Many values in the rules are taken from the packets, so that many packets match.
"""
import os, random, struct

HERE = os.path.dirname(os.path.abspath(__file__))
SETS = [("u32", seed) for seed in range(1, 5)] + [("basic", seed) for seed in range(1, 4)] + [("flow", 1), ("bpf", 1)]


def ones(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(r, proto, payload, frag=0, options=b""):
    ihl = 5 + len(options) // 4
    src = bytes([10, r.choice([0, 1]), r.randrange(3), r.randrange(1, 5)])
    dst = bytes([192, 168, r.randrange(2), r.randrange(1, 9)])
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | ihl, r.choice([0, 0, 16, 184]), ihl * 4 + len(payload),
                       r.randrange(65536), frag, r.choice([1, 64, 64, 255]), proto, 0, src, dst) + options
    head = head[:10] + struct.pack("!H", ones(head)) + head[12:]
    return head + payload


def l4(r, proto):
    text = r.choice([b"", b"abcdef", b"GET / HTTP/1.1\r\n", bytes(r.randrange(256) for _ in range(r.randrange(40)))])
    ports = (r.choice([53, 80, 443, 1024, 5000]), r.choice([22, 53, 80, 443, 8080]))
    if proto == 6:
        return struct.pack("!HHIIBBHHH", *ports, r.randrange(1 << 32), 0, 0x50, r.choice([2, 16, 18]), 512, 0, 0) + text
    if proto == 17:
        return struct.pack("!HHHH", *ports, 8 + len(text), 0) + text
    if proto in (1, 58):
        return struct.pack("!BBHI", r.choice([0, 8, 3, 128, 129]), 0, 0, r.randrange(1 << 32)) + text
    return text


def ipv6(r, proto, payload, ext=False):
    src = bytes.fromhex("20010db8000000000000000000000000")[:15] + bytes([r.randrange(1, 4)])
    dst = bytes.fromhex("20010db8000100000000000000000000")[:15] + bytes([r.randrange(1, 6)])
    if ext:
        payload = bytes([proto, 0, 1, 4, 0, 0, 0, 0]) + payload
        proto = 0
    return struct.pack("!IHBB", 6 << 28 | r.randrange(4) << 20 | r.randrange(1 << 20), len(payload), proto,
                       r.choice([1, 64])) + src + dst + payload


def packets():
    r = random.Random(7)
    out = []
    for n in range(240):
        proto = r.choice([6, 6, 17, 17, 1, 47])
        kind = r.randrange(12)
        if kind < 6:
            options = r.choice([b"", b"", b"\x01\x01\x01\x00", b"\x94\x04\x00\x00" + b"\x01" * 8])
            frag = r.choice([0, 0, 0, 0x4000, 0x2000, 0x2003, 100])
            ethertype, body = 0x0800, ipv4(r, proto, l4(r, proto), frag, options)
        elif kind < 9:
            proto = r.choice([6, 17, 58])
            ethertype, body = 0x86DD, ipv6(r, proto, l4(r, proto), r.random() < 0.3)
        elif kind == 9:
            ethertype, body = 0x0806, struct.pack("!HHBBH", 1, 0x800, 6, 4, r.choice([1, 2])) + bytes(
                r.randrange(256) for _ in range(20))
        elif kind == 10:
            ethertype, body = 0x88B5, bytes(r.randrange(256) for _ in range(r.randrange(50)))
        else:
            # Truncated.
            ethertype, body = 0x0800, ipv4(r, 17, l4(r, 17))[: r.randrange(36)]
        tags = b""
        if r.random() < 0.25:
            tags += struct.pack("!HH", 0x8100, r.choice([5, 0x2007, 0x6064]))
            if r.random() < 0.3:
                tags += struct.pack("!HH", 0x8100, r.choice([9, 0x4008]))
        dst = r.choice([b"\x02\0\0\0\0\x01", b"\xff" * 6, b"\x01\0\x5e\0\0\x05", b"\x02\0\0\0\0\x99"])
        out.append(dst + b"\x02\0\0\0\0\x02" + tags + struct.pack("!H", ethertype) + body)
    return out


def untagged(packet):
    """Returns the packet from the network header on, without the outer tag, as a filter sees it."""
    return packet[18:] if packet[12:14] == b"\x81\0" else packet[14:]


ACTIONS = ["action pass", "action drop", "action continue", "action continue", "action pipe", "flowid 1:5"]


class Make:
    def __init__(self, seed, frames):
        self.r = random.Random(seed)
        self.frames = frames

    def word(self, at, size):
        """Returns a value at an offset from the network header, often taken from a packet."""
        frame = self.r.choice(self.frames)
        whole = frame[:12] + frame[-len(untagged(frame)) - 2 :] if untagged(frame) else frame[:14]
        data = whole[14 + at : 14 + at + size]
        if len(data) < size or self.r.random() < 0.2:
            return self.r.randrange(1 << 8 * size)
        return int.from_bytes(data, "big")

    def mask(self, size):
        bits = 8 * size
        full = (1 << bits) - 1
        return self.r.choice([full, full, full << self.r.randrange(bits) & full, self.r.randrange(1 << bits), 0xFF, 0])

    def key(self, next_header):
        r = self.r
        size = r.choice([4, 4, 2, 1])
        at = r.choice([0, 2, 4, 6, 8, 9, 12, 16, 18, 20, 22, 24, 40, 42, r.randrange(64), -14, -8, -2])
        if size == 4:
            at &= ~3
            at = max(at, -12)
        if size == 2:
            at &= ~1
        value, mask = self.word(at, size), self.mask(size)
        if r.random() < 0.15:
            value = mask = 0
        where = f"nexthdr+{at}" if next_header and at >= 0 and r.random() < 0.5 else f"{at}"
        return f"match u{8 * size} {value & mask:#x} {mask:#x} at {where}"

    def u32(self):
        r = self.r
        out = []
        protocols = {1: "all", 2: "ip", 3: "ipv6", 4: "802.1q", 5: "all"}
        tables = {}
        for number in range(1, 5):
            tables[number] = r.choice([1, 1, 4, 16, 256])
            out.append(f"protocol all pref 1 handle {number}: u32 divisor {tables[number]}")
        for number in range(60):
            pref = r.choice([1, 1, 1, 2, 3, 4, 5])
            table = r.choice([0, 0, 1, 2, 3, 4])
            words = [f"protocol {protocols[pref]} pref {pref} u32"]
            if table:
                words.append(f"ht {table}:{r.randrange(tables[table]):x}:")
            words += [self.key(table != 0) for _ in range(r.choice([1, 1, 2, 3, 12 if r.random() < 0.1 else 1]))]
            link = r.random() < (0.45 if not table else 0.2)
            if link:
                to = r.choice(list(tables))
                words.append(f"link {to}:")
                if r.random() < 0.7:
                    mask = r.choice([0xFF, 0xFF00, 0xFF0000, 0x0F000000, 0xFF000000, 0xFFF0])
                    words.append(f"hashkey mask {mask:#010x} at {r.choice([0, 4, 8, 12, 16, 20])}")
                offset = r.randrange(4)
                if offset == 0:
                    words.append(f"offset at 0 mask 0x0f00 shift 6 {r.choice(['', 'eat'])}")
                elif offset == 1:
                    words.append(f"offset plus {r.choice([4, 20, 21, 40, 400])} {r.choice(['', 'eat'])}")
                elif offset == 2:
                    words.append(f"offset at {r.choice([2, 4, 6])} mask 0x00ff shift {r.randrange(5)} plus 3 eat")
            if not link or r.random() < 0.4:
                words.append(r.choice(ACTIONS))
            out.append(" ".join(words).replace("  ", " "))
        return out

    def condition(self, depth):
        r = self.r
        if depth and r.random() < 0.45:
            inside = [self.condition(depth - 1) for _ in range(r.choice([2, 2, 3]))]
            text = inside[0]
            for more in inside[1:]:
                text += r.choice([" and ", " or "]) + more
            return r.choice(["", "not "]) + f"({text})"
        kind = r.choice(["cmp", "cmp", "cmp", "u32", "nbyte", "meta", "meta"])
        if kind == "cmp":
            size = r.choice([1, 2, 4])
            at = r.choice([0, 2, 6, 8, 9, 12, 16, 20, 22, r.randrange(50)])
            layer = r.choice([0, 1, 1, 1])
            value = self.word(at - 14 * (not layer), size)
            mask = self.mask(size)
            masked = f"mask {mask:#x} " if r.random() < 0.5 else ""
            if masked and mask:
                value &= mask
            trans = "trans " if size > 1 and r.random() < 0.15 else ""
            text = f"cmp(u{8 * size} at {at} layer {layer} {masked}{trans}{r.choice(['eq', 'eq', 'gt', 'lt'])} {value})"
        elif kind == "u32":
            at = r.choice([0, 4, 8, 12, 16, 20])
            mask = self.mask(4)
            text = f"u32(u32 {self.word(at, 4) & mask:#x} {mask:#x} at {at})"
        elif kind == "nbyte":
            text = f'nbyte("{r.choice(["abc", "GET /", "E", "bcd"])}" at {r.choice([0, 20, 28, 29, 40])} layer 1)'
        else:
            text = r.choice([
                f"meta(pkt_len {r.choice(['gt', 'lt', 'eq'])} {r.randrange(90)})",
                f"meta(protocol eq {r.choice([8, 0xDD86, 0x0081, 0x0608])})",
                f"meta(vlan eq {r.choice([5, 0x2007])})",
                f"meta(vlan mask 0xfff eq {r.choice([5, 7, 100])})",
                f"meta(pkt_type {r.choice(['eq', 'lt'])} {r.randrange(4)})",
                f"meta(priority eq {r.randrange(2)})",
                f"meta(nf_mark lt {r.randrange(2)})",
                "meta(sk_family eq 2)",
                "meta(rt_classid eq 0)",
                f"meta(pkt_len shift 3 mask 6 gt {r.choice([0, 2, 4])})",
            ])
        return r.choice(["", "", "", "not "]) + text

    def basic(self):
        out = []
        protocols = {1: "all", 2: "ip", 3: "ipv6", 4: "all"}
        for number in range(40):
            pref = self.r.choice(list(protocols))
            text = self.condition(3)
            out.append(f"protocol {protocols[pref]} pref {pref} basic match '{text}' {self.r.choice(ACTIONS)}")
        return out


    def program(self):
        """Returns a random classic BPF program: loads, arithmetic, memory and jumps forward."""
        r = self.r
        length = r.randrange(3, 14)
        lines, written = [], []
        for at in range(length):
            rest = length - at - 1
            k = r.choice([0, 6, 12, 12, 14, 16, 18, 20, 22, 23, 23, 26, 30, 34, 36, 40, 60, 90])
            number = r.choice([0, 1, 2, 3, 4, 5, 15, 16, 31, 40, 53, 80, 255, 2048, 0x86DD, 0xFFFF, 1 << 31, 0xFFFFFFFF])
            kind = r.randrange(13)
            if kind < 4:
                lines.append((r.choice([32, 40, 48]), 0, 0, k))
            elif kind == 4:
                lines.append((r.choice([64, 72, 80]), 0, 0, r.choice([0, 8, 14, 20])))
            elif kind == 5:
                lines.append(r.choice([(177, 0, 0, 14), (177, 0, 0, 20), (1, 0, 0, r.choice([0, 2, 14, 33])), (7, 0, 0, 0),
                                       (135, 0, 0, 0), (128, 0, 0, 0), (129, 0, 0, 0), (0, 0, 0, number), (132, 0, 0, 0)]))
            elif kind < 9:
                op = r.choice([0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x90, 0xA0])
                if r.random() < 0.4:
                    lines.append((4 | op | 8, 0, 0, 0))
                else:
                    operand = number & 31 if op in (0x60, 0x70) else number
                    lines.append((4 | op, 0, 0, operand or 1))
            elif kind == 9:
                word = r.randrange(4)
                if not written or r.random() < 0.5:
                    lines.append((r.choice([2, 3]), 0, 0, word))
                    written.append(word)
                else:
                    lines.append((r.choice([96, 97]), 0, 0, r.choice(written)))
            elif rest > 0:
                op = r.choice([0x10, 0x20, 0x30, 0x40]) | r.choice([0, 0, 8])
                lines.append((5 | op, r.randrange(min(rest, 3) + 1), r.randrange(min(rest, 3) + 1), number))
        # Both ways of the last jumps lead to a return.
        ends = [(22, 0, 0, 0), (6, 0, 0, 1), (6, 0, 0, 0), (6, 0, 0, 0xFFFFFFFF)]
        lines += [r.choice(ends) for _ in range(5)]
        return ",".join([str(len(lines))] + [" ".join(map(str, line)) for line in lines])

    def bpf(self):
        programs = EXPRESSIONS + [self.program() for _ in range(90)]
        out = [f"protocol all pref 1 bpf bytecode '{program}' action continue" for program in programs]
        for pref in range(2, 9):
            out.append(f"protocol all pref {pref} bpf bytecode '{self.program()}' direct-action")
            out.append(f"protocol all pref {pref} bpf bytecode '1,6 0 0 4294967295' action continue")
        return out


# The programs of libpcap for some expressions.
EXPRESSIONS = [
    "4,40 0 0 12,21 0 1 2048,6 0 0 262144,6 0 0 0",  # ip
    "12,40 0 0 12,21 0 2 2048,48 0 0 23,21 6 7 17,21 0 6 34525,48 0 0 20,21 3 0 17,21 0 3 44,48 0 0 54,21 0 1 17,6 0 0 262144,6 0 0 0",  # udp
    "20,40 0 0 12,21 0 6 34525,48 0 0 20,21 0 15 6,40 0 0 54,21 12 0 80,40 0 0 56,21 10 11 80,21 0 10 2048,48 0 0 23,21 0 8 6,40 0 0 20,69 6 0 8191,177 0 0 14,72 0 0 14,21 2 0 80,72 0 0 16,21 0 1 80,6 0 0 262144,6 0 0 0",  # tcp port 80
    "14,40 0 0 12,21 10 0 34525,21 0 10 2048,48 0 0 23,21 0 8 17,40 0 0 20,69 6 0 8191,177 0 0 14,72 0 0 14,21 2 0 53,72 0 0 16,21 0 1 53,6 0 0 262144,6 0 0 0",  # udp port 53 or ip6
    "8,40 0 0 12,21 0 5 2048,32 0 0 26,21 2 0 167772418,32 0 0 30,21 0 1 167772418,6 0 0 262144,6 0 0 0",  # ip host 10.0.1.2
    "4,40 0 0 12,21 0 1 2054,6 0 0 262144,6 0 0 0",  # arp
    "6,32 0 0 2,21 0 3 153,40 0 0 0,21 0 1 512,6 0 0 262144,6 0 0 0",  # ether dst 02:00:00:00:00:99
    "4,48 0 0 0,69 0 1 1,6 0 0 262144,6 0 0 0",  # ether multicast
    "6,40 0 0 12,21 0 3 2048,48 0 0 23,21 0 1 47,6 0 0 262144,6 0 0 0",  # ip proto 47
    "11,40 0 0 12,21 0 8 2048,48 0 0 23,21 0 6 6,40 0 0 20,69 4 0 8191,177 0 0 14,80 0 0 27,69 0 1 2,6 0 0 262144,6 0 0 0",  # tcp[tcpflags] & tcp-syn != 0
    "13,40 0 0 12,21 0 10 2048,40 0 0 20,69 8 0 8191,48 0 0 23,21 0 6 17,40 0 0 20,69 4 0 8191,177 0 0 14,72 0 0 18,37 0 1 20,6 0 0 262144,6 0 0 0",  # ip[6:2] & 0x1fff = 0 and udp[4:2] > 20
    "4,128 0 0 0,37 0 1 60,6 0 0 262144,6 0 0 0",  # len > 60
    "9,40 0 0 12,21 0 6 34525,48 0 0 20,21 3 0 6,21 0 3 44,48 0 0 54,21 0 1 6,6 0 0 262144,6 0 0 0",  # ip6 and tcp
    "11,40 0 0 12,21 0 8 2048,48 0 0 23,21 0 6 1,40 0 0 20,69 4 0 8191,177 0 0 14,80 0 0 14,21 0 1 8,6 0 0 262144,6 0 0 0",  # icmp[0] = 8
    "13,40 0 0 12,21 0 10 2048,40 0 0 16,2 0 0 1,48 0 0 14,84 0 0 15,100 0 0 2,7 0 0 5,96 0 0 1,28 0 0 0,37 0 1 30,6 0 0 262144,6 0 0 0",  # (ip[2:2] - ((ip[0]&0xf)<<2)) > 30
]

# A prio qdisc counts, by its bands, the classes that a map or a hash of one key selects.
FLOW = """\
tc qdisc add dev d1 root handle 1: prio bands 16
tc filter add dev d0 ingress matchall action mirred egress redirect dev d1
tc filter add dev d1 parent 1: protocol ip pref 1 basic match 'cmp(u8 at 9 layer 1 eq 17)' action goto chain 1
tc filter add dev d1 parent 1: protocol ip pref 1 basic match 'cmp(u8 at 9 layer 1 eq 6) and cmp(u16 at 6 layer 1 mask 0x1fff eq 0)' action goto chain 2
tc filter add dev d1 parent 1: protocol ip pref 2 handle 3 flow map key proto divisor 3 baseclass 1:13
tc filter add dev d1 parent 1: chain 1 protocol ip pref 1 handle 1 flow map key dst divisor 5 baseclass 1:1
tc filter add dev d1 parent 1: chain 2 protocol ip pref 1 handle 2 flow map key src and 0xff xor 0x3 rshift 1 addend 3 divisor 7 baseclass 1:6
tc filter add dev d1 parent 1: protocol ipv6 pref 3 basic match 'cmp(u8 at 6 layer 1 eq 17)' action goto chain 3
tc filter add dev d1 parent 1: protocol ipv6 pref 3 basic match 'cmp(u8 at 6 layer 1 eq 6)' action goto chain 4
tc filter add dev d1 parent 1: protocol ipv6 pref 4 handle 3 flow map key src rshift 1 divisor 9 baseclass 1:5
tc filter add dev d1 parent 1: chain 3 protocol ipv6 pref 1 handle 1 flow map key dst divisor 4 baseclass 1:2
tc filter add dev d1 parent 1: chain 4 protocol ipv6 pref 1 handle 2 flow map key proto-dst divisor 16 baseclass 1:1
tc filter add dev d1 parent 1: protocol 802.1q pref 5 handle 1 flow map key vlan-tag divisor 11 baseclass 1:4
"""


def main():
    frames = packets()
    with open(f"{HERE}/packets.pcap", "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for n, frame in enumerate(frames):
            file.write(struct.pack("<IIII", 1, 1000 * n, len(frame), len(frame)) + frame)
    for kind, seed in SETS:
        if kind == "flow":
            lines = FLOW.splitlines()
        else:
            lines = ["tc filter add dev d0 ingress " + line for line in getattr(Make(seed, frames), kind)()]
        with open(f"{HERE}/{kind}-{seed}.cmd", "w") as file:
            file.write("\n".join(lines) + "\n")


main()
