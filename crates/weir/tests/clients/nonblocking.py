# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Non-blocking netlink sockets: the answer is available when the send of a request returns, as in Linux.

Prints, for each way not to wait, how many of ROUNDS requests found no answer.
"""
import errno
import fcntl
import os
import select
import socket
import struct

ROUNDS = 50
RTM_NEWLINK, RTM_GETLINK, RTM_GETROUTE, F_REQUEST, F_ACK, F_DUMP = 16, 18, 26, 1, 4, 0x300


def request(kind, flags, payload):
    return struct.pack("=IHHII", 16 + len(payload), kind, F_REQUEST | flags, 7, 0) + payload


LOOPBACK = request(RTM_GETLINK, 0, struct.pack("=BxHiII", 0, 0, 1, 0, 0))


def netlink(flags=0):
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | flags, socket.NETLINK_ROUTE)


def receive(s):
    return s.recv(65536)


def peek_then_receive(s):
    length = s.recvmsg_into([bytearray(0)], 0, socket.MSG_PEEK | socket.MSG_TRUNC)[0]
    return s.recvmsg(length)[0]


def poll(s):
    poller = select.poll()
    poller.register(s, select.POLLIN)
    if not poller.poll(0):
        raise BlockingIOError
    return s.recv(65536)


def epoll(s):
    with select.epoll() as poller:
        poller.register(s, select.EPOLLIN)
        if not poller.poll(0):
            raise BlockingIOError
    return s.recv(65536)


def choose(s):
    if not select.select([s], [], [], 0)[0]:
        raise BlockingIOError
    return s.recv(65536)


def nonblocking(how):
    if how == "SOCK_NONBLOCK":
        return netlink(socket.SOCK_NONBLOCK)
    s = netlink()
    if how == "fcntl":
        fcntl.fcntl(s, fcntl.F_SETFL, fcntl.fcntl(s, fcntl.F_GETFL) | os.O_NONBLOCK)
    elif how == "ioctl":
        s.setblocking(False)  # Python asks for FIONBIO
    return s


SEND = {
    "send": lambda s: s.send(LOOPBACK),
    "sendto": lambda s: s.sendto(LOOPBACK, (0, 0)),
    "sendmsg": lambda s: s.sendmsg([LOOPBACK[:20], LOOPBACK[20:]], [], 0, (0, 0)),
    "write": lambda s: os.write(s.fileno(), LOOPBACK),
    "writev": lambda s: os.writev(s.fileno(), [LOOPBACK[:16], LOOPBACK[16:]]),
}


def count(name, s, send, take):
    missed = 0
    for _ in range(ROUNDS):
        assert send(s) == len(LOOPBACK), name
        try:
            answer = take(s)
            assert struct.unpack_from("=H", answer, 4)[0] == RTM_NEWLINK, name
        except BlockingIOError:
            missed += 1
            select.select([s], [], [])
            s.recv(65536)
    print(name, missed)


for how in "SOCK_NONBLOCK", "fcntl", "ioctl":
    for name, send in SEND.items():
        with nonblocking(how) as s:
            count(f"{how} {name} recv", s, send, receive)
    with nonblocking(how) as s:
        count(f"{how} recvmsg", s, SEND["sendmsg"], peek_then_receive)
        try:
            s.recv(1)
            print("an answer is left over")
        except OSError as error:
            print(errno.errorcode[error.errno])
for name, take in ("poll", poll), ("epoll", epoll), ("select", choose):
    with netlink() as s:
        count(f"waiting socket {name}", s, SEND["send"], take)
with netlink() as s:
    count("MSG_DONTWAIT recv", s, SEND["send"], lambda s: s.recv(65536, socket.MSG_DONTWAIT))
    count("MSG_DONTWAIT recvmsg", s, SEND["sendmsg"], lambda s: s.recvmsg(65536, 0, socket.MSG_DONTWAIT)[0])

# A dump much longer than the socket's buffer has no gap either.
with netlink(socket.SOCK_NONBLOCK) as s:
    s.send(request(RTM_GETROUTE, F_DUMP, struct.pack("=BBBBBBBBI", 2, *[0] * 8)))
    octets = routes = 0
    while True:
        answer = s.recv(65536)
        octets += len(answer)
        at = 0
        while at < len(answer):
            length, kind = struct.unpack_from("=IH", answer, at)
            routes += kind == 24
            at += (length + 3) & ~3
        if kind == 3:
            break
print("routes", routes, octets > 1_000_000)
