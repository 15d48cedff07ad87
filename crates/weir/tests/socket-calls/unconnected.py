# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Streams without a connection: new ones, those whose connect has failed, listeners. Prints what calls that may not wait return."""
import ctypes, errno, select, signal, socket

HERE = "127.0.0.1"
EVERY = select.POLLIN | select.POLLPRI | select.POLLOUT | select.POLLRDNORM | select.POLLWRNORM | select.POLLRDHUP
libc = ctypes.CDLL(None, use_errno=True)
signals = []
signal.signal(signal.SIGPIPE, lambda *_: signals.append("SIGPIPE"))


def tried(what, *arguments):
    try:
        return what(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, error)


def polled(*sockets, time=0):
    p = select.poll()
    for s in sockets:
        p.register(s, EVERY)
    found = dict(p.poll(time))
    return [hex(found.get(s.fileno(), 0)) for s in sockets]


def sent(s, *arguments):
    """A send, and the signal that it causes."""
    del signals[:]
    result = tried(s.sendto, *arguments) if len(arguments) > 2 else tried(s.send, *arguments)
    until = 50
    while result == "EPIPE" and not signals and not arguments[1] & socket.MSG_NOSIGNAL and until:
        select.select([], [], [], 0.01)
        until -= 1
    return result, *signals


def all_of(s, address):
    more = socket.MSG_MORE
    print(" receives", tried(s.recv, 9, socket.MSG_DONTWAIT), tried(s.recv, 9, socket.MSG_DONTWAIT | socket.MSG_PEEK), tried(s.recvmsg, 9, 9, socket.MSG_DONTWAIT))
    buffer, length = ctypes.create_string_buffer(100), ctypes.c_int(100)
    count = libc.recvfrom(s.fileno(), buffer, 9, 0, buffer, ctypes.byref(length))
    print(" receives with an address", count if count >= 0 else errno.errorcode[ctypes.get_errno()])
    del signals[:]
    print(" a message", tried(s.recvmsg, 9), tried(s.sendmsg, [b"x"]), signals)
    print(" sends", sent(s, b"x", more), sent(s, b"x", more | socket.MSG_NOSIGNAL), sent(s, b"x", more | socket.MSG_DONTWAIT), sent(s, b"x", 0, address))


for family, address in (socket.AF_INET, HERE), (socket.AF_INET6, "::1"):
    taken = socket.socket(family)
    taken.bind((address, 0))
    print("new")
    s = socket.socket(family)
    print(" polled", polled(s), polled(s, time=1000))
    all_of(s, taken.getsockname())
    print(" shutdowns", [tried(s.shutdown, how) for how in (socket.SHUT_RD, socket.SHUT_WR, 7)])
    s = socket.socket(family)
    s.bind((address, 0))
    print(" bound", polled(s))
    other = socket.create_server((address, 0), family=family)
    c = socket.create_connection(other.getsockname()[:2])
    select.select([other], [], [], 9)
    print(" with others", polled(s, other), polled(s, c))
    p = select.poll()
    p.register(s, 0)
    print(" for nothing", [hex(events) for _, events in p.poll(0)])
    print("refused", tried(s.connect, taken.getsockname()), polled(s))
    print("connected", tried(s.connect, other.getsockname()), polled(s))
    s = socket.socket(family)
    print("refused", tried(s.connect, taken.getsockname()))
    all_of(s, taken.getsockname())
    print(" shutdowns", [tried(s.shutdown, how) for how in (socket.SHUT_RD, socket.SHUT_WR, 7)])
    print("listening")
    l = socket.create_server((address, 0), family=family)
    all_of(l, taken.getsockname())
