# SPDX-License-Identifier: Apache-2.0 OR MIT
"""remcsum-sends.py ADDRESS N: sends datagrams to the address, and for an N of 1 what Linux gives random fields."""
import socket
import sys

SO_NO_CHECK, UDP_NO_CHECK6_TX, UDP_SEGMENT = 11, 101, 103
address, n = sys.argv[1:]
family = socket.AF_INET6 if ":" in address else socket.AF_INET


def udp(port):
    made = socket.socket(family, socket.SOCK_DGRAM)
    made.bind(("", 7000 + port))
    return made


if n == "1":
    tcp = socket.socket(family, socket.SOCK_STREAM)
    tcp.bind(("", 7080))
    tcp.setblocking(False)
    tcp.connect_ex((address, 80))
to = (address, 53)
one = udp(1)
one.sendto(b"some octets", to)
one.sendto(b"", to)
one.sendto(bytes(range(100)) + bytes(900), to)
one.sendto(b"some", socket.MSG_MORE, to)
one.sendto(b" octets", to)
parts = udp(2)
# A device without checksum offload refuses it.
if n != "4":
    parts.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 100)
    parts.sendto(bytes(range(250)), to)
none = udp(3)
if family == socket.AF_INET:
    none.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
else:
    none.setsockopt(socket.IPPROTO_UDP, UDP_NO_CHECK6_TX, 1)
none.sendto(b"unchecked", to)
raw = socket.socket(family, socket.SOCK_RAW, 200)
raw.sendto(b"of another protocol", (address, 0))
if n == "1":
    one.sendto(bytes(3000), to)
