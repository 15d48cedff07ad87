#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records the order in which Linux's qfq dequeues packets: writes qfq.txt.

Usage: examples/on-linux.sh python3 crates/weir-tc/tests/order/record.py
(as root on a Linux 6.1 with the qdisc; needs tc)

The qdisc is under a token bucket that passes nothing until its rate is changed, so that the order does not
depend on time. For each case the file holds its name after `#`, the commands after `$`, the packets to
send after `>` (class and bytes; `> kick` is one more packet of class 1, which triggers a dequeue), and
after `<` the numbers of the packets received, in order, counted from 0 within the case.
"""
import os, socket, struct, subprocess, time

HERE = os.path.dirname(os.path.abspath(__file__))
ETHERTYPE, SO_SNDBUFFORCE, SO_RCVBUFFORCE = 0x88B5, 32, 33
HOLD = "tc qdisc add dev d0 root handle 1: tbf rate 8bit burst 2000 limit 10000000"
GO = "tc qdisc change dev d0 root handle 1: tbf rate 1gbit burst 2000 limit 10000000"
STOP = "tc qdisc change dev d0 root handle 1: tbf rate 8bit burst 2000 limit 10000000"
QFQ = "tc qdisc add dev d0 parent 1:1 handle 10: qfq"


def classes(options):
    return [f"tc class add dev d0 parent 10: classid 10:{number:x} qfq {what}" for number, what in enumerate(options, 1)]


class Draws:
    """The random numbers of src/qdisc/tests/mod.rs."""

    def __init__(self, seed):
        self.seed = seed

    def below(self, bound):
        self.seed = (self.seed * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.seed >> 33) % bound


def random(seed, count, of, longest):
    draws = Draws(seed)
    return [(1 + draws.below(of), 60 + draws.below(longest - 59)) for _ in range(count)]


WEIGHTS = ["weight 1", "weight 10", "weight 100", "weight 1000"]
ALIKE = ["weight 10 maxpkt 1500"] * 12
MIXED = ["weight 50 maxpkt 600", "weight 7", "weight 300 maxpkt 1514", "weight 7", "weight 50 maxpkt 9000"]
CASES = {
    "weights": [QFQ, *classes(WEIGHTS), *random(1, 300, 4, 1514), GO],
    "classes alike": [QFQ, *classes(ALIKE), *random(2, 300, 12, 1500), GO],
    "packets larger than said": [QFQ, *classes(MIXED), *random(3, 300, 5, 1514), GO],
    "two bursts": [QFQ, *classes(WEIGHTS), *random(4, 100, 4, 1514), GO, STOP, *random(5, 100, 4, 1514), GO],
    "classes changed under packets": [
        QFQ, *classes(MIXED), *random(6, 150, 5, 1514),
        "tc class change dev d0 classid 10:3 qfq weight 3 maxpkt 1514",
        "tc class change dev d0 classid 10:2 qfq weight 200 maxpkt 2000",
        "tc class del dev d0 classid 10:4",
        *random(7, 100, 3, 1514), GO,
    ],
}


def run(command):
    subprocess.run(command, shell=True, check=True)


def play(steps, out):
    run("ip link add d0 address 02:00:00:00:00:02 type veth peer name pd0")
    for device in ("d0", "pd0"):
        run(f"sysctl -qw net.ipv6.conf.{device}.disable_ipv6=1; ip link set {device} up")
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 22)
    listener.bind(("pd0", ETHERTYPE))
    listener.settimeout(1)
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 22)
    sender.bind(("d0", 0))
    number = 0

    def send(minor, octets):
        nonlocal number
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 0x100000 | minor)
        frame = bytes(6) + bytes(6) + struct.pack("!HI", ETHERTYPE, number)
        sender.send(frame.ljust(octets, b"\0"))
        number += 1

    for step in steps:
        if isinstance(step, tuple):
            out.append("> %d %d" % step)
            send(*step)
            continue
        out.append("$ " + step)
        run(step)
        if step == GO:
            out.append("> kick")
            send(1, 60)
            received = []
            try:
                while True:
                    received.append(struct.unpack_from("!I", listener.recv(65536), 14)[0])
            except TimeoutError:
                pass
            out.append("< " + " ".join(map(str, received)))
    run("ip link del d0")


def main():
    out = ["# Made by record.py on Linux " + os.uname().release + "."]
    for name, steps in CASES.items():
        out.append("# " + name)
        play([HOLD, *steps], out)
    open(f"{HERE}/qfq.txt", "w").write("\n".join(out) + "\n")


main()
