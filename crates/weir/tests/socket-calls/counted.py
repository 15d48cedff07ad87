# SPDX-License-Identifier: Apache-2.0 OR MIT
"""TCP_INQ: each recvmsg on a stream tells what is left. Prints what the calls return."""
import errno, socket, struct, threading, time

TCP_INQ = 36


def tried(what, *arguments):
    try:
        return what(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, error)


def option(s):
    return s.getsockopt(socket.SOL_TCP, TCP_INQ)


def told(result):
    """Data, what the control messages say, flags, address."""
    if not isinstance(result, tuple):
        return result
    data, control, flags, address = result
    return data[:12], len(data), [(level, kind, struct.unpack("i", value)[0]) for level, kind, value in control], flags, address


def received(s, *arguments):
    return told(tried(s.recvmsg, *arguments))


def has(s, length):
    """Waits until so many bytes have come."""
    while len(s.recv(1 << 16, socket.MSG_PEEK)) < length:
        time.sleep(0.01)


for family, address in (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"):
    l = socket.create_server((address, 0), family=family)
    c = socket.create_connection(l.getsockname()[:2])
    s, _ = l.accept()
    print("values", option(s), [tried(s.setsockopt, socket.SOL_TCP, TCP_INQ, value) for value in (2, -1, b"\1\0\0", 1)], option(s), option(c))
    print(tried(s.setsockopt, socket.SOL_TCP, TCP_INQ, None, 4), option(s))
    c.send(b"0123456789")
    has(s, 10)
    print(received(s, 4, 100))
    print("peek", received(s, 3, 100, socket.MSG_PEEK), received(s, 0, 100))
    print("no room", received(s, 1, 0), received(s, 1, 20))
    first, second = bytearray(2), bytearray(2)
    print("parts", s.recvmsg_into([first, second], 100), first, second)
    print("none", received(s, 9, 100, socket.MSG_DONTWAIT))
    s.setblocking(False)
    print("none", received(s, 9, 100))
    s.settimeout(None)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 100000))
    print("in time", received(s, 9, 100))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
    later = threading.Thread(target=lambda: (time.sleep(0.1), c.send(b"awaited")))
    later.start()
    print("waits", received(s, 100, 100))
    later.join()
    c.send(b"plain")
    has(s, 5)
    print("recv", s.recv(2), s.recvfrom(2)[0])
    s.setsockopt(socket.SOL_TCP, TCP_INQ, 0)
    print("off", received(s, 1, 100), option(s))
    s.setsockopt(socket.SOL_TCP, TCP_INQ, 1)
    c.send(b"last")
    has(s, 4)
    c.shutdown(socket.SHUT_WR)
    time.sleep(0.1)
    print("end", received(s, 2, 100), received(s, 9, 100), received(s, 9, 100), received(s, 9, 100))
    l.setsockopt(socket.SOL_TCP, TCP_INQ, 1)
    c = socket.create_connection(l.getsockname()[:2])
    s, _ = l.accept()
    print("inherited", option(s), option(c))
    c.send(b"x" * 100000)
    has(s, 1)
    total = 0
    while total < 100000:
        data, length, messages, flags, _ = received(s, 3000, 100)
        total += length
    print("much", total, messages, flags)
    print("listening", received(l, 9, 100, socket.MSG_DONTWAIT))
    n = socket.socket(family)
    n.setsockopt(socket.SOL_TCP, TCP_INQ, 1)
    print("new", option(n), received(n, 9, 100), tried(n.sendmsg, [b"x"], [], socket.MSG_NOSIGNAL))
    d = socket.socket(family, socket.SOCK_DGRAM)
    print("datagrams", tried(d.setsockopt, socket.SOL_TCP, TCP_INQ, 1))
