# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Multiple spanning trees of a bridge by raw requests, since iproute2 6.1 has no words for them: `mst_enable`, instances
of VLANs and states of ports. Prints the answers, what listeners hear, and the states."""
import socket
import struct
import subprocess

NEWLINK, DELLINK, GETLINK, SETLINK, NEWVLAN, DELVLAN, GETVLAN = 16, 17, 18, 19, 112, 113, 114
REQUEST, ACK, DUMP, NESTED = 1, 4, 0x300, 0x8000
AF_BRIDGE, LINK, BRVLAN = 7, 1, 33
LINKINFO, AF_SPEC, EXT_MASK, IFNAME = 18, 26, 29, 3
MULTI_BOOLOPT, MST_BIT, BRIDGE_MST = 46, 4, 6
GLOBAL_OPTIONS, MSTI = 2, 18


def attr(ty, data):
    return struct.pack("=HH", 4 + len(data), ty) + data + bytes(-len(data) % 4)


def attrs(data):
    found = []
    while len(data) >= 4:
        size, ty = struct.unpack_from("=HH", data)
        if size < 4:
            break
        found.append((ty & 0x3FFF, data[4:size]))
        data = data[(size + 3) & ~3 :]
    return found


def index(name):
    return socket.if_nametoindex(name)


def info(family, name):
    return struct.pack("=BxHiII", family, 0, index(name) if name else 0, 0, 0)


hears = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
hears.bind((0, 0))
for group in (LINK, BRVLAN):
    hears.setsockopt(270, 1, group)
hears.settimeout(0.2)


def messages(data):
    while len(data) >= 16:
        size, ty = struct.unpack_from("=IH", data)
        yield ty, data[16:size]
        data = data[(size + 3) & ~3 :]


def heard():
    while True:
        try:
            data = hears.recv(1 << 16)
        except OSError:
            return
        for ty, body in messages(data):
            if ty in (NEWVLAN, DELVLAN):
                print("  heard vlan", ty, [options(value) for kind, value in attrs(body[8:]) if kind == GLOBAL_OPTIONS])
            elif body[0] == AF_BRIDGE:
                print("  heard link", ty, dict(attrs(body[16:]))[IFNAME].rstrip(b"\0").decode())


def ask(text, ty, body, flags=ACK):
    if text:
        print("+", text)
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    for option in (10, 11):  # NETLINK_CAP_ACK, NETLINK_EXT_ACK
        sock.setsockopt(270, option, 1)
    sock.send(struct.pack("=IHHII", 16 + len(body), ty, REQUEST | flags, 1, 0) + body)
    found = []
    while True:
        for ty, body in messages(sock.recv(1 << 16)):
            if ty == 2:
                error = struct.unpack_from("=i", body)[0]
                texts = [value.rstrip(b"\0").decode() for kind, value in attrs(body[20:]) if kind == 1]
                if error:
                    print("  errno", -error, *texts)
            if ty in (2, 3):
                if text:
                    heard()
                return found
            found.append(body)


def enable(name, on):
    bits = struct.pack("=II", MST_BIT if on else 0, MST_BIT)
    kind = attr(1, b"bridge\0") + attr(2 | NESTED, attr(MULTI_BOOLOPT, bits))
    ask(f"mst_enable {on} {name}", NEWLINK, info(0, name) + attr(LINKINFO | NESTED, kind))


def msti(name, first, last, number):
    body = attr(1, struct.pack("=H", first)) + attr(MSTI, struct.pack("=H", number))
    if last:
        body += attr(2, struct.pack("=H", last))
    text = f"vlan global set dev {name} vid {first}-{last or first} msti {number}"
    ask(text, NEWVLAN, struct.pack("=BBHI", AF_BRIDGE, 0, 0, index(name)) + attr(GLOBAL_OPTIONS | NESTED, body))


def entry(number, state):
    body = b"" if number is None else attr(1, struct.pack("=H", number))
    body += b"" if state is None else attr(2, struct.pack("=B", state))
    return attr(1 | NESTED, body)


def set_state(name, *entries, ty=SETLINK):
    spec = b"".join(entry(*one) for one in entries)
    # On the bridge itself, what is meant for it is said so.
    flags = attr(0, struct.pack("=H", 2)) if name == "br0" else b""
    text = f"mst {'set' if ty == SETLINK else 'delete'} dev {name} {entries}"
    ask(text, ty, info(AF_BRIDGE, name) + attr(AF_SPEC | NESTED, flags + attr(BRIDGE_MST | NESTED, spec)))


def options(body):
    found = dict(attrs(body))
    return tuple(struct.unpack("=H", found[ty])[0] for ty in (1, 2, MSTI) if ty in found)


def show():
    print("+ show")
    for body in ask("", GETLINK, info(AF_BRIDGE, "") + attr(EXT_MASK, struct.pack("=I", 128)), DUMP):
        found = dict(attrs(body[16:]))
        states = []
        for ty, value in attrs(found.get(AF_SPEC, b"")):
            for _, one in attrs(value):
                one = dict(attrs(one))
                states.append((struct.unpack("=H", one[1])[0], one[2][0]))
        print(" ", found[IFNAME].rstrip(b"\0").decode(), "has" if AF_SPEC in found else "has no", "spec", states)
    for body in ask("", GETVLAN, struct.pack("=BBHI", AF_BRIDGE, 0, 0, 0) + attr(1, struct.pack("=I", 2)), DUMP):
        print("  vlans", [options(value) for kind, value in attrs(body[8:]) if kind == GLOBAL_OPTIONS])
    for body in ask("", GETLINK, info(0, "br0"), ACK)[:1]:
        data = dict(attrs(dict(attrs(dict(attrs(body[16:]))[LINKINFO]))[2]))
        print("  options", struct.unpack("=II", data[MULTI_BOOLOPT]))


def sh(command):
    print("+", command, flush=True)
    subprocess.run(command, shell=True)
    heard()


sh("ip link add br0 address 02:00:00:00:00:10 type bridge vlan_filtering 1")
for n in range(3):
    subprocess.run(f"ip link add d{n} address 02:00:00:00:00:0{n + 1} type dummy", shell=True)
sh("ip link set d0 up; ip link set br0 up; ip link set d0 master br0; ip link set d1 master br0; sleep 1")
show()
enable("br0", 1)
enable("br0", 0)
set_state("d0", (1, 3))
sh("ip link set br0 type bridge vlan_default_pvid 0")
enable("br0", 1)
enable("br0", 1)
show()
sh("bridge vlan add dev d0 vid 10-14; bridge vlan add dev d1 vid 12; bridge vlan add dev d1 vid 20; bridge vlan add dev br0 vid 10-11 self")
sh("bridge -d vlan show")
show()
sh("bridge vlan set dev d0 vid 10 state 4")
sh("bridge vlan set dev br0 vid 10 state 4 self")
msti("br0", 12, 13, 5)
msti("br0", 12, 13, 5)
msti("br0", 14, 0, 6)
msti("br0", 14, 0, 4095)
msti("br0", 14, 0, 4096)
msti("br0", 19, 20, 7)
msti("br0", 20, 21, 7)
msti("d0", 10, 0, 7)
show()
sh("bridge -d vlan show")
set_state("d0", (5, 3))
set_state("d0", (5, 3))
set_state("d0", (4095, 1), (5, 2), (99, 3))
set_state("d0", (0, 3))
set_state("d0", (4096, 3))
set_state("d0", (5, 5))
set_state("d0", (5, None))
set_state("d0", (None, 3))
set_state("d0")
set_state("d2", (5, 3))
set_state("br0", (5, 3))
set_state("d0", (5, 3), ty=DELLINK)
show()
sh("bridge vlan add dev d1 vid 13; bridge vlan add dev d1 vid 10")
show()
sh("bridge -d vlan show dev d1")
msti("br0", 14, 0, 5)
msti("br0", 13, 0, 0)
sh("bridge -d vlan show dev d0")
sh("bridge link set dev d0 state 1")
sh("bridge -d vlan show dev d0")
sh("bridge link set dev d0 state 3")
sh("ip link set d1 up; sleep 1")
sh("bridge -d vlan show")
sh("ip link set d0 down; sleep 1")
show()
msti("br0", 10, 14, 0)
sh("bridge -d vlan show")
sh("ip link set d0 up; sleep 1")
sh("bridge -d vlan show")
enable("br0", 0)
sh("ip link set br0 type bridge stp_state 1")
sh("bridge vlan set dev d0 vid 10 state 4")
sh("ip link set br0 type bridge stp_state 0")
sh("bridge vlan del dev d0 vid 10-14; bridge vlan del dev d1 vid 10-14; bridge vlan del dev d1 vid 20")
enable("br0", 0)
show()
sh("bridge vlan add dev d0 vid 10")
msti("br0", 10, 0, 3)
sh("bridge -d vlan show dev d0")
show()
