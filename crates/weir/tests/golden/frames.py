#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends frames by a device and listens to netlink groups, on Linux and in Weir (WEIR is its binary).

frames.py send DEV HEX...     sends frames
frames.py ra DEV KEY=VALUE... sends a router advertisement; keys: src, dst, mac, limit, hop, flags, life, reach,
                              retrans, prefix=PREFIX/LEN,FLAGS,VALID,PREFERRED, mtu, route=PREFIX/LEN,FLAGS,LIFETIME,
                              rdnss=LIFETIME,ADDRESS, option=HEX; later ones may be repeated
frames.py na DEV FLAGS TARGET MAC sends a neighbour advertisement
frames.py igmp DEV DST HEX    sends an IGMP message from 10.0.0.9 to a group
frames.py mld DEV DST HEX     sends an MLD message from fe80::1 to a group
frames.py udp DEV SRC DST     sends a UDP datagram to a router
frames.py arp DEV OP SHA SPA THA TPA [TO]  sends an ARP packet; TO is the frame's destination
frames.py ns DEV SRC DST TARGET  sends a neighbour solicitation
frames.py redirect DEV FROM TO GATEWAY DST [KEY=VALUE...]  sends an ICMP redirect about an echo reply from TO to DST;
                              keys: code, proto (of the quoted packet), udp=1 (quotes a socket of this program)
frames.py redirect6 DEV FROM TO TARGET DST [KEY=VALUE...]  sends an IPv6 redirect; keys: mac, limit, header=0 (quotes
                              nothing), proto, udp=1
