#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Twenty UDP frames of 100 to 1050 bytes, to the ports 1 to 4 in turn, each port with a DSCP of its
own, half of them able to carry congestion marks.

frames.py pcap STEPS    writes a capture of them to standard output, STEPS times, a second apart
frames.py send DEVICE   sends them from a device, on Linux
"""
import socket, struct, sys, time


def frame(number):
    port, length = 1 + number % 4, 100 + 50 * number
    tos = [0x20, 0x00, 0xB8, 0xC0][port - 1] | (2 if number // 4 % 2 else 0)
    head = struct.pack(">BBHHHBBH4s4s", 0x45, tos, length - 14, number, 0, 64, 17, 0, b"\n\0\0\1", b"\n\0\0\2")
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]
    udp = struct.pack(">HHHH", 1000 + port, port, length - 34, 0)
    return (b"\2\0\0\0\0\2\2\0\0\0\0\1\x08\0" + head + udp).ljust(length, b"\0")


FRAMES = [frame(number) for number in range(20)]
if sys.argv[1] == "pcap":
    out = sys.stdout.buffer
    out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for step in range(int(sys.argv[2])):
        for number, data in enumerate(FRAMES):
            out.write(struct.pack("<IIII", step, 1000 * number, len(data), len(data)) + data)
else:
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    out.bind((sys.argv[2], 0))
    for data in FRAMES:
        out.send(data)
        time.sleep(0.001)
    time.sleep(0.1)
