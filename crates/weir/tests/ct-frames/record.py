#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records what filters on Linux find about the connections of packets: writes NAME.pcap and NAME.txt for the
scripts beside this one.

Usage: examples/on-linux.sh python3 crates/weir/tests/ct-frames/record.py [NAME...]

A script adds filters to d0 that send frames to d2, each with a destination MAC address of its own, so that a frame
that leaves tells which filter its packet hit. The comments of a script name the frames that arrive at d0:

    # frame: A > B PROTOCOL [OPTION...]

A and B are addresses with ports (`10.1.0.1:1000`, `fd01::1`; the `id` of an ICMP echo is A's port). The protocols and
their options are the functions below; `fragments=LENGTH[,LENGTH...]` with `order=N,N...` splits the packet. `PROTOCOL` may be `error/TYPE/CODE/A > B PROTOCOL`, an ICMP error about that
packet. NAME.pcap holds the frames, 10 ms apart. A line of NAME.txt is the number of the frame after which another
one left, the last octet of its destination, and the rest of the frame; `=` if that is the rest of the line before. The
identification in a fragment header is random, and 0 there.
"""
import ipaddress, os, re, select, socket, struct, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
MACS = bytes.fromhex("020000000001" "020000000009")
TCP, UDP, ICMP, ICMP6, SCTP, DCCP, GRE = 6, 17, 1, 58, 132, 33, 47


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def crc32c(data):
    crc = 0xFFFFFFFF
    for octet in data:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Packet:
    """One packet in the notation above, as an IP header and what follows."""

    def __init__(self, text):
        words = text.split()
        self.src, self.sport = self.end(words[0])
        self.dst, self.dport = self.end(words[2])
        self.four = len(self.src) == 4
        self.options = dict(word.split("=") for word in words[4:] if "=" in word)
        self.flags = [word for word in words[4:] if "=" not in word]
        self.kind = words[3]

    @staticmethod
    def end(text):
        found = re.fullmatch(r"(\d+\.\d+\.\d+\.\d+)(?::(\d+))?|\[?([0-9a-f:]+?)\]?(?:\.(\d+))?", text)
        address = found[1] or found[3]
        return ipaddress.ip_address(address).packed, int(found[2] or found[4] or 0)

    def number(self, name, default=0):
        return int(self.options.get(name, str(default)), 0)

    def payload(self, default=0):
        return bytes(at & 0xFF for at in range(self.number("len", default)))

    def pseudo(self, protocol, length):
        if self.four:
            return self.src + self.dst + struct.pack("!BBH", 0, protocol, length)
        return self.src + self.dst + struct.pack("!II", length, protocol)

    def summed(self, protocol, data, at):
        check = checksum(self.pseudo(protocol, len(data)) + data)
        if "badsum" in self.flags:
            check ^= 0x0101
        if "nosum" in self.flags:
            check = 0
        return data[:at] + struct.pack("!H", check) + data[at + 2:]

    def tcp(self):
        """Flags F S R P A; seq, ack, len, win."""
        bits = 0
        for letter in (word for word in self.flags if re.fullmatch("[FSRPA]+", word)):
            bits = sum(1 << "FSRPA".index(flag) for flag in letter)
        head = struct.pack("!HHIIBBHHH", self.sport, self.dport, self.number("seq"), self.number("ack"), 0x50, bits,
                           self.number("win", 8000), 0, 0)
        return TCP, self.summed(TCP, head + self.payload(), 16)

    def udp(self):
        """len, and ulen, the length in the header."""
        data = self.payload(8)
        head = struct.pack("!HHHH", self.sport, self.dport, self.number("ulen", 8 + len(data)), 0)
        return UDP, self.summed(UDP, head + data, 6)

    def icmp(self):
        """type, code, len; A's port is the id."""
        data = struct.pack("!BBHHH", self.number("type", 8), self.number("code"), 0, self.sport, 1) + self.payload(8)
        return self.icmp_of(data)

    def icmp_of(self, data):
        if not self.four:
            return ICMP6, self.summed(ICMP6, data, 2)
        check = checksum(data) ^ (0x0101 if "badsum" in self.flags else 0)
        return ICMP, data[:2] + struct.pack("!H", check) + data[4:]

    def error(self, head, about):
        kind, code = (int(number) for number in head.split("/")[1:3])
        inner = about.ip()[: self.number("keep", 200)]
        return self.icmp_of(struct.pack("!BBHI", kind, code, 0, 0) + inner)

    def sctp(self):
        """tag, chunk (its type), itag (that of INIT and INIT ACK)."""
        kind, body = self.number("chunk"), self.payload(4)
        if kind in (1, 2):
            body = struct.pack("!IIHHI", self.number("itag"), 65535, 10, 10, 1)
        body += b"\0" * (-len(body) % 4)
        data = struct.pack("!HHII", self.sport, self.dport, self.number("tag"), 0)
        data += struct.pack("!BBH", kind, 0, 4 + len(body)) + body
        return SCTP, data[:8] + struct.pack("<I", crc32c(data)) + data[12:]

    def dccp(self):
        """type, seq, ack."""
        kind = self.number("type")
        rest = b"" if kind in (0, 2) else struct.pack("!HHI", 0, 0, self.number("ack"))
        rest += struct.pack("!I", 42) if kind < 2 else bytes(4) if kind == 7 else b""
        data = struct.pack("!HHBBHBBHI", self.sport, self.dport, (16 + len(rest)) // 4, 0, 0, kind << 1 | 1, 0, 0,
                           self.number("seq"))
        return DCCP, self.summed(DCCP, data + rest + self.payload(), 6)

    def gre(self):
        """key."""
        return GRE, struct.pack("!HHI", 0x2000, 0x0800, self.number("key")) + bytes(20)

    def raw(self):
        """proto, len."""
        return self.number("proto"), self.payload(20)

    def ip(self):
        if self.kind.startswith("error/"):
            protocol, data = self.error(self.kind, self.about)
        else:
            protocol, data = getattr(self, self.kind)()
        if "cut" in self.options:
            data = data[: self.number("cut")]
        if not self.four:
            for word in self.flags:
                if word == "hop":
                    data, protocol = struct.pack("!BB", protocol, 0) + bytes([1, 4, 0, 0, 0, 0]) + data, 0
            return struct.pack("!IHBB", 6 << 28, len(data), protocol, 64) + self.src + self.dst + data
        options = bytes([1] * 4) if "opt" in self.flags else b""
        words = 5 + len(options) // 4
        fragment = self.number("off") // 8 | ("mf" in self.flags) << 13 | ("df" in self.flags) << 14
        head = struct.pack("!BBHHHBBH", 0x40 | words, self.number("tos"), words * 4 + len(data), self.number("ipid", 1),
                           fragment, 64, protocol, 0) + self.src + self.dst + options
        return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + data


def parse(text):
    """Returns the Packet of a line."""
    outer, slash, inner = text.partition("error/")
    if not slash:
        return Packet(text)
    kind, code, about = inner.split("/", 2)
    packet = Packet(f"{outer}error/{kind}/{code}")
    packet.about = Packet(about)
    for option in ("keep", "badsum"):
        if option in packet.about.options:
            packet.options[option] = packet.about.options.pop(option)
        if option in packet.about.flags:
            packet.flags.append(option)
            packet.about.flags.remove(option)
    return packet


def frames(script):
    """Returns the frames of a script."""
    found = []
    for line in open(script):
        if line.startswith("# frame: "):
            packet = parse(line[9:].strip())
            data = packet.ip()
            if "pad" in packet.flags:
                data += b"\xee" * 6
            if "fragments" in packet.options:
                kind = b"\x08\0" if packet.four else b"\x86\xdd"
                pieces = list(split(data, packet))
                order = packet.options.get("order")
                order = [int(at) for at in order.split(",")] if order else range(len(pieces))
                found += [MACS + kind + pieces[at] for at in order]
                continue
            tag = b"\x81\0\0\5" if "tag" in packet.flags else b""
            found.append(MACS + tag + (b"\x08\0" if packet.four else b"\x86\xdd") + data)
        elif line.startswith("# raw: "):
            found.append(MACS + bytes.fromhex(line[7:].strip()))
    return found


def split(data, packet):
    """Splits a packet into fragments of these lengths of payload; the last length repeats."""
    sizes = [int(size) for size in packet.options["fragments"].split(",")]
    length = 20 if packet.four else 40
    head, rest, at = data[:length], data[length:], 0
    while at < len(rest):
        piece = rest[at:at + sizes[0]]
        more = at + len(piece) < len(rest)
        if packet.four:
            flags = at // 8 | more << 13 | ("df" in packet.flags) << 14
            new = head[:2] + struct.pack("!H", 20 + len(piece)) + head[4:6] + struct.pack("!H", flags)
            new += head[8:10] + b"\0\0" + head[12:]
            yield new[:10] + struct.pack("!H", checksum(new)) + new[12:] + piece
        else:
            new = head[:4] + struct.pack("!HBB", 8 + len(piece), 44, 64) + head[8:]
            yield new + struct.pack("!BBHI", head[6], 0, at | more, packet.number("ipid", 1)) + piece
        at += len(piece)
        sizes = sizes[1:] or sizes


def capture(name, data):
    with open(os.path.join(HERE, name + ".pcap"), "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for at, frame in enumerate(data):
            second, micros = divmod(at * 10000, 1000000)
            out.write(struct.pack("<IIII", 1 + second, micros, len(frame), len(frame)) + frame)


def receive(sock):
    """Returns a frame with its tag, or None for one that the socket's own device sent."""
    data, control, _, address = sock.recvmsg(4096, 256)
    if address[2] == 4:  # PACKET_OUTGOING
        return None
    for level, ty, aux in control:
        if (level, ty) == (263, 8):  # SOL_PACKET, PACKET_AUXDATA
            status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", aux[:20])
            if status & 0x10:
                data = data[:12] + struct.pack("!HH", tpid, tci) + data[12:]
    if data[12:14] == b"\x86\xdd" and data[20] == 44:
        data = data[:58] + bytes(4) + data[62:]
    return data


def record(name):
    script = os.path.join(HERE, name + ".sh")
    subprocess.run(
        "ip link add d0 address 02:00:00:00:00:01 type veth peer name p0; ip link set d0 up; ip link set p0 arp off up;"
        "ip link add d2 address 02:00:00:00:00:02 type veth peer name p2; ip link set d2 up; ip link set p2 arp off up",
        shell=True, check=True)
    subprocess.run(["sh", "-e", script], check=True, stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    out.bind(("p0", 0))
    heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    heard.setsockopt(263, 8, 1)
    heard.bind(("p2", 0))
    data, lines, last = frames(script), [], None
    for number, frame in enumerate(data):
        out.send(frame)
        end = time.monotonic() + 0.25
        while (left := end - time.monotonic()) > 0:
            if select.select([heard], [], [], left)[0] and (frame := receive(heard)) is not None:
                rest = frame[6:].hex()
                lines.append(f"{number} {frame[5]:02x} {'=' if rest == last else rest}\n")
                last = rest
    for device in ("d0", "d2"):
        subprocess.run(["ip", "link", "del", device], check=True)
    subprocess.run(["conntrack", "-F"], stderr=subprocess.DEVNULL)
    with open(os.path.join(HERE, name + ".txt"), "w") as file:
        file.writelines(lines)
    print(name, len(data), "frames,", len(lines), "lines")


if __name__ == "__main__":
    for setting in ["all", "default"]:
        with open(f"/proc/sys/net/ipv6/conf/{setting}/disable_ipv6", "w") as file:
            file.write("1")
    for name in sys.argv[1:] or sorted(f[:-3] for f in os.listdir(HERE) if f.endswith(".sh")):
        capture(name, frames(os.path.join(HERE, name + ".sh")))
        record(name)
