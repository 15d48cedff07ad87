#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records what Linux answers to the calls of calls.txt:  unshare -n python3 record.py > linux.txt

Each line is the call, then `= 0`, `= -ERRNO`, `= LENGTH` of a send, or `= HEX` of an option."""

import ctypes, ctypes.util, os, socket, subprocess, time

libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
FAMILIES = {"inet": 2, "inet6": 10, "packet": 17}
TYPES = {"stream": 1, "dgram": 2, "raw": 3, "seqpacket": 5}
LEVELS = {"ip": 0, "socket": 1, "udp": 17, "ipv6": 41, "icmpv6": 58, "raw": 255, "packet": 263}


def address(words):
    if words[0] == "-":
        return b"", words[1:]
    if words[0] == "raw":
        return bytes.fromhex(words[1]), words[2:]
    host, _, device = words[0].partition("%")
    port = int(words[1]).to_bytes(2, "big")
    if ":" in host:
        scope = socket.if_nametoindex(device) if device else 0
        packed = b"\x0a\0" + port + bytes(4) + socket.inet_pton(10, host) + scope.to_bytes(4, "little")
    else:
        packed = b"\x02\0" + port + socket.inet_pton(2, host) + bytes(8)
    return packed, words[2:]


def data(text):
    return b"" if text == "-" else bytes.fromhex(text)


def main():
    for command in (
        "link add v0 address 02:00:00:00:00:01 type veth peer name v1",
        "link set lo up",
        "link set v0 up",
        "link set v1 up",
        "addr add 10.0.0.1/24 dev v0",
        "addr add fd00::1/64 dev v0 nodad",
    ):
        subprocess.run(["ip", *command.split()], check=True)
    # The carrier is seen a little later.
    time.sleep(3)
    open("/proc/sys/net/ipv4/ping_group_range", "w").write("0 2147483647")
    fd = -1
    for line in open(os.path.join(os.path.dirname(__file__), "calls.txt")):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        call, *words = line.split()
        value = None
        if call == "open":
            if fd >= 0:
                os.close(fd)
            kind = TYPES.get(words[1]) or int(words[1])
            protocol = int(words[2])
            family = FAMILIES[words[0]]
            result = fd = libc.socket(family, kind, socket.htons(protocol) if family == 17 else protocol)
            result = min(result, 0)
        elif call in ("bind", "connect"):
            bytes_, _ = address(words)
            result = getattr(libc, call)(fd, bytes_, len(bytes_))
        elif call == "send":
            bytes_, rest = address(words)
            payload = bytes(int(rest[0]))
            result = libc.sendto(fd, payload, len(payload), 0x40, bytes_ or None, len(bytes_))
        elif call == "listen":
            result = libc.listen(fd, 1)
        elif call == "shutdown":
            result = libc.shutdown(fd, int(words[0]))
        elif call == "set":
            bytes_ = data(words[2])
            result = libc.setsockopt(fd, LEVELS[words[0]], int(words[1]), bytes_, len(bytes_))
        else:
            room = ctypes.create_string_buffer(int(words[2]))
            length = ctypes.c_uint(int(words[2]))
            result = libc.getsockopt(fd, LEVELS[words[0]], int(words[1]), room, ctypes.byref(length))
            value = room.raw[: length.value].hex() or "-"
        if result < 0:
            print(f"{line} = -{ctypes.get_errno()}")
        else:
            print(f"{line} = {value or result}")


main()
