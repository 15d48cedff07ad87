#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""send.py DEVICE FILE [MAC]: sends the frames of a capture from a device of Linux, with their gaps, to the
MAC address, or to the recorded ones."""
import socket, struct, sys, time

out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
out.bind((sys.argv[1], 0))
to = bytes.fromhex(sys.argv[3]) if len(sys.argv) > 3 else None
data = open(sys.argv[2], "rb").read()
at, start = 24, time.monotonic()
while at < len(data):
    seconds, micros, length, _ = struct.unpack_from("<IIII", data, at)
    wait = start + seconds + micros / 1e6 - time.monotonic()
    if wait > 0:
        time.sleep(wait)
    frame = data[at + 16 : at + 16 + length]
    out.send(to + frame[6:] if to else frame)
    at += 16 + length
