#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""send.py FILE DEVICE: sends the frames of a capture file from a device, on Linux."""
import socket, struct, sys, time

data = open(sys.argv[1], "rb").read()
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
out.bind((sys.argv[2], 0))
at = 24
while at < len(data):
    (length,) = struct.unpack_from("<I", data, at + 8)
    out.send(data[at + 16 : at + 16 + length])
    at += 16 + length
    time.sleep(0.0005)
time.sleep(0.3)
