#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records conversations of two real hosts: examples/on-linux.sh python3 record.py

Two namespaces of Linux 6.1 talk over a veth pair. Everything on the link of the first goes to NAME.pcap
beside this file, one capture for each function below. Only `out_of_window` adds segments of its own.
"""
import ctypes, os, select, socket, struct, subprocess, sys, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
LIBC = ctypes.CDLL(None, use_errno=True)
TCP_REPAIR = 19
A, B = ("10.1.0.1", "10.1.0.2")
A6, B6 = ("fd01::1", "fd01::2")


def run(command):
    subprocess.run(command, shell=True, check=True)


def enter(ns):
    with open(f"/run/netns/{ns}") as file:
        if LIBC.setns(file.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")


def make(ns, kind=socket.SOCK_STREAM, family=socket.AF_INET, protocol=0):
    enter(ns)
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.settimeout(5)
    return made


def listen(port, address=B, family=socket.AF_INET):
    made = make("b", family=family)
    made.bind((address, port))
    made.listen()
    return made


def connect(local, port, address=A, peer=B, family=socket.AF_INET):
    made = make("a", family=family)
    made.bind((address, local))
    made.connect((peer, port))
    return made


def pair(local, port):
    listener = listen(port)
    client = connect(local, port)
    server, _ = listener.accept()
    server.settimeout(5)
    listener.close()
    return client, server


def read(sock, length):
    while length > 0:
        data = sock.recv(length)
        if not data:
            raise EOFError
        length -= len(data)


def talk(client, server):
    client.sendall(b"q" * 100)
    read(server, 100)
    server.sendall(b"a" * 4000)
    read(client, 4000)
    time.sleep(0.1)


def end(first, second):
    first.shutdown(socket.SHUT_WR)
    time.sleep(0.05)
    second.close()
    time.sleep(0.05)
    first.close()


def forget(sock):
    """Closes a connection without a segment, as a host that crashes does."""
    sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    sock.close()


def orderly():
    client, server = pair(40001, 80)
    talk(client, server)
    end(client, server)


def server_first():
    client, server = pair(40002, 80)
    talk(client, server)
    end(server, client)


def both_close():
    client, server = pair(40003, 80)
    talk(client, server)
    client.shutdown(socket.SHUT_WR)
    server.shutdown(socket.SHUT_WR)
    time.sleep(0.1)
    client.close()
    server.close()


def reset():
    client, server = pair(40004, 80)
    talk(client, server)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    time.sleep(0.05)
    server.close()


def refused():
    try:
        connect(40005, 81)
    except ConnectionRefusedError:
        pass


def unanswered():
    run("tc -n b filter add dev v1 ingress protocol ip pref 1 flower ip_proto tcp dst_port 82 action drop")
    client = make("a")
    client.settimeout(3.5)
    client.bind((A, 40006))
    try:
        client.connect((B, 82))
    except (TimeoutError, socket.timeout):
        pass
    forget(client)
    run("tc -n b filter del dev v1 ingress pref 1")


def half_open():
    """The client crashes and comes back with the same port, while the server still is connected."""
    listener = listen(80)
    client = connect(40007, 80)
    server, _ = listener.accept()
    talk(client, server)
    forget(client)
    client = connect(40007, 80)
    second, _ = listener.accept()
    talk(client, second)
    end(client, second)
    listener.close()


def gone():
    """The server crashes. The client's next segment is answered with a reset."""
    client, server = pair(40008, 80)
    talk(client, server)
    forget(server)
    client.sendall(b"are you there")
    time.sleep(0.1)
    client.close()


def simultaneous_open():
    left, right = make("a"), make("b")
    left.bind((A, 40009))
    right.bind((B, 40109))
    left.setblocking(False)
    right.setblocking(False)
    left.connect_ex((B, 40109))
    right.connect_ex((A, 40009))
    select.select([], [left], [], 5)
    select.select([], [right], [], 5)
    left.settimeout(5)
    right.settimeout(5)
    time.sleep(0.1)
    talk(left, right)
    end(left, right)


def retransmission():
    """The first segment of data is lost behind the point of capture, and sent again."""
    client, server = pair(40010, 80)
    run("tc -n b filter add dev v1 ingress protocol ip pref 1 flower ip_proto tcp dst_port 80 action drop")
    client.sendall(b"q" * 100)
    time.sleep(0.1)
    run("tc -n b filter del dev v1 ingress pref 1")
    read(server, 100)
    server.sendall(b"a" * 4000)
    read(client, 4000)
    time.sleep(0.1)
    end(client, server)


def retransmissions():
    """Nothing that the client sends arrives: it tries four times and gives up."""
    client, server = pair(40011, 80)
    talk(client, server)
    run("tc -n b filter add dev v1 ingress protocol ip pref 1 flower ip_proto tcp dst_port 80 action drop")
    client.sendall(b"q" * 100)
    time.sleep(4)
    forget(client)
    forget(server)
    run("tc -n b filter del dev v1 ingress pref 1")


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def out_of_window():
    """A stranger guesses numbers: a segment far ahead, one far behind, an acknowledgement of bytes
    that were never sent, and a reset far ahead."""
    client, server = pair(40012, 80)
    talk(client, server)
    # The last segment of the client has the numbers.
    last = [f for _, f in FRAMES if f[26:30] == socket.inet_aton(A) and f[34:38] == struct.pack(">HH", 40012, 80)][-1]
    seq, ack = struct.unpack(">II", last[38:46])
    enter("a")
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    raw.bind(("v0", 0))
    for seq, ack, flags, data in [
        (seq + 10_000_000, ack, 0x18, b"x" * 10),
        (seq - 10_000_000, ack, 0x18, b"x" * 10),
        (seq, ack + 10_000_000, 0x18, b"x" * 10),
        (seq + 10_000_000, 0, 0x04, b""),
    ]:
        tcp = struct.pack(">HHIIBBHHH", 40012, 80, seq % 2**32, ack % 2**32, 0x50, flags, 500, 0, 0) + data
        pseudo = last[26:34] + struct.pack(">HH", 6, len(tcp))
        tcp = tcp[:16] + struct.pack(">H", checksum(pseudo + tcp)) + tcp[18:]
        ip = last[14:16] + struct.pack(">H", 20 + len(tcp)) + last[18:24] + b"\0\0" + last[26:34]
        ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
        raw.send(last[:14] + ip + tcp)
        time.sleep(0.05)
    talk(client, server)
    end(client, server)