frames.py hear GROUP...       prints the messages of netlink groups as hexadecimal, but not their device, until it is killed
"""
import os, socket, struct, subprocess, sys


def check(message, src, dst, protocol):
    pseudo = src + dst + struct.pack("!II", len(message), protocol) if src else b""
    data = pseudo + message + b"\0" * (len(message) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def six(text):
    return socket.inet_pton(socket.AF_INET6, text)


def icmpv6(message, src, dst, mac, limit=255, options=b""):
    """Returns a frame with an ICMPv6 message."""
    src, dst = six(src), six(dst)
    message = bytearray(message)
    message[2:4] = struct.pack("!H", check(bytes(message), src, dst, 58))
    header = struct.pack("!IHBB", 0x60000000, len(options) + len(message), 0 if options else 58, limit)
    to = b"\x33\x33" + dst[12:] if dst[0] == 0xff else bytes.fromhex("020000000010")
    return to + mac + b"\x86\xdd" + header + src + dst + options + bytes(message)


def igmp(message, dst):
    message = bytearray(message)
    message[2:4] = struct.pack("!H", check(bytes(message), b"", b"", 0))
    src, dst = socket.inet_aton("10.0.0.9"), socket.inet_aton(dst)
    header = bytearray(struct.pack("!BBHHHBBH", 0x46, 0xc0, 24 + len(message), 0, 0, 1, 2, 0) + src + dst)
    header += b"\x94\4\0\0"
    header[10:12] = struct.pack("!H", check(bytes(header), b"", b"", 0))
    to = b"\1\0\x5e" + bytes([dst[1] & 0x7f]) + dst[2:]
    return to + bytes.fromhex("020000000009") + b"\x08\0" + bytes(header) + bytes(message)


def udp(src, dst):
    data = struct.pack("!HHHH", 4000, 5000, 12, 0) + b"weir"
    src, dst = socket.inet_aton(src), socket.inet_aton(dst)
    header = bytearray(struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(data), 7, 0, 64, 17, 0) + src + dst)
    header[10:12] = struct.pack("!H", check(bytes(header), b"", b"", 0))
    return bytes.fromhex("0200000000100200000000090800") + bytes(header) + data


def arp(op, sha, spa, tha, tpa, to="ffffffffffff"):
    head = bytes.fromhex(to + sha + "0806") + struct.pack("!HHBBH", 1, 0x800, 6, 4, int(op))
    return head + bytes.fromhex(sha) + socket.inet_aton(spa) + bytes.fromhex(tha) + socket.inet_aton(tpa)


def bound(family, dst):
    """Returns a socket of a program that talks to DST, and its port."""
    program = socket.socket(family, socket.SOCK_DGRAM)
    program.connect((dst, 9))
    return program, program.getsockname()[1]


def upper(family, dst, keys):
    """Returns the protocol and the first bytes of the packet that a redirect quotes, and what must stay open."""
    if "udp" in keys:
        program, port = bound(family, dst)
        return 17, struct.pack("!HHHH", port, 9, 12, 0) + b"weir", program
    if family == socket.AF_INET6:
        return int(keys.get("proto", 58)), struct.pack("!BBHHH", 129, 0, 0, 1, 1), None
    return int(keys.get("proto", 1)), struct.pack("!BBHHH", 0, 0, 0xfffd, 1, 1), None


def redirect(device, source, to, gateway, dst, *arguments):
    keys = dict(argument.split("=", 1) for argument in arguments)
    protocol, data, program = upper(socket.AF_INET, dst, keys)
    inner = bytearray(struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(data), 7, 0, 64, protocol, 0))
    inner += socket.inet_aton(to) + socket.inet_aton(dst)
    inner[10:12] = struct.pack("!H", check(bytes(inner), b"", b"", 0))
    message = bytearray(struct.pack("!BBH", 5, int(keys.get("code", 1)), 0) + socket.inet_aton(gateway) + inner + data)
    message[2:4] = struct.pack("!H", check(bytes(message), b"", b"", 0))
    header = bytearray(struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(message), 8, 0, 64, 1, 0))
    header += socket.inet_aton(source) + socket.inet_aton(to)
    header[10:12] = struct.pack("!H", check(bytes(header), b"", b"", 0))
    send(device, [bytes.fromhex("0200000000100200000000090800") + bytes(header) + bytes(message)])


def redirect6(device, source, to, target, dst, *arguments):
    keys = dict(argument.split("=", 1) for argument in arguments)
    protocol, data, program = upper(socket.AF_INET6, dst, keys)
    message = struct.pack("!BBHI", 137, 0, 0, 0) + six(target) + six(dst)
    if "mac" in keys:
        message += b"\2\1" + bytes.fromhex(keys["mac"])
    if keys.get("header") != "0":
        inner = struct.pack("!IHBB", 0x60000000, len(data), protocol, 64) + six(to) + six(dst) + data
        inner += b"\0" * (-len(inner) % 8)
        message += struct.pack("!BBHI", 4, len(inner) // 8 + 1, 0, 0) + inner
    send(device, [icmpv6(message, source, to, bytes.fromhex("020000000009"), int(keys.get("limit", 255)))])


def advertisement(arguments):
    src, dst, mac, limit = "fe80::1", "ff02::1", "020000000001", 255
    hop, flags, life, reach, retrans, options = 64, 0, 1800, 0, 0, b""
    for argument in arguments:
        key, value = argument.split("=", 1)
        if key == "src": src = value
        elif key == "dst": dst = value
        elif key == "mac": mac = value
        elif key == "limit": limit = int(value)
        elif key == "hop": hop = int(value)
        elif key == "flags": flags = int(value, 16)
        elif key == "life": life = int(value)
        elif key == "reach": reach = int(value)
        elif key == "retrans": retrans = int(value)
        elif key == "mtu": options += struct.pack("!BBHI", 5, 1, 0, int(value))
        elif key == "option": options += bytes.fromhex(value)
        elif key == "source": options += bytes([1, 1]) + bytes.fromhex(value)
        elif key == "prefix":
            prefix, bits, valid, preferred = value.split(",")
            prefix, length = prefix.split("/")
            bits = int(bits, 16)
            options += struct.pack("!BBBBIII", 3, 4, int(length), bits, int(valid), int(preferred), 0) + six(prefix)
        elif key == "route":
            prefix, bits, lifetime = value.split(",")
            prefix, length = prefix.split("/")
            size = 1 + (int(length) + 63) // 64
            options += struct.pack("!BBBBI", 24, size, int(length), int(bits, 16), int(lifetime))
            options += six(prefix)[:8 * (size - 1)]
        elif key == "rdnss":
            lifetime, address = value.split(",")
            options += struct.pack("!BBHI", 25, 3, 0, int(lifetime)) + six(address)
        else: sys.exit(f"what is {key}?")
    message = struct.pack("!BBHBBHII", 134, 0, 0, hop, flags, life, reach, retrans) + options
    return icmpv6(message, src, dst, bytes.fromhex(mac), limit)


def send(device, frames):
    if "WEIR" in os.environ:
        file = struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)
        for frame in frames:
            file += struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame
        subprocess.run([os.environ["WEIR"], "inject", "--topspeed", device], input=file, check=True,
                       stdout=subprocess.DEVNULL)
        return
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    raw.bind((device, 0))
    for frame in frames:
        raw.send(frame)


def hear(groups):
    heard = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    heard.bind((0, 0))
    for group in groups:
        heard.setsockopt(270, 1, int(group))
    while True:
        data = heard.recv(65536)
        while len(data) >= 16:
            length, kind, flags = struct.unpack("=IHH", data[:8])
            # The device's index is the second word.
            body = data[16:20].hex() + " DEV " + data[24:length].hex()
            print(kind, flags, body, flush=True)
            data = data[(length + 3) & ~3:]


if sys.argv[1] == "hear":
    hear(sys.argv[2:])
elif sys.argv[1] == "ra":
    send(sys.argv[2], [advertisement(sys.argv[3:])])
elif sys.argv[1] == "igmp":
    send(sys.argv[2], [igmp(bytes.fromhex(sys.argv[4]), sys.argv[3])])
elif sys.argv[1] == "mld":
    alert = bytes.fromhex("3a00050200000100")
    message = bytes.fromhex(sys.argv[4])
    send(sys.argv[2], [icmpv6(message, "fe80::1", sys.argv[3], bytes.fromhex("020000000001"), 1, alert)])
elif sys.argv[1] == "redirect":
    redirect(*sys.argv[2:])
elif sys.argv[1] == "redirect6":
    redirect6(*sys.argv[2:])
elif sys.argv[1] == "udp":
    send(sys.argv[2], [udp(*sys.argv[3:])])
elif sys.argv[1] == "arp":
    send(sys.argv[2], [arp(*sys.argv[3:])])
elif sys.argv[1] == "ns":
    src, dst, target = sys.argv[3:]
    mac = bytes.fromhex("020000000009")
    message = struct.pack("!BBHI", 135, 0, 0, 0) + six(target) + (b"" if src == "::" else b"\1\1" + mac)
    send(sys.argv[2], [icmpv6(message, src, dst, mac)])
elif sys.argv[1] == "na":
    flags, target, mac = sys.argv[3:]
    message = struct.pack("!BBHI", 136, 0, 0, int(flags, 16)) + six(target) + b"\2\1" + bytes.fromhex(mac)
    send(sys.argv[2], [icmpv6(message, target, "ff02::1", bytes.fromhex(mac))])
else:
    send(sys.argv[2], [bytes.fromhex(frame) for frame in sys.argv[3:]])
