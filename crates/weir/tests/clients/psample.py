# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A client of generic netlink's psample, written like those for the kernel: resolves the family, joins its
groups, and prints the messages. It prints the same on Linux 6.1: there FRAMES, hexadecimal, are sent into
the device's peer; inside Weir (WEIR is its binary) they come from a capture.

Usage: psample.py FRAME...
"""
import os, socket, struct, subprocess, sys

ATTRIBUTES = "iif oif size group seq rate data refs tunnel pad tc occ latency time proto".split()


def attributes(data):
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        yield kind & 0x3fff, data[at + 4:at + length]
        at += (length + 3) & ~3


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def send(s, kind, flags, command, data=b""):
    s.send(struct.pack("=IHHII", 20 + len(data), kind, flags, 7, 0) + struct.pack("=BBH", command, 1, 0) + data)


def messages(s):
    data, at = s.recv(1 << 17), 0
    while at < len(data):
        length, kind, flags, _, _ = struct.unpack_from("=IHHII", data, at)
        yield kind, data[at + 16:at + length]
        at += (length + 3) & ~3


def shown(body):
    words = [f"command {body[0]}"]
    for number, value in attributes(body[4:]):
        if number == 9:  # PAD, with which some kernels align the time
            continue
        text = value.hex() if number == 6 else "..." if number == 13 else int.from_bytes(value, sys.byteorder)
        words.append(f"{ATTRIBUTES[number]} {text}")
    return " ".join(words)


def run(command):
    print("$", command, flush=True)
    subprocess.run(command, shell=True, check=True)


real = "WEIR" not in os.environ
SETUP = """sysctl -qw net.ipv6.conf.default.disable_ipv6=1
ip link add d0 type veth peer name pd0 && ip link set d0 up && ip link set pd0 up && tc qdisc add dev d0 clsact"""
subprocess.run(SETUP, shell=True, check=True)
with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16) as s:
    s.bind((0, 0))
    s.settimeout(120)
    send(s, 16, 1, 3, attribute(2, b"nosuch\0"))
    (kind, body), = messages(s)
    print("nosuch:", kind, os.strerror(-struct.unpack_from("=i", body)[0]))
    send(s, 16, 1, 3, attribute(2, b"psample\0"))
    (kind, body), = messages(s)
    family = dict(attributes(body[4:]))
    number = struct.unpack("=H", family[1])[0]
    groups = {}
    for _, group in attributes(family[7]):
        group = dict(attributes(group))
        groups[group[1].rstrip(b"\0").decode()] = struct.unpack("=I", group[2])[0]
    print(family[2].rstrip(b"\0").decode(), "version", family[3][0], "groups", sorted(groups))
    for group in groups.values():
        s.setsockopt(270, 1, group)

    run("tc filter add dev d0 ingress matchall action sample rate 1 group 5 trunc 20")
    run("tc filter add dev d0 egress matchall action sample rate 1 group 6")
    for _ in range(2):
        for kind, body in messages(s):
            print("heard", shown(body))
    send(s, number, 0x301, 1)
    done = False
    while not done:
        for kind, body in messages(s):
            done |= kind == 3
            if kind == number:
                print("dump", shown(body))
    if real:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as p:
            for frame in sys.argv[1:]:
                p.sendto(bytes.fromhex(frame), ("pd0", 0))
    else:
        subprocess.run([os.environ["WEIR"], "play"], check=True, stdout=subprocess.DEVNULL)
    for _ in sys.argv[1:]:
        for kind, body in messages(s):
            print("heard", shown(body))
    run("tc filter del dev d0 ingress")
    for kind, body in messages(s):
        print("heard", shown(body))
