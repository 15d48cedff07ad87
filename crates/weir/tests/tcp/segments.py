# SPDX-License-Identifier: Apache-2.0 OR MIT
"""TCP between two namespaces: prints the segments that pass the client's device, one per line.

    == SCENARIO
    MS DIRECTION FLAGS SEQ ACK LENGTH OPTIONS

DIRECTION is > for segments of the client and < for those of the server. SEQ and ACK are relative to the first sequence
numbers that are shown. MSS and window scale have their values; W0 stands for a window of zero. `--` stands where the
programs have waited; MS is the time since the first segment after it. `record` runs this on Linux, `../tcp_linux.rs` under
Weir.
"""

import ctypes
import os
import socket
import struct
import subprocess
import sys
import time

ADDRESS = {"a": "10.7.0.1", "b": "10.7.0.2"}
DEVICE = {"a": "va", "b": "vb"}
LIBC = ctypes.CDLL(None, use_errno=True)
SO_TIMESTAMPNS = 35
TCP_USER_TIMEOUT = 18


def sh(command):
    subprocess.run(["sh", "-ec", command], check=True, stdin=subprocess.DEVNULL)


def enter(ns):
    file = os.open(f"/run/netns/{ns}", os.O_RDONLY)
    if LIBC.setns(file, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(file)


def tcp(ns):
    enter(ns)
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.settimeout(60)
    return made


class Tap:
    """The frames of the client's device."""

    def __init__(self):
        enter("a")
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self.socket.bind((DEVICE["a"], 3))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.setblocking(False)
        self.found = []

    def mark(self):
        """Notes that the programs have waited."""
        self.take()
        self.found.append(None)

    def segments(self):
        """Takes all segments: time in ns, whether the client sent it, the TCP header with its data; None for a mark."""
        self.take()
        found, self.found = self.found, []
        return found

    def take(self):
        found = self.found
        while True:
            try:
                data, control, _, address = self.socket.recvmsg(65536, 256)
            except BlockingIOError:
                return
            at = 0
            for level, kind, value in control:
                if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                    seconds, ns = struct.unpack_from("qq", value)
                    at = seconds * 10**9 + ns
            if address[1] != 0x800 or data[9] != socket.IPPROTO_TCP:
                continue
            length = struct.unpack_from(">H", data, 2)[0]
            found.append((at, address[2] == socket.PACKET_OUTGOING, data[(data[0] & 15) * 4 : length]))


def options(data):
    names, at = [], 20
    end = (data[12] >> 4) * 4
    while at < end and data[at]:
        if data[at] == 1:
            names.append("nop")
            at += 1
            continue
        kind, length = data[at], data[at + 1]
        value = data[at + 2 : at + length]
        known = {
            2: lambda: f"mss={int.from_bytes(value, 'big')}",
            3: lambda: f"wscale={value[0]}",
            4: lambda: "sackOK",
            5: lambda: "sack",
            8: lambda: "TS",
        }
        names.append(known.get(kind, lambda: f"kind={kind}")())
        at += length
    return ",".join(names) or "-"


def distance(start, end):
    return (end - start + 2**31) % 2**32 - 2**31


def show(name, segments):
    print("==", name)
    first, start, marked = {}, None, False
    for segment in segments:
        if segment is None:
            marked = True
            continue
        at, out, data = segment
        seq, ack = struct.unpack_from(">II", data, 4)
        bits, window = data[13], struct.unpack_from(">H", data, 14)[0]
        if bits & 16:
            first.setdefault(not out, ack - (1 if bits & 2 else 0))
        first.setdefault(out, seq)
        if marked and start is not None:
            print("--")
        if marked or start is None:
            start, marked = at, False
        words = [
            f"{(at - start) / 1e6:.0f}",
            ">" if out else "<",
            "".join(letter for bit, letter in zip((2, 1, 4, 8, 16), "SFRPA") if bits & bit),
            distance(first[out], seq),
            distance(first.get(not out, ack), ack) if bits & 16 else 0,
            len(data) - (data[12] >> 4) * 4,
            options(data),
        ]
        print(*words, *(["W0"] if window == 0 else []))
    sys.stdout.flush()


def pause(seconds):
    time.sleep(seconds)
    TAP.mark()


class Blackhole:
    """What arrives at a namespace is dropped."""

    def __init__(self, ns):
        self.command = f"tc -n {ns} filter %s dev {DEVICE[ns]} ingress %s"

    def __enter__(self):
        sh(self.command % ("add", "pref 1 matchall action drop"))

    def __exit__(self, *_):
        sh(self.command % ("del", "pref 1"))


class Delay:
    """Each way takes 100 ms."""

    def __enter__(self):
        for ns in "ab":
            sh(f"tc -n {ns} qdisc add dev {DEVICE[ns]} root netem delay 100ms")

    def __exit__(self, *_):
        for ns in "ab":
            sh(f"tc -n {ns} qdisc del dev {DEVICE[ns]} root")


PORT = 7000
TAP = None


def listener(buffer=None):
    global PORT
    PORT += 1
    made = tcp("b")
    if buffer:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    made.bind((ADDRESS["b"], PORT))
    made.listen(5)
    return made


def client(port=None):
    made = tcp("a")
    made.bind((ADDRESS["a"], 0))
    return made, (ADDRESS["b"], port or PORT)


def pair(buffer=None):
    waiting = listener(buffer)
    one, to = client()
    one.connect(to)
    two, _ = waiting.accept()
    two.settimeout(60)
    waiting.close()
    return one, two


def orderly():
    one, two = pair()
    pause(0.1)
    one.sendall(bytes(100))
    two.recv(1000)
    pause(0.1)
    two.sendall(bytes(50))
    one.recv(1000)
    pause(0.3)
    one.close()
    pause(0.3)
    two.close()
    pause(0.3)


def half_close():
    one, two = pair()
    pause(0.1)
    one.sendall(bytes(10))
    one.shutdown(socket.SHUT_WR)
    while two.recv(1000):
        pass
    pause(0.3)
    two.sendall(bytes(20))
    pause(0.3)
    two.close()
    one.recv(1000)
    one.close()
    pause(0.3)


def linger():
    one, two = pair()
    pause(0.1)
    one.sendall(bytes(10))
    pause(0.3)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()
    pause(0.3)
    two.close()


def unread():
    one, two = pair()
    pause(0.1)
    two.sendall(bytes(10))
    pause(0.3)
    one.close()
    pause(0.3)
    two.close()


def data_after_close():
    one, two = pair()
    pause(0.1)
    one.close()
    pause(0.3)
    two.sendall(bytes(10))
    pause(0.3)
    two.close()


def both_close():
    with Delay():
        one, two = pair()
        pause(0.5)
        one.close()
        two.close()
        pause(1)


def refused():
    one, to = client(6999)
    try:
        one.connect(to)
    except ConnectionRefusedError:
        pass
    one.close()


def no_answer():
    waiting = listener()
    with Blackhole("b"):
        one, to = client()
        one.setblocking(False)
        one.connect_ex(to)
        time.sleep(16)
        one.close()
    waiting.close()


def syn_ack_lost():
    waiting = listener()
    with Blackhole("a"):
        one, to = client()
        one.setblocking(False)
        one.connect_ex(to)
        time.sleep(6)
        one.close()
    waiting.close()


def data_lost():
    one, two = pair()
    with Blackhole("b"):
        pause(0.5)
        one.sendall(bytes(10))
        time.sleep(9)
    time.sleep(6)
    TAP.mark()
    one.close()
    pause(0.5)
    two.close()
    time.sleep(0.3)


def fin_lost():
    one, two = pair()
    with Blackhole("b"):
        pause(0.5)
        one.close()
        time.sleep(4.5)
    time.sleep(5)
    TAP.mark()
    two.close()
    time.sleep(0.5)


def user_timeout():
    one, two = pair()
    one.setsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT, 3000)
    with Blackhole("b"):
        pause(0.5)
        one.sendall(bytes(10))
        time.sleep(8)
    one.close()
    pause(0.5)
    two.close()
    time.sleep(0.5)


