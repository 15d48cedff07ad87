# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Messages (sendmsg, recvmsg) of datagram sockets at numbers from 3: by dup2, as systemd starts a server, and by SCM_RIGHTS."""
import array, errno, os, socket, struct, sys, threading, time

HERE = "127.0.0.1"
IP_PKTINFO, IPV6_PKTINFO = 8, 50


def tried(what, *arguments):
    try:
        return what(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, error)


def bound(family, address):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.bind((address, 0))
    return s


def told(result, *known):
    """Data, kinds of the control messages, flags, and which known socket has sent it."""
    if not isinstance(result, tuple):
        return result
    data, control, flags, sender = result
    return data, [(level, kind, len(value)) for level, kind, value in control], flags, [s.getsockname() for s in known].index(sender)


# The numbers that the sockets below take are nobody's.
held = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]

for family, address, level, wants, info in (
    (socket.AF_INET, HERE, socket.IPPROTO_IP, IP_PKTINFO, 8),
    (socket.AF_INET6, "::1", socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, IPV6_PKTINFO),
):
    for number in 3, 50, 511, 1000:
        first, second = bound(family, address), bound(family, address)
        server = bound(family, address)
        there = server.getsockname()
        server.setsockopt(level, wants, 1)
        os.dup2(server.fileno(), number)
        os.close(server.detach())
        s = socket.socket(fileno=number)
        print("at", s.getsockname() == there)
        first.sendto(b"one", there)
        second.sendto(b"two", there)
        for _ in range(2):
            result = s.recvmsg(100, 100)
            print(told(result, first, second))
            s.sendmsg([result[0], b" back"], [], 0, result[3])
        print(first.recv(99), second.recv(99))
        first.sendto(b"long", there)
        print("cut", told(s.recvmsg(2, 100, socket.MSG_PEEK), first), told(s.recvmsg(100, 20), first))
        print("none", told(tried(s.recvmsg, 9, 100, socket.MSG_DONTWAIT)))
        later = threading.Thread(target=lambda: (time.sleep(0.1), second.sendto(b"late", there)))
        later.start()
        print("waits", told(s.recvmsg(9, 100), first, second))
        later.join()
        print("no peer", tried(s.sendmsg, [b"x"]))
        s.connect(first.getsockname())
        print("connected", s.sendmsg([b"a", b"b"]), first.recv(9))
        first.close()
        time.sleep(0.1)
        print("refused", tried(s.sendmsg, [b"x"]), time.sleep(0.1), tried(s.sendmsg, [b"x"]))
        os.dup2(held[-1], s.detach())

    # Passed, and read at once.
    for way in "read", "recv", "recvmsg", "recvfrom":
        client, server = bound(family, address), bound(family, address)
        there = server.getsockname()
        client.sendto(b"before", there)
        one, other = socket.socketpair()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            one.close()
            server.close()
            client.close()
            fd = array.array("i", other.recvmsg(1, socket.CMSG_SPACE(4))[1][0][2])[0]
            if way == "read":
                got = os.read(fd, 100), os.read(fd, 100)
            else:
                s = socket.socket(family, socket.SOCK_DGRAM, 0, fd)
                got = getattr(s, way)(100)[:1], getattr(s, way)(100)[:1]
            other.send(repr(got).encode())
            os._exit(0)
        other.close()
        one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, server.fileno()][1:]))])
        client.sendto(b"after", there)
        print(way, one.recv(99))
        os.waitpid(pid, 0)
