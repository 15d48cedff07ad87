#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""flow-table.py DEVICE PACKET...: sends packets by a device, on Linux and in Weir (WEIR is its binary).

A packet is `udp A:PORT B:PORT LENGTH`, `gre A B` or `tcp A:PORT B:PORT FLAGS SEQ ACK LENGTH`, with FLAGS such as `SA`.
Words after these: `ttl=N`; `bad` (a wrong checksum of TCP or UDP); `options` (an IP header with options).
"""
import os, socket, struct, subprocess, sys

FLAGS = {"F": 1, "S": 2, "R": 4, "P": 8, "A": 16}


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def end(text):
    address, _, port = text.partition(":")
    return socket.inet_aton(address), int(port or 0)


def frame(text):
    kind, src, dst, *rest = text.split()
    (src, sport), (dst, dport) = end(src), end(dst)
    if kind == "tcp":
        flags = sum(FLAGS[flag] for flag in rest[0])
        seq, ack, length = map(int, rest[1:4])
        rest = rest[4:]
        data = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, 0x50, flags, 1000, 0, 0) + b"x" * length
        protocol, place = 6, 16
    elif kind == "udp":
        length = int(rest[0])
        rest = rest[1:]
        data = struct.pack("!HHHH", sport, dport, 8 + length, 0) + b"x" * length
        protocol, place = 17, 6
    else:
        data, protocol, place = struct.pack("!HH", 0, 0x800), 47, None
    if place is not None:
        check = checksum(src + dst + struct.pack("!HH", protocol, len(data)) + data) ^ ("bad" in rest)
        data = data[:place] + struct.pack("!H", check) + data[place + 2 :]
    ttl = next((int(word[4:]) for word in rest if word.startswith("ttl=")), 64)
    options = b"\x94\4\0\0" if "options" in rest else b""
    size = 20 + len(options)
    head = struct.pack("!BBHHHBBH", 0x40 | size // 4, 0, size + len(data), 1, 0, ttl, protocol, 0) + src + dst + options
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return bytes.fromhex("0200000000100200000000090800") + head + data


frames = [frame(text) for text in sys.argv[2:]]
if "WEIR" in os.environ:
    file = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for data in frames:
        file += struct.pack("<IIII", 0, 0, len(data), len(data)) + data
    subprocess.run([os.environ["WEIR"], "inject", "--topspeed", sys.argv[1]], input=file, check=True,
                   stdout=subprocess.DEVNULL)
else:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    raw.bind((sys.argv[1], 0))
    for data in frames:
        raw.send(data)
