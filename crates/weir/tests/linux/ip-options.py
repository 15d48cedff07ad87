# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Options of IPv4 that programs choose; see ip-options.sh."""
import errno
import socket
import struct
import time

IP_OPTIONS = 4
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x800))
wire.bind(("a1", 0x800))
TO = ("10.0.0.2", 9)


def attempt(what, call):
    try:
        result = call()
    except OSError as error:
        result = errno.errorcode[error.errno]
    print(what, "done" if result is None else result.hex(" ") if isinstance(result, bytes) else result)


def shown(packet):
    """A header without identification and checksum. A time is one if it is within a minute from now."""
    length = (packet[0] & 15) * 4
    head = bytearray(packet[:length])
    head[4:6] = head[10:12] = b"\0\0"
    at, now = 20, int(time.time() * 1000) % 86400000
    while at < length and head[at]:
        if head[at] == 1:
            at += 1
            continue
        if head[at] == 68:
            for place in range(at + 4, at + head[at + 1] - 3, 4):
                (value,) = struct.unpack("!I", head[place : place + 4])
                if value and abs(value - now) < 60000:
                    head[place : place + 4] = b"TIME"
        at += max(head[at + 1], 2)
    return f"{head[:20].hex()} {head[20:].hex(' ')} + {len(packet) - length}".replace("54 49 4d 45", "time")


def seen():
    time.sleep(0.05)
    while True:
        try:
            frame, sender = wire.recvfrom(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if sender[2] != socket.PACKET_OUTGOING:
            print("  wire", shown(frame[14:]))


def option(sock, value):
    return lambda: sock.setsockopt(socket.IPPROTO_IP, IP_OPTIONS, value)


def get(sock, room=40):
    return lambda: sock.getsockopt(socket.IPPROTO_IP, IP_OPTIONS, room)


RA, OWN, OTHER = bytes((148, 4, 0, 0)), bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))
CASES = {
    "none": b"",
    "no operation": b"\1",
    "three": b"\1\1\1",
    "end": b"\1\0\7\7\7",
    "router alert": RA,
    "router alert 1": bytes((148, 4, 0, 1)),
    "short alert": bytes((148, 3, 0)),
    "record route": bytes((7, 7, 4)) + bytes(4),
    "record route, filled": bytes((7, 11, 4)) + b"ABCDEFGH",
    "record route, second": bytes((7, 11, 8)) + b"ABCDEFGH",
    "record route, full": bytes((7, 7, 8)) + b"ABCD",
    "record route, odd": bytes((7, 8, 6)) + b"ABCDE",
    "record route, no pointer": bytes((7, 2)),
    "record route, low pointer": bytes((7, 7, 3)) + bytes(4),
    "record route, longest": bytes((7, 39, 4)) + bytes(36),
    "two record routes": bytes((7, 7, 4, 0, 0, 0, 0)) * 2,
    "times": bytes((68, 12, 5, 0)) + b"ABCDEFGH",
    "times, full": bytes((68, 8, 9, 0x10)) + b"ABCD",
    "times, full 15 times": bytes((68, 8, 9, 0xF0)) + b"ABCD",
    "times, short": bytes((68, 3, 5)),
    "times, low pointer": bytes((68, 8, 4, 0)) + b"ABCD",
    "times, no room": bytes((68, 8, 7, 0)) + b"ABCD",
    "addresses and times": bytes((68, 20, 5, 1)) + b"ABCDEFGHIJKLMNOP",
    "addresses and times, no room": bytes((68, 8, 5, 1)) + b"ABCD",
    "times of this host": bytes((68, 12, 5, 3)) + OWN + b"ABCD",
    "times of another": bytes((68, 12, 5, 3)) + OTHER + b"ABCD",
    "times of nobody": bytes((68, 12, 5, 7)) + OTHER + b"ABCD",
    "unknown": bytes((200, 4, 1, 2)),
    "unknown, too long": bytes((200, 5, 1, 2)),
    "unknown, no length": bytes((1, 1, 1, 200)),
    "alert and route": RA + bytes((7, 7, 4)) + bytes(4),
    "40": b"\1" * 40,
    "41": b"\1" * 41,
}
for kind, name in ((socket.SOCK_DGRAM, "udp"), (socket.SOCK_RAW, "raw")):
    for case, value in CASES.items():
        sock = socket.socket(socket.AF_INET, kind, 253 if name == "raw" else 0)
        if name == "udp":
            sock.bind(("10.0.0.1", 1000))
        print(f"# {name}, {case}")
        attempt("set", option(sock, value))
        attempt("get", get(sock))
        if value:
            attempt("send", lambda: sock.sendto(b"data", TO))
            seen()
        sock.close()

print("# changes")
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("10.0.0.1", 1000))
attempt("set", option(sock, RA))
attempt("get into 2", get(sock, 2))
attempt("wrong", option(sock, b"\7"))
attempt("get", get(sock))
attempt("none", option(sock, b""))
attempt("get", get(sock))

