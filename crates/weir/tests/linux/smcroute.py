# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends to groups, or is a member of some; see smcroute.sh."""
import socket
import struct
import sys

IP_RECVTTL = 12
role, words = sys.argv[1], sys.argv[2:]
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if role == "send":
    for group, ttl in zip(words[::2], words[1::2]):
        sock.setsockopt(0, socket.IP_MULTICAST_TTL, int(ttl))
        for number in range(2):
            sock.sendto(f"{number} to {group}".encode(), (group, 5000))
else:
    sock.bind(("", 5000))
    for group in words:
        sock.setsockopt(0, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + bytes(4))
    sock.setsockopt(0, IP_RECVTTL, 1)
    print("ready")
    while True:
        data, control, _, sender = sock.recvmsg(100, 100)
        ttl = struct.unpack("i", control[0][2])[0]
        print(f"{data.decode()} from {sender[0]} with TTL {ttl}")