def keep_alive():
    one, two = pair()
    for name, value in ((4, 2), (5, 3), (6, 3)):
        one.setsockopt(socket.IPPROTO_TCP, name, value)
    pause(0.5)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    one.sendall(bytes(10))
    time.sleep(3)
    with Blackhole("b"):
        time.sleep(14)
    one.close()
    pause(0.5)
    two.close()
    time.sleep(0.5)


def is_probe(segment, acked):
    _, out, data = segment
    return out and data[13] == 16 and (data[12] >> 4) * 4 == len(data) and data[4:8] == acked


def window_closed():
    """From the last segment that closes the window to the last probe."""
    one, two = pair(4096)
    one.setblocking(False)
    for _ in range(64):
        try:
            one.send(bytes(4096))
        except BlockingIOError:
            break
        time.sleep(0.05)
    time.sleep(18)
    found = TAP.segments()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()
    two.close()
    time.sleep(0.5)
    closed = [n for n, (_, out, data) in enumerate(found) if not out and data[14:16] == bytes(2)]
    for n in closed:
        acked = struct.pack(">I", struct.unpack_from(">I", found[n][2], 8)[0] - 1)
        if n + 1 < len(found) and is_probe(found[n + 1], acked):
            return found[n:]
    return found


SCENARIOS = [
    orderly,
    half_close,
    linger,
    unread,
    data_after_close,
    both_close,
    refused,
    no_answer,
    syn_ack_lost,
    data_lost,
    fin_lost,
    user_timeout,
    keep_alive,
    window_closed,
]


def main():
    sh(
        """ip netns add a; ip netns add b
        ip -n a link add va address 02:00:00:00:00:01 type veth peer name vb address 02:00:00:00:00:02 netns b
        for n in a b; do
            ip -n $n link set lo up; ip -n $n link set v$n up
            ip netns exec $n sysctl -qw net.ipv4.tcp_rmem='4096 131072 6291456' net.ipv4.tcp_wmem='4096 16384 4194304' \\
                net.ipv4.tcp_no_metrics_save=1
            tc -n $n qdisc add dev v$n clsact
        done
        ip -n a address add 10.7.0.1/24 dev va; ip -n b address add 10.7.0.2/24 dev vb
        ip -n a neigh replace 10.7.0.2 lladdr 02:00:00:00:00:02 nud permanent dev va
        ip -n b neigh replace 10.7.0.1 lladdr 02:00:00:00:00:01 nud permanent dev vb"""
    )
    global TAP
    TAP = Tap()
    for scenario in SCENARIOS:
        if sys.argv[1:] and scenario.__name__ not in sys.argv[1:]:
            continue
        TAP.segments()
        found = scenario()
        time.sleep(0.2)
        show(scenario.__name__, found or TAP.segments())


main()
