# SPDX-License-Identifier: Apache-2.0 OR MIT
"""splice between pipes and sockets of datagrams. Prints what the calls return and what arrives."""
import errno, fcntl, os, select, socket, struct, threading, time

HERE = "127.0.0.1"
MORE, NONBLOCK = os.SPLICE_F_MORE, os.SPLICE_F_NONBLOCK


def tried(what, *arguments):
    try:
        return what(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, error)


def splice(source, target, length, flags=0, **offsets):
    return tried(lambda: os.splice(source, target, length, flags=flags, **offsets))


def received(s):
    got = []
    while isinstance(part := tried(s.recv, 1 << 16, socket.MSG_DONTWAIT), bytes):
        got.append(part)
    return got


def left(pipe):
    return struct.unpack("i", fcntl.ioctl(pipe, 0x541B, bytes(4)))[0]


for family, address in (socket.AF_INET, HERE), (socket.AF_INET6, "::1"):
    peer, s = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
    peer.bind((address, 0))
    r, w = os.pipe()
    os.write(w, b"unsent")
    print("without a peer", splice(r, s.fileno(), 100))
    os.close(r), os.close(w)
    s.connect(peer.getsockname())
    r, w = os.pipe()
    data = bytes(range(251)) * 200
    for length, most in (1, 1), (1000, 1000), (1000, 300), (4096, 4096), (4097, 9000), (20000, 1 << 20), (50000, 30000):
        if family == socket.AF_INET6 and min(length, most) > 4096:
            continue  # a datagram for each page before Linux 6.5
        os.write(w, data[:length])
        sent = splice(r, s.fileno(), most)
        got = received(peer)
        print(length, most, sent, [len(part) for part in got], b"".join(got) == data[: min(length, most)], left(r))
        os.read(r, 1 << 16) if left(r) else None
    for part in b"one", b"two", b"three":
        os.write(w, part)
    print("written in parts", splice(r, s.fileno(), 100), received(peer))
    os.write(w, b"begin")
    print("more", splice(r, s.fileno(), 100, MORE), received(peer), s.send(b" end"), received(peer))
    print("empty", splice(r, s.fileno(), 100, NONBLOCK), splice(r, s.fileno(), 0))
    later = threading.Thread(target=lambda: (time.sleep(0.1), os.write(w, b"awaited")))
    later.start()
    print("waits", splice(r, s.fileno(), 100), received(peer))
    later.join()
    print("offsets", splice(r, s.fileno(), 9, offset_src=0), splice(r, s.fileno(), 9, offset_dst=0))
    print("wrong", splice(r, s.fileno(), 9, 1 << 20), splice(w, s.fileno(), 9), splice(peer.fileno(), s.fileno(), 9), splice(1 << 20, s.fileno(), 9))
    os.close(w)
    print("ended", splice(r, s.fileno(), 100))
    os.close(r)

    r, w = os.pipe()
    for part in b"first", b"second", b"", b"y" * 10000, b"cut here":
        s.send(part)
    print("received", [(splice(peer.fileno(), w, most), os.read(r, 1 << 16) if left(r) else b"") for most in (100, 6, 7)])
    print(splice(peer.fileno(), w, 1 << 16), len(os.read(r, 1 << 16)))
    print("cut", splice(peer.fileno(), w, 3), os.read(r, 9), received(peer))
    peer.setblocking(False)
    print("none", splice(peer.fileno(), w, 9))
    peer.setblocking(True)
    later = threading.Thread(target=lambda: (time.sleep(0.1), s.send(b"awaited")))
    later.start()
    print("waits", splice(peer.fileno(), w, 100), os.read(r, 100))
    later.join()
    s.send(b"kept")
    fcntl.fcntl(w, fcntl.F_SETFL, os.O_NONBLOCK)
    while isinstance(tried(os.write, w, bytes(4096)), int):
        pass
    print("full", splice(peer.fileno(), w, 9), received(peer))
    print("offsets", splice(peer.fileno(), w, 9, offset_src=0), splice(peer.fileno(), w, 9, offset_dst=0))
    print("wrong", splice(peer.fileno(), r, 9), splice(peer.fileno(), peer.fileno(), 9))
