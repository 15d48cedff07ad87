# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Wrong pointers, lengths and numbers in the calls on sockets. Prints what each returns.

linux.txt is the output on Linux: unshare -rn sh -c 'ip link set lo up; python3 calls.py' > linux.txt
"""
import ctypes, errno, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
SYS = dict(read=0, write=1, ioctl=16, readv=19, writev=20, socket=41, connect=42, accept=43, sendto=44, recvfrom=45,
           sendmsg=46, recvmsg=47, shutdown=48, bind=49, listen=50, getsockname=51, getpeername=52, setsockopt=54,
           getsockopt=55, recvmmsg=299, sendmmsg=307, accept4=288)
BAD = 8  # in the first page
def call(name, *args):
    words = [ctypes.c_long(a if isinstance(a, int) else ctypes.addressof(a)) for a in args]
    r = libc.syscall(ctypes.c_long(SYS[name]), *words)
    return r if r >= 0 else errno.errorcode[ctypes.get_errno()]
keep = []  # what calls point to
def buf(data): keep.append(ctypes.create_string_buffer(data, len(data))); return keep[-1]
def addr(port, ip="127.0.0.1", family=socket.AF_INET):
    if family == socket.AF_INET: return buf(struct.pack("=H", family) + struct.pack(">H", port) + socket.inet_aton(ip) + bytes(8))
    return buf(struct.pack("=H", family) + struct.pack(">HI", port, 0) + socket.inet_pton(family, "::1") + bytes(4))
def msg(name=0, namelen=0, iov=0, iovlen=0, control=0, controllen=0, flags=0):
    a = lambda x: x if isinstance(x, int) else ctypes.addressof(x)
    return buf(struct.pack("=QIIQQQQIIII", a(name), namelen, 0, a(iov), iovlen, a(control), controllen, flags, 0, 0, 0))
def iov(*parts):
    return buf(b"".join(struct.pack("=QQ", p if isinstance(p, int) else ctypes.addressof(p), n) for p, n in parts))
def opened(kind):
    family, type_ = {"udp": (2, 2), "tcp": (2, 1), "udp6": (10, 2), "tcp6": (10, 1)}[kind]
    s = socket.socket(family, type_); s.setblocking(False); keep.append(s)
    return s.fileno(), family
room, length = buf(bytes(200)), lambda n: buf(struct.pack("=i", n))
for kind in "udp", "tcp", "udp6", "tcp6":
    print(kind)
    f, family = opened(kind)
    good = addr(0, family=family); size = len(good)
    print(" bind", call("bind", f, BAD, size), call("bind", f, good, 3), call("bind", f, good, -1), call("bind", f, good, 129),
          call("bind", f, addr(0, family=2 if family == 10 else 10), 28 if family == 2 else 16), call("bind", f, 0, 0))
    print(" connect", call("connect", f, BAD, size), call("connect", f, good, 1), call("connect", f, good, -1), call("connect", f, good, 200))
    print(" getsockname", call("getsockname", f, BAD, length(size)), call("getsockname", f, room, BAD), call("getsockname", f, room, length(-1)),
          call("getsockname", f, room, length(0)), call("getpeername", f, BAD, BAD))
    print(" setsockopt", call("setsockopt", f, 1, 2, BAD, 4), call("setsockopt", f, 1, 2, length(1), 3), call("setsockopt", f, 1, 2, length(1), -1),
          call("setsockopt", f, 1, 999, length(1), 4), call("setsockopt", f, 77, 1, length(1), 4), call("setsockopt", f, 6, 999, length(1), 4),
          call("setsockopt", f, 0, 999, length(1), 4), call("setsockopt", f, 41, 999, length(1), 4), call("setsockopt", f, 1, 13, length(1), 4),
          call("setsockopt", f, 1, 20, length(1), 4), call("setsockopt", f, 1, 25, BAD, 4), call("setsockopt", f, 1, 26, BAD, 16))
    print(" getsockopt", call("getsockopt", f, 1, 2, BAD, length(4)), call("getsockopt", f, 1, 2, room, BAD), call("getsockopt", f, 1, 2, room, length(-1)),
          call("getsockopt", f, 1, 999, room, length(4)), call("getsockopt", f, 77, 1, room, length(4)), call("getsockopt", f, 6, 999, room, length(4)))
    print(" listen", call("listen", f, -5) if kind[:3] == "udp" else "-", "accept", call("accept", f, BAD, BAD), call("accept4", f, 0, 0, 0x1234))
    print(" shutdown", call("shutdown", f, 7), call("shutdown", f, -1))
    one = iov((room, 4))
    there = addr(9, family=family)
    print(" send", call("sendto", f, room, 4, 0, BAD, size), call("sendto", f, room, 4, 0, there, -1), call("sendto", f, room, 4, 0, there, 300))
    if kind[:3] == "udp":
        print(" sendto", call("sendto", f, BAD, 4, 0, there, size), call("sendto", f, room, 4, 0, 0, 0), call("sendto", f, room, 4, 1, there, size),
              call("sendto", f, room, 4, 0, good, size), call("sendto", f, room, 70000, 0, there, size))
    print(" sendmsg", call("sendmsg", f, BAD, 0), call("sendmsg", f, msg(iov=BAD, iovlen=1), 0), call("sendmsg", f, msg(iov=one, iovlen=2000), 0),
          call("sendmsg", f, msg(name=BAD, namelen=size, iov=one, iovlen=1), 0), call("sendmsg", f, msg(name=good, namelen=-1 & 0xffffffff, iov=one, iovlen=1), 0),
          call("sendmsg", f, msg(name=addr(9, family=family), namelen=size, iov=one, iovlen=1, control=BAD, controllen=24), 0),
          call("sendmsg", f, msg(name=addr(9, family=family), namelen=size, iov=iov((room, -1 & (1 << 64) - 1)), iovlen=1), 0))
    print(" sendmmsg", call("sendmmsg", f, BAD, 1, 0), call("sendmmsg", f, BAD, 0, 0))
    if kind[:3] == "udp": print(" recv", call("recvfrom", f, BAD, 4, 0, 0, 0), call("recvfrom", f, room, 4, 0x40, BAD, BAD), call("recvfrom", f, room, 4, 0x2000, 0, 0))
    print(" recvmsg", call("recvmsg", f, BAD, 0), call("recvmsg", f, msg(iov=BAD, iovlen=1), 0), call("recvmsg", f, msg(iov=one, iovlen=2000), 0))
    print(" recvmmsg", call("recvmmsg", f, BAD, 1, 0, 0), call("recvmmsg", f, BAD, 0, 0, 0), call("recvmmsg", f, room, 1, 0, BAD))
    print(" ioctl", call("ioctl", f, 0x541b, BAD), call("ioctl", f, 0x8912, BAD), call("ioctl", f, 0x8913, BAD), call("ioctl", f, 0x1234, BAD), call("ioctl", f, 0x5421, BAD))
    print(" readv", call("readv", f, BAD, 1), call("writev", f, one, 2000), call("writev", f, BAD, 1), call("readv", f, iov((room, -1 & (1 << 64) - 1)), 1))
print("socket", call("socket", 2, 77, 0), call("socket", 99, 1, 0), call("socket", 2, 1, 17), call("socket", 2, 2, 6), call("socket", 2, 3, 0), call("socket", 2, 1 | 0x40, 0), call("socket", 2, 5, 0), call("socket", 2, 2, 300))
# Datagrams that are there, and places that are not.
a, b = (socket.socket(2, 2) for _ in range(2)); b.bind(("127.0.0.1", 0)); b.setblocking(False)
def there(): a.sendto(b"data", b.getsockname())
f = b.fileno()
for name, what in (("recvfrom", (BAD, 4, 0, 0, 0)), ("recvfrom", (room, 4, 0, BAD, length(16))), ("recvfrom", (room, 4, 0, room, BAD)), ("recvfrom", (room, 4, 0, room, length(-1))),
                   ("recvmsg", (msg(iov=iov((BAD, 4)), iovlen=1), 0)), ("recvmsg", (msg(name=BAD, namelen=16, iov=iov((room, 4)), iovlen=1), 0)),
                   ("recvmsg", (msg(iov=iov((room, 2)), iovlen=1), 0)), ("recvmsg", (msg(iov=iov((room, 2)), iovlen=1), 0x20)), ("read", (BAD, 4)), ("readv", (iov((BAD, 4)), 1))):
    there(); print(name, call(name, f, *what), call("recvfrom", f, room, 100, 0, 0, 0))
# A connection that waits, and no place for its peer's address.
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen(); l.setblocking(False)
for place in (BAD, BAD), (room, BAD), (room, length(-1)), (room, length(1)):
    c = socket.create_connection(l.getsockname()); r = call("accept", l.fileno(), *place)
    print("accept", "ok" if isinstance(r, int) else r, call("accept", l.fileno(), 0, 0)); keep.append(c)
# Sums of lengths, times, and control messages.
f = b.fileno()
most = (1 << 63) - 1
for parts in ((room, most), (room, most)), ((room, 1 << 31), (room, 1 << 31)), ((room, 40000), (room, 40000)):
    print("sendmsg", call("sendmsg", f, msg(name=addr(9), namelen=16, iov=iov(*parts), iovlen=2), 0))
span = lambda seconds, rest: buf(struct.pack("=qq", seconds, rest))
one = iov((room, 4))
several = buf(bytes(msg(iov=one, iovlen=1)) * 2)
for limit in span(-1, 0), span(0, 1 << 40), span(0, -1), span(1, 0):
    there(); print("recvmmsg", call("recvmmsg", f, several, 1, 0x40, limit), call("recvfrom", f, room, 100, 0, 0, 0))
b.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO
for control in BAD, room:
    m = msg(iov=one, iovlen=1, control=control, controllen=64)
    there(); print("recvmsg", call("recvmsg", f, m, 0), struct.unpack_from("=Q", m, 40)[0] > 0, call("recvfrom", f, room, 100, 0, 0, 0))
# Another thread ends the wait for a connection.
import threading, time
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen(); ended = []
t = threading.Thread(target=lambda: ended.append(call("accept", l.fileno(), 0, 0))); t.start()
while open(f"/proc/self/task/{t.native_id}/stat").read().rsplit(")", 1)[1].split()[0] == "R": time.sleep(0.01)
time.sleep(0.1); l.shutdown(socket.SHUT_RDWR); t.join(); print("accept", ended)
# More than a call takes at once.
l = socket.create_server(("127.0.0.1", 0)); data = os.urandom(3 << 20); got = []
def read():
    c, _ = l.accept()
    while part := c.recv(1 << 20): got.append(part)
t = threading.Thread(target=read); t.start()
c = socket.socket(); sent = c.sendto(data, socket.MSG_FASTOPEN, l.getsockname()); sent += c.sendto(data[sent:], ("127.0.0.1", 9)) if sent < len(data) else 0
c.sendall(data[sent:]); c.shutdown(socket.SHUT_WR); t.join(); print("sendto", b"".join(got) == data)
