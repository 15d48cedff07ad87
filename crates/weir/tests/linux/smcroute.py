# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends to groups, or is a member of some; see smcroute.sh."""
import socket
import struct
import sys

role, words = sys.argv[1], sys.argv[2:]
v6 = ":" in words[0]
family, level = (socket.AF_INET6, 41) if v6 else (socket.AF_INET, 0)
# IPV6_MULTICAST_HOPS, IPV6_RECVHOPLIMIT, IPV6_JOIN_GROUP, or those of IPv4.
TTL, RECVTTL, JOIN = (18, 51, 20) if v6 else (33, 12, 35)
sock = socket.socket(family, socket.SOCK_DGRAM)
if role == "send":
    for group, ttl in zip(words[::2], words[1::2]):
        sock.setsockopt(level, TTL, int(ttl))
        for number in range(2):
            sock.sendto(f"{number} to {group}".encode(), (group, 5000))
else:
    sock.bind(("", 5000))
    for group in words:
        sock.setsockopt(level, JOIN, socket.inet_pton(family, group) + bytes(4))
    sock.setsockopt(level, RECVTTL, 1)
    print("ready")
    while True:
        data, control, _, sender = sock.recvmsg(100, 100)
        ttl = struct.unpack("i", control[0][2])[0]
        print(f"{data.decode()} from {sender[0]} with TTL {ttl}")
