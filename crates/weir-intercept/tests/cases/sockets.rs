// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs with internet sockets, in the network of [`crate::stand_in`].
use super::{Case, DEFAULT};

/// Every call on a datagram socket.
pub const DATAGRAMS: Case = Case {
        name: "datagram-sockets",
        needs: &["python3"],
        script: "exec python3 -c '
import array, errno, fcntl, os, select, signal, socket, struct, threading, time
def tried(what):
    try: print(what())
    except OSError as e: print(errno.errorcode.get(e.errno, e))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
there = (\"10.0.0.9\", 53)
print(u.getsockname(), u.family == socket.AF_INET, u.type == socket.SOCK_DGRAM, u.getsockopt(1, 38))
u.bind((\"10.0.0.1\", 99)); print(u.getsockname()); tried(u.getpeername)
print(u.sendto(b\"hello\", there), select.select([u], [u], [], 1)[0] == [u], array.array(\"i\", fcntl.ioctl(u, 0x541b, b\"\\0\" * 4))[0])
print(u.recvfrom(3, socket.MSG_PEEK), len(u.recvfrom(3, socket.MSG_TRUNC | socket.MSG_PEEK)[0]), u.recvmsg(3)[2] == socket.MSG_TRUNC)
tried(lambda: u.recvfrom(3, socket.MSG_DONTWAIT))
print(u.sendmsg([b\"a\", b\"bc\"], [], 0, there), u.recvmsg_into([bytearray(1), bytearray(9)])[0])
u.settimeout(0.05); tried(lambda: u.recv(1)); u.settimeout(None)
u.setsockopt(1, 20, struct.pack(\"ll\", 0, 50000)); tried(lambda: u.recv(1)); u.setsockopt(1, 20, struct.pack(\"ll\", 0, 0))
threading.Timer(.05, lambda: u.sendto(b\"late\", there)).start(); print(u.recvfrom(9))
def bell(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, bell); signal.setitimer(signal.ITIMER_REAL, .05)
try: u.recv(1)
except KeyboardInterrupt: print(\"interrupted\")
u.connect(there); print(u.getpeername(), u.send(b\"12\"), os.write(u.fileno(), b\"345\"), os.read(u.fileno(), 9), u.recv(9))
u.connect((\"10.0.0.9\", 2)); u.send(b\"x\"); print(select.select([u], [], [], 1)[0] == [u])
p = select.poll(); p.register(u, select.POLLIN); print([e for _, e in p.poll(1000)]); tried(lambda: u.recv(9))
u.setsockopt(0, 1, 16); print(u.getsockopt(0, 1))
d = u.dup(); d.connect(there); d.send(b\"dup\"); print(d.fileno() >= 512, d.recv(9), flush=True)
pid = os.fork()
if pid == 0: d.send(b\"child\"); print(u.recv(9), flush=True); os._exit(0)
os.waitpid(pid, 0)
many = [socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) for _ in range(300)]; print(len(many), many[9].getsockname())
many = None
import resource; hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
if hard >= 30000:
    resource.setrlimit(resource.RLIMIT_NOFILE, (30000, hard))
    many = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(10000)]
    many[9999].sendto(b\"last\", there); assert many[9999].recv(9) == b\"last\"
    assert len({s.fileno() for s in many}) == 10000 and min(s.fileno() for s in many) >= 512
    for s in many: s.close()
    many = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(500)]
tried(lambda: u.sendto(b\"x\", (\"1.1.1.1\", 1)))
import ctypes; libc = ctypes.CDLL(None, use_errno=True)
def call(n, *a): return errno.errorcode.get(ctypes.get_errno()) if libc.syscall(n, *map(ctypes.c_long, a)) < 0 else 0
f = u.fileno()
print(call(44, f, 8, 9, 0, 0, 0), call(44, f, 0, 0, 0, 8, 16), call(44, f, 0, 0, 0, 8, 999), call(46, f, 8, 0), call(45, f, 8, 9, 0x40, 0, 0), call(49, f, 8, 16), call(42, f, 8, -1), call(54, f, 0, 1, 8, 4), call(55, f, 0, 1, 8, 8), call(1, f, 8, 4))
'",
        prints: "('0.0.0.0', 0) True True 17\n('10.0.0.1', 99)\nENOTCONN\n5 True 5\n\
                 (b'hel', ('10.0.0.9', 53)) 5 True\nEAGAIN\n3 3\ntimed out\nEAGAIN\n\
                 (b'late', ('10.0.0.9', 53))\ninterrupted\n('10.0.0.9', 53) 2 3 b'12' b'345'\nTrue\n[8]\nECONNREFUSED\n16\n\
                 True b'dup'\nb'child'\n300 ('::', 0, 0, 0)\nENETUNREACH\n\
                 EFAULT EFAULT EINVAL EFAULT EAGAIN EFAULT EINVAL EFAULT EFAULT EFAULT",
        ..DEFAULT
    };

/// Streams: connect, accept and data, with and without blocking.
pub const STREAMS: Case = Case {
        name: "stream-sockets",
        needs: &["python3"],
        script: "exec python3 -c '
import errno, os, select, socket, threading
def tried(what):
    try: print(what())
    except OSError as e: print(errno.errorcode.get(e.errno, e))
s = socket.create_connection((\"10.0.0.9\", 80)); s.sendall(b\"at once\"); print(s.recv(99), s.getpeername()); s.shutdown(socket.SHUT_WR); print(s.recv(9))
s = socket.create_connection((\"10.0.0.9\", 7)); s.sendall(b\"later\"); print(s.recv(99))
s = socket.socket(); s.setblocking(False); print(errno.errorcode[s.connect_ex((\"10.0.0.9\", 7))])
tried(lambda: s.send(b\"x\")); print(select.select([], [s], [], 0)[1], select.select([], [s], [], 2)[1] == [s], s.getsockopt(1, 4))
s.send(b\"non-blocking\"); select.select([s], [], [], 2); print(s.recv(99))
l = socket.socket(); l.bind((\"10.0.0.1\", 80)); l.listen(); l.setblocking(False); tried(l.accept); print(select.select([l], [], [], 2)[0] == [l])
c, a = l.accept(); print(a, c.getpeername()); c.setblocking(True); c.sendall(b\"accepted\"); print(c.recv(99)); tried(l.accept)
l = socket.socket(); l.listen(); c, a = l.accept(); c.sendall(b\"waited\"); print(c.recv(99))
l.settimeout(.05); tried(l.accept)
'",
        prints: "b'at once' ('10.0.0.9', 80)\nb''\nb'later'\nEINPROGRESS\nEAGAIN\n[] True 0\nb'non-blocking'\nEAGAIN\nTrue\n\
                 ('10.0.0.9', 9) ('10.0.0.9', 9)\nb'accepted'\nEAGAIN\nb'waited'\ntimed out",
        ..DEFAULT
    };
