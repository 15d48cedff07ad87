# SPDX-License-Identifier: Apache-2.0 OR MIT
"""remcsum-nopartial.py NAME PORT: adds a vxlan device with the VNI 5, remcsumrx and IFLA_VXLAN_REMCSUM_NOPARTIAL, for which iproute2 has
no word."""
import socket
import struct
import sys


def attr(ty, data):
    return struct.pack("=HH", 4 + len(data), ty) + data + bytes(-len(data) % 4)


name, port = sys.argv[1:]
data = attr(1, struct.pack("=I", 5)) + attr(15, struct.pack("!H", int(port))) + attr(22, b"\1") + attr(24, b"")
body = struct.pack("=BxHiII", 0, 0, 0, 0, 0) + attr(3, name.encode() + b"\0") + attr(1, bytes.fromhex("020000000071"))
body += attr(18, attr(1, b"vxlan\0") + attr(2, data))
asks = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
asks.send(struct.pack("=IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)
sys.exit(struct.unpack_from("=i", asks.recv(65536), 16)[0] != 0)
