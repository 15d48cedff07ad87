#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make.py: writes the captures of protocols that Debian's user-mode Linux does not speak: SCTP, DCCP and GRE.

Each list below is a conversation between 10.1.0.1 (">") and 10.1.0.2 ("<"). The others are by record.py.
"""
import os, struct

HERE = os.path.dirname(os.path.abspath(__file__))
A, B = bytes([10, 1, 0, 1]), bytes([10, 1, 0, 2])


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def crc32c(data):
    crc = 0xFFFFFFFF
    for octet in data:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def frame(way, protocol, payload):
    src, dst = (A, B) if way == ">" else (B, A)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol, 0, src, dst)
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    macs = bytes.fromhex("020000000002020000000001" if way == ">" else "020000000001020000000002")
    return macs + b"\x08\0" + head + payload


def pseudo(way, protocol, length):
    src, dst = (A, B) if way == ">" else (B, A)
    return src + dst + struct.pack("!BBH", 0, protocol, length)


def write(name, frames, gap=0.02):
    with open(f"{HERE}/{name}.pcap", "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for at, data in enumerate(frames):
            micros = int(at * gap * 1e6)
            out.write(struct.pack("<IIII", micros // 1000000, micros % 1000000, len(data), len(data)) + data)


# SCTP

TAG_A, TAG_B = 0x0A0A0A0A, 0x0B0B0B0B
DATA, INIT, INIT_ACK, SACK, HEARTBEAT, HEARTBEAT_ACK, ABORT, SHUTDOWN, SHUTDOWN_ACK, ERROR, COOKIE_ECHO, COOKIE_ACK = range(12)
SHUTDOWN_COMPLETE = 14


def chunk(kind, body=b"", flags=0):
    data = struct.pack("!BBH", kind, flags, 4 + len(body)) + body
    return data + b"\0" * (-len(data) % 4)


def sctp(way, tag, *chunks, ports=(5000, 36412)):
    ports = ports if way == ">" else ports[::-1]
    data = struct.pack("!HHII", *ports, tag, 0) + b"".join(chunks)
    return frame(way, 132, data[:8] + struct.pack("<I", crc32c(data)) + data[12:])


def init(kind, tag):
    return chunk(kind, struct.pack("!IIHHI", tag, 65535, 10, 10, 1))


def shake(ports):
    return [
        sctp(">", 0, init(INIT, TAG_A), ports=ports),
        sctp("<", TAG_A, init(INIT_ACK, TAG_B), ports=ports),
        sctp(">", TAG_B, chunk(COOKIE_ECHO, b"cookie!!"), ports=ports),
        sctp("<", TAG_A, chunk(COOKIE_ACK), ports=ports),
    ]


def some(ports):
    data = chunk(DATA, struct.pack("!IHHI", 1, 0, 0, 0) + b"data", 3)
    sack = chunk(SACK, struct.pack("!IIHH", 1, 65535, 0, 0))
    return [sctp(">", TAG_B, data, ports=ports), sctp("<", TAG_A, sack, ports=ports)]


P = (5000, 36412)
write("sctp", shake(P) + some(P) + [
    sctp(">", TAG_B, chunk(SHUTDOWN, struct.pack("!I", 1)), ports=P),
    sctp("<", TAG_A, chunk(SHUTDOWN_ACK), ports=P),
    sctp(">", TAG_B, chunk(SHUTDOWN_COMPLETE), ports=P),
])
P = (5001, 36412)
write("sctp-abort", shake(P) + [
    # Another tag, twice; then the right one, and the reflected one.
    sctp(">", 7, chunk(ABORT), ports=P),
    sctp(">", 7, chunk(DATA, bytes(12) + b"data", 3), ports=P),
    sctp("<", TAG_A, chunk(SHUTDOWN, struct.pack("!I", 1)), ports=P),
    sctp(">", TAG_A, chunk(ABORT, flags=1), ports=P),
])
P = (5002, 36412)
write("sctp-paths", [
    sctp(">", TAG_B, chunk(HEARTBEAT, b"path"), ports=P),
    sctp("<", TAG_A, chunk(HEARTBEAT_ACK, b"path"), ports=P),
    sctp(">", TAG_B, chunk(HEARTBEAT, b"path"), ports=P),
])
P = (5003, 36412)
bad = bytearray(sctp(">", 0, init(INIT, TAG_A), ports=P))
bad[44] ^= 1
write("sctp-begin", [
    bytes(bad),
    sctp(">", TAG_B, chunk(DATA, bytes(12) + b"data", 3), ports=P),
    sctp(">", 0, init(INIT, TAG_A) + chunk(COOKIE_ACK), ports=P),
    sctp(">", 0, init(INIT, TAG_A), ports=P),
    sctp(">", 0, init(INIT, TAG_A), ports=P),
    sctp("<", TAG_A, init(INIT_ACK, TAG_B), ports=P),
    sctp("<", TAG_A, chunk(ERROR, b"\0\3\0\4"), ports=P),
    sctp(">", TAG_B, chunk(COOKIE_ECHO, b"cookie!!"), ports=P),
    sctp("<", TAG_A, chunk(ERROR, b"\0\3\0\4"), ports=P),
])

# DCCP

REQUEST, RESPONSE, D_DATA, ACK, DATA_ACK, CLOSE_REQ, CLOSE, RESET, SYNC, SYNC_ACK = range(10)


def dccp(way, kind, sequence, acknowledged=None, ports=(6000, 7000), body=b""):
    ports = ports if way == ">" else ports[::-1]
    rest = b"" if acknowledged is None else struct.pack("!HHI", 0, acknowledged >> 32, acknowledged & 0xFFFFFFFF)
    if kind in (REQUEST, RESPONSE):
        rest += struct.pack("!I", 42)
    if kind == RESET:
        rest += bytes(4)
    offset = (16 + len(rest)) // 4
    head = struct.pack("!HHBBHBBHI", *ports, offset, 0, 0, kind << 1 | 1, 0, sequence >> 32, sequence & 0xFFFFFFFF)
    data = head + rest + body
    check = checksum(pseudo(way, 33, len(data)) + data)
    return frame(way, 33, data[:6] + struct.pack("!H", check) + data[8:])


def greet(ports):
    return [
        dccp(">", REQUEST, 1000, ports=ports),
        dccp("<", RESPONSE, 0x500000002000, 1000, ports=ports),
        dccp(">", ACK, 1001, 0x500000002000, ports=ports),
        dccp("<", DATA_ACK, 0x500000002001, 1001, ports=ports, body=b"data"),
        dccp(">", D_DATA, 1002, ports=ports, body=b"data"),
    ]


P = (6000, 7000)
write("dccp", greet(P) + [
    dccp("<", CLOSE_REQ, 0x500000002002, 1002, ports=P),
    dccp(">", CLOSE, 1003, 0x500000002002, ports=P),
    dccp("<", RESET, 0x500000002003, 1003, ports=P),
])
P = (6001, 7000)
write("dccp-odd", [
    dccp(">", ACK, 5, 6, ports=P),
    dccp(">", REQUEST, 1000, ports=P),
    dccp(">", D_DATA, 1001, ports=P, body=b"data"),
    dccp("<", SYNC, 2000, 1000, ports=P),
    dccp("<", RESPONSE, 2001, 1000, ports=P),
    dccp(">", ACK, 1001, 7, ports=P),
    dccp("<", ACK, 2002, 1001, ports=P),
    dccp(">", CLOSE, 1002, 2002, ports=P),
    dccp(">", CLOSE, 1003, 2002, ports=P),
    dccp("<", RESET, 2003, 1002, ports=P),
    dccp("<", REQUEST, 3000, ports=P),
    dccp(">", RESPONSE, 4000, 3000, ports=P),
])
write("dccp-refused", [dccp(">", REQUEST, 1000, ports=(6002, 7000)), dccp("<", RESET, 1, 1000, ports=(6002, 7000))])

# GRE: version 0 with a key, and version 1 as of PPTP

plain = struct.pack("!HHI", 0x2000, 0x0800, 99) + bytes(20)
write("gre", [frame(way, 47, plain) for way in "><><"])
calls = [(">", 11), ("<", 22), (">", 11)]
write("gre-pptp", [frame(way, 47, struct.pack("!HHHHI", 0x3001, 0x880B, 4, call, 1) + b"ppp!") for way, call in calls]
      + [frame(">", 47, struct.pack("!HHHHI", 0x3001, 0x0800, 4, 33, 1) + b"ppp!")])