print("# lengths")
attempt("set", option(sock, RA + bytes((7, 7, 4)) + bytes(4)))
sock.setsockopt(socket.IPPROTO_IP, 11, 1)
for discover in (1, 2, 0):
    sock.setsockopt(socket.IPPROTO_IP, 10, discover)
    for length in (1460, 1461, 1472):
        print(discover, length)
        attempt("send", lambda: sock.sendto(bytes(length), TO))
        seen()
        try:
            _, control, _, _ = sock.recvmsg(10, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
            for level, what, data in control:
                print("  error", level, what, struct.unpack("IBBBBII", data[:16]))
        except BlockingIOError:
            pass
attempt("longest", lambda: sock.sendto(bytes(65507 - 12), TO))
time.sleep(0.2)
while True:
    try:
        wire.recv(4096, socket.MSG_DONTWAIT)
    except BlockingIOError:
        break
attempt("longer", lambda: sock.sendto(bytes(65507 - 11), TO))

print("# whole headers")
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)
attempt("set", option(raw, RA))
head = bytes((0x45, 0, 0, 24, 0, 0, 0, 0, 9, 253, 0, 0)) + OWN + OTHER
attempt("send", lambda: raw.sendto(head + b"data", TO))
attempt("none", option(raw, b""))
attempt("send", lambda: raw.sendto(head + b"data", TO))
seen()

print("# back by lo")
own = socket.socket(socket.AF_INET, socket.SOCK_RAW, 253)
own.settimeout(1)
for case in ("router alert", "record route, filled", "addresses and times", "times of this host", "unknown"):
    attempt("set", option(own, CASES[case]))
    attempt("send", lambda: own.sendto(b"data", ("127.0.0.1", 0)))
    print("  received", shown(own.recv(100)))

print("# answers")


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def ask(what, options, protocol, body, to=OWN):
    """Has the wire send a packet with options, padded. A wrong option stays wrong."""
    options += bytes(-len(options) % 4)
    total = 20 + len(options) + len(body)
    head = struct.pack("!BBHHHBBH", 0x45 + len(options) // 4, 0, total, 7, 0, 9, protocol, 0) + OTHER + to
    check = checksum(head + options)
    head = head[:10] + struct.pack("!H", check) + head[12:]
    print(what)
    wire.send(bytes((2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0)) + head + options + body)
    time.sleep(0.05)
    while True:
        try:
            frame, sender = wire.recvfrom(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if sender[2] != socket.PACKET_OUTGOING:
            packet = frame[14:]
            start = (packet[0] & 15) * 4
            print("  wire", shown(packet), "type", packet[start], "code", packet[start + 1])


def message(kind, rest):
    head = struct.pack("!BBHHH", kind, 0, 0, 1, 1) + rest
    return head[:2] + struct.pack("!H", checksum(head)) + head[4:]


ECHO, STAMP = message(8, b"data"), message(13, bytes(12))
UDP = struct.pack("!HHHH", 9, 9, 12, 0) + b"data"
SYN = struct.pack("!HHIIBBHHH", 9, 9, 1, 0, 0x50, 2, 100, 0, 0)
SYN = SYN[:16] + struct.pack("!H", checksum(OTHER + OWN + struct.pack("!HH", 6, 20) + SYN)) + SYN[18:]
for case, value in {
    **CASES,
    "record route, odd room": bytes((7, 8, 4)) + bytes(5),
    "times, odd room": bytes((68, 10, 5, 0)) + bytes(6),
    "addresses and times, one": bytes((68, 12, 5, 1)) + bytes(8),
    "addresses and times, odd room": bytes((68, 16, 5, 1)) + bytes(12),
    "times, then route": bytes((68, 12, 5, 0)) + bytes(8) + bytes((7, 11, 4)) + bytes(8),
    "route, then wrong": bytes((7, 11, 4)) + bytes(8) + bytes((68, 3, 5)),
}.items():
    if value and len(value) <= 40:
        ask(f"echo, {case}", value, 1, ECHO)
for case in ("record route, filled", "addresses and times", "router alert"):
    ask(f"time stamp, {case}", CASES[case], 1, STAMP)
    ask(f"closed port, {case}", CASES[case], 17, UDP)
    ask(f"closed port of TCP, {case}", CASES[case], 6, SYN)
    ask(f"no such protocol, {case}", CASES[case], 200, b"data")
    ask(f"a long packet, {case}", CASES[case], 200, bytes(1000))

print("# messages about options")
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("10.0.0.1", 9))
for name in (6, 7):
    sock.setsockopt(socket.IPPROTO_IP, name, 1)
for case, value in CASES.items():
    if len(value) > 40:
        continue
    ask(case, value, 17, UDP)
    try:
        _, control, _, _ = sock.recvmsg(10, 512, socket.MSG_DONTWAIT)
    except BlockingIOError:
        continue
    for level, what, data in control:
        head = shown(bytes((0x45 + len(data) // 4,)) + bytes(19) + data)
        print("  message", level, what, head[41:])
sock.close()

print("# TCP")
tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
attempt("none", option(tcp, b""))
attempt("41", option(tcp, b"\1" * 41))
attempt("get", get(tcp))