def time_wait():
    """The server closes first, and the client calls again from the same port within its TIME_WAIT."""
    listener = listen(80)
    for _ in range(2):
        client = connect(40013, 80)
        server, _ = listener.accept()
        server.settimeout(5)
        talk(client, server)
        end(server, client)
        time.sleep(1.1)
    listener.close()


def udp():
    client, server = make("a", socket.SOCK_DGRAM), make("b", socket.SOCK_DGRAM)
    client.bind((A, 40020))
    server.bind((B, 53))
    client.sendto(b"q" * 30, (B, 53))
    server.recvfrom(100)
    server.sendto(b"a" * 90, (A, 40020))
    client.recvfrom(100)
    time.sleep(2.5)
    for _ in range(2):
        client.sendto(b"q" * 30, (B, 53))
        server.recvfrom(100)
        server.sendto(b"a" * 90, (A, 40020))
        client.recvfrom(100)
    client.close()
    server.close()


def udp_once():
    client = make("a", socket.SOCK_DGRAM)
    server = make("b", socket.SOCK_DGRAM)
    server.bind((B, 54))
    client.bind((A, 40021))
    client.sendto(b"q" * 30, (B, 54))
    server.recvfrom(100)


def unreachable():
    client = make("a", socket.SOCK_DGRAM)
    client.bind((A, 40022))
    client.sendto(b"q" * 30, (B, 55))
    time.sleep(0.2)


def ping():
    run(f"ip netns exec a ping -q -c 2 -i 0.3 -e 77 {B} >/dev/null")


def ping6():
    run(f"ip netns exec a ping -q -c 2 -i 0.3 -e 78 {B6} >/dev/null")


def orderly6():
    listener = listen(80, B6, socket.AF_INET6)
    client = connect(40030, 80, A6, B6, socket.AF_INET6)
    server, _ = listener.accept()
    talk(client, server)
    end(client, server)
    listener.close()


def udp6():
    client = make("a", socket.SOCK_DGRAM, socket.AF_INET6)
    server = make("b", socket.SOCK_DGRAM, socket.AF_INET6)
    client.bind((A6, 40031))
    server.bind((B6, 53))
    client.sendto(b"q" * 30, (B6, 53))
    server.recvfrom(100)
    server.sendto(b"a" * 90, (A6, 40031))
    client.recvfrom(100)


def wanted(frame):
    """Everything but ARP and neighbour discovery."""
    if frame[12:14] == b"\x08\0":
        return True
    return frame[12:14] == b"\x86\xdd" and not (frame[20] in (0, 58) and frame[54] not in (1, 2, 3, 4, 128, 129))


FRAMES = []


def capture(tap, stop):
    while not stop.is_set() or select.select([tap], [], [], 0)[0]:
        if select.select([tap], [], [], 0.05)[0]:
            frame = tap.recv(65536)
            if wanted(frame):
                FRAMES.append((time.time(), frame))


def main():
    for ns, other in (("a", "b"), ("b", "a")):
        run(f"ip netns add {ns}")
    run("ip link add v0 address 02:00:00:00:00:01 netns a type veth peer v1 address 02:00:00:00:00:02 netns b")
    for ns, dev, end in (("a", "v0", "1"), ("b", "v1", "2")):
        run(f"ip -n {ns} link set lo up; ip -n {ns} link set {dev} up; ip -n {ns} addr add 10.1.0.{end}/24 dev {dev}")
        run(f"ip -n {ns} addr add fd01::{end}/64 dev {dev} nodad")
        run(f"ip netns exec {ns} ethtool -K {dev} tx off tso off gso off gro off >/dev/null")
        run(f"tc -n {ns} qdisc add dev {dev} root netem delay 5ms limit 1000; tc -n {ns} qdisc add dev {dev} clsact")
    time.sleep(2)
    run(f"ip netns exec a ping -q -c 1 {B} >/dev/null; ip netns exec a ping -q -c 1 {B6} >/dev/null")
    conversations = [
        orderly, server_first, both_close, reset, refused, unanswered, half_open, gone, simultaneous_open,
        retransmission, retransmissions, out_of_window, time_wait, udp, udp_once, unreachable, ping, ping6,
        orderly6, udp6,
    ]
    for conversation in conversations:
        FRAMES.clear()
        enter("a")
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        tap.bind(("v0", 3))
        stop = threading.Event()
        thread = threading.Thread(target=capture, args=(tap, stop))
        thread.start()
        try:
            conversation()
            time.sleep(0.2)
        finally:
            stop.set()
            thread.join()
            tap.close()
        name = conversation.__name__.replace("_", "-")
        first = FRAMES[0][0]
        with open(f"{HERE}/{name}.pcap", "wb") as out:
            out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
            for at, frame in FRAMES:
                ms = round((at - first) * 1000)
                out.write(struct.pack("<IIII", ms // 1000, ms % 1000 * 1000, len(frame), len(frame)) + frame)
        print(name, len(FRAMES))


main()
