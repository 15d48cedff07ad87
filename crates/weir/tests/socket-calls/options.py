# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Values of options at the ends of their ranges, before a connection and on it."""
import errno, socket, struct

HERE = "127.0.0.1"
TCP_INQ, NOTSENT_LOWAT, QUICKACK, FASTOPEN = 36, 25, 12, 23


def tried(what, *arguments):
    try:
        return what(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, error)


def get(s, level, name):
    return tried(s.getsockopt, level, name)


def put(s, level, name, value):
    done = tried(s.setsockopt, level, name, value)
    return get(s, level, name) if done is None else (done, get(s, level, name))


with open("/proc/sys/net/core/somaxconn") as file:
    most = int(file.read())
tcp = socket.IPPROTO_TCP
for state in "new", "connected", "listening":
    print(state)
    l = socket.create_server((HERE, 0))
    s = socket.create_connection(l.getsockname()) if state == "connected" else l if state == "listening" else socket.socket()
    print(" quick", get(s, tcp, QUICKACK), [put(s, tcp, QUICKACK, value) for value in (0, 1, 2, -1, 3)])
    print(" notsent", get(s, tcp, NOTSENT_LOWAT), [put(s, tcp, NOTSENT_LOWAT, value) for value in (1, 0, -1, 1 << 30)])
    if state != "connected":
        print(" fast", get(s, tcp, FASTOPEN), [put(s, tcp, FASTOPEN, value) for value in (5, most, most + 1, 1 << 30, 0, -1)])
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 40000)
    print(" room", get(s, socket.SOL_SOCKET, socket.SO_RCVBUF), [put(s, socket.SOL_SOCKET, socket.SO_RCVLOWAT, value) for value in (0, 1, 1000, 39999, 40000, 40001, 80000, 1 << 30, -1)])
    print(" room", get(s, socket.SOL_SOCKET, socket.SO_RCVBUF))
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1 << 30)
print("unlocked", get(s, socket.SOL_SOCKET, socket.SO_RCVLOWAT) > 1 << 20)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 40000)
print("datagrams", [put(u, socket.SOL_SOCKET, socket.SO_RCVLOWAT, value) for value in (0, 1, 40001, 1 << 30, -1)])
try:
    with open("/proc/sys/net/ipv4/tcp_notsent_lowat") as file:
        print("sysctl", file.read().strip())
except OSError as error:
    print("sysctl", error)
