# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Adds and changes vxlan devices by requests that iproute2 has no words for, and prints the answers: an errno and a text."""
import os
import socket
import struct

NEWLINK, REQUEST, ACK, EXCL, CREATE = 16, 1, 4, 0x200, 0x400
FLAGS = {"tx": (21, b"\1"), "rx": (22, b"\1"), "norx": (22, b"\0"), "nopartial": (24, b""), "gpe": (27, b""), "external": (25, b"\1")}
asks = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
for option in (10, 11):
    asks.setsockopt(270, option, 1)


def attr(ty, data):
    return struct.pack("=HH", 4 + len(data), ty) + data + bytes(-len(data) % 4)


def ask(name, words, create=True):
    flags = words.split()
    data = b""
    if create:
        data += attr(15, struct.pack("!H", 4789))
        data += attr(7, b"\0") if "external" in flags else attr(1, struct.pack("=I", 5))
    data += b"".join(attr(*FLAGS[flag]) for flag in flags)
    body = struct.pack("=BxHiII", 0, 0, 0, 0, 0) + attr(3, name.encode() + b"\0")
    body += attr(18, attr(1, b"vxlan\0") + attr(2, data))
    flags = REQUEST | ACK | (EXCL | CREATE if create else 0)
    asks.send(struct.pack("=IHHII", 16 + len(body), NEWLINK, flags, 1, 0) + body)
    answer = asks.recv(65536)
    (code,) = struct.unpack_from("=i", answer, 16)
    text = answer[40:].split(b"\0")[0].decode() if code else ""
    print(f"+ {'add' if create else 'set'} {name} {words}: {code} {text}", flush=True)
    return code == 0


def show(name):
    os.system(f"ip -d link show {name} | tail -n 1 | sed 's/numrxqueues 1 //'")


for flags in ("nopartial", "tx rx nopartial", "external rx nopartial", "external gpe", "external gpe nopartial", "external gpe rx"):
    if ask("vx", flags):
        show("vx")
        os.system("ip link del vx")
# The receiving flags are the port's, and the identifiers of those with other flags are others.
for name, flags in (("v0", ""), ("v1", ""), ("v1", "tx"), ("v1", "rx"), ("v2", "nopartial"), ("v3", "rx nopartial"), ("v4", "tx rx nopartial")):
    ask(name, flags)
for flags in ("tx", "rx", "norx", "nopartial"):
    ask("v3", flags, create=False)
show("v3")
