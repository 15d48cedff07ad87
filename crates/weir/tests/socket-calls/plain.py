# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Datagram sockets at numbers that programs choose (dup2, as inetd and bash do) or get (SCM_RIGHTS). Prints what arrives."""
import array, errno, fcntl, os, select, socket, struct, subprocess, sys, termios, time

HERE = "127.0.0.1"
sys.stdout.reconfigure(line_buffering=True)


def tried(what, *arguments):
    try:
        return what(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, error)


def bound(family=socket.AF_INET, address=HERE):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.bind((address, 0))
    return s


def forked(work):
    """Runs work in another process, and waits for its end."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            work()
            sys.stdout.flush()
        except BaseException as error:
            os.write(2, repr(error).encode())
        os._exit(0)
    return pid


def ended(pid):
    os.waitpid(pid, 0)


# A server as inetd starts it: the socket is standard input and output of another program, and was never connected.
SERVER = r"""
import os, socket, struct
s = socket.socket(fileno=0)
data, sender = s.recvfrom(100); s.sendto(b"recvfrom " + data, sender)
data, control, flags, sender = s.recvmsg(100, 100)
s.sendmsg([b"recvmsg ", data, b" %d" % len(control)], [], 0, sender)
data, control, flags, sender = s.recvmsg(3, 100)
s.sendmsg([b"cut ", data, b" %d" % (flags & socket.MSG_TRUNC)], [], 0, sender)
s.settimeout(9); data, sender = s.recvfrom(100); s.sendto(b"waited for " + data, sender)
s.settimeout(None); s.connect(sender)
os.write(1, b"connected " + os.read(0, 100))
os.write(1, b"long " + b"y" * 300)
data = s.recv(100); s.send(b"recv %d" % len(data)); s.send(b"")
os.write(1, b"names %d %d" % (s.getsockname()[1] == PORT, s.getpeername()[1] == sender[1]))
"""
for family, address in (socket.AF_INET, HERE), (socket.AF_INET6, "::1"):
    server, client = bound(family, address), bound(family, address)
    # What is there before the number.
    client.sendto(b"early", server.getsockname())
    port = server.getsockname()[1]
    if family == socket.AF_INET:
        server.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO

    def serve():
        os.dup2(server.fileno(), 0)
        os.dup2(server.fileno(), 1)
        os.close(server.fileno())
        os.execv(sys.executable, [sys.executable, "-c", SERVER.replace("PORT", str(port))])

    pid = forked(serve)
    server.close()
    there = (address, port)
    client.settimeout(30)
    print(client.recv(100))
    for data in b"second", b"third", b"fourth", b"fifth":
        client.sendto(data, there)
        print(client.recv(400)[:40])
    print(len(client.recv(400)))
    client.sendto(b"", there)
    print([client.recv(400) for _ in range(3)])
    ended(pid)
    time.sleep(0.1)
    client.connect(there)
    tried(client.send, b"x")
    print("gone", tried(client.recv, 9))

# bash's /dev/udp
peer = bound()
peer.settimeout(30)
port = peer.getsockname()[1]
script = f"""exec 3<>/dev/udp/{HERE}/{port}; echo first >&3; printf second >&3
exec 4>&3; echo fourth >&4; dd bs=100 count=1 <&3 2> /dev/null; dd bs=100 count=1 <&4 2> /dev/null
echo whole > /dev/udp/{HERE}/{port}; head -c 5 /dev/zero | tr '\\0' z >&3"""
shell = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE)
for number in range(3):
    data, sender = peer.recvfrom(99)
    print(data)
peer.sendto(b"answer\n", sender)
peer.sendto(b"another\n", sender)
print([peer.recv(99) for _ in range(2)], shell.communicate()[0])

# SCM_RIGHTS, with the original closed, and with the original in use.
for keeps in False, True:
    server, client = bound(), bound()
    client.settimeout(30)
    there = server.getsockname()
    one, other = socket.socketpair()

    def receive():
        one.close()
        fds = array.array("i", other.recvmsg(1, socket.CMSG_SPACE(4))[1][0][2])
        s = socket.socket(fileno=fds[0])
        print("passed", s.family == socket.AF_INET, s.type == socket.SOCK_DGRAM, s.getsockname() == there)
        s.settimeout(30)
        for _ in range(2):
            data, sender = s.recvfrom(100)
            s.sendto(data.upper(), sender)
        s.connect(sender)
        s.settimeout(None)
        os.write(s.fileno(), b"written " + os.read(s.fileno(), 100))
        s.send(b"sent " + s.recv(100))
        p = select.poll()
        p.register(s, select.POLLIN)
        other.send(repr((p.poll(0), tried(s.recv, 9, socket.MSG_DONTWAIT))).encode())
        other.recv(1)

    pid = forked(receive)
    other.close()
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [server.fileno()]))])
    if not keeps:
        server.close()
    for data in b"one", b"two", b"three", b"four":
        client.sendto(data, there)
        print(client.recv(100))
    print("nothing", one.recv(99))
    if keeps:
        client.sendto(b"kept", there)
        print(server.recvfrom(100) == (b"kept", client.getsockname()))
        client.sendto(b"longer", there)
        print(struct.unpack("i", fcntl.ioctl(server, termios.FIONREAD, bytes(4))), server.recv(2, socket.MSG_PEEK), server.recvmsg(100, 100)[:3])
    one.close()
    ended(pid)
    print("free", tried(bound, socket.AF_INET) is not None)

# A duplicate onto itself, wrong numbers, a raw socket.
s = bound()
print(os.dup2(s.fileno(), s.fileno()) == s.fileno(), tried(os.dup2, s.fileno(), 1 << 30))
saved = os.dup(0)
os.dup2(s.fileno(), 0)
os.close(s.detach())
s = socket.socket(fileno=0)
print(s.getsockname()[0], s.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE))
s.sendto(b"self", s.getsockname())
print(os.read(0, 9))
s.detach()
os.dup2(saved, 0)
