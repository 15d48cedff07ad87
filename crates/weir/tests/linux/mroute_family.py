# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What multicast routing daemons of IPv4 and of IPv6 (argument 6) do differently; see mroute.py and mroute-netlink.py.

Scripts name addresses as those of IPv4. In IPv6, 10.0.1.2 stands for fc00:1::2, 225.1.2.3 for ff05::1:2:3 and 224.0.0.9 for
ff02::9; a local address stands for the index of its device.
"""
import errno
import fcntl
import socket
import struct
import sys

V6 = sys.argv[1:] == ["6"]
INIT, DONE, ADD_VIF, DEL_VIF, ADD_MFC, DEL_MFC, VERSION, ASSERT, PIM, TABLE, ADD_PROXY, DEL_PROXY, FLUSH = range(200, 213)
# VIFF_*, MIFF_*; IPv6 has no tunnels as VIFs.
TUNNEL, SRCRT, REGISTER = (2, 2, 1) if V6 else (1, 2, 4)
IFINDEX = 0 if V6 else 8
VIFCNT, SGCNT = 0x89E0, 0x89E1
DEVICES = "abcd"
FAMILY = socket.AF_INET6 if V6 else socket.AF_INET
LEVEL = 41 if V6 else 0
PROTOCOL, OTHER = (58, 2) if V6 else (socket.IPPROTO_IGMP, socket.IPPROTO_ICMP)
ETHERTYPE = 0x86DD if V6 else 0x0800
HEADER = 40 if V6 else 20
FILES = ("ip6_mr_vif", "ip6_mr_cache") if V6 else ("ip_mr_vif", "ip_mr_cache")
CONF = "/proc/sys/net/ipv6/conf" if V6 else "/proc/sys/net/ipv4/conf"
# The length of a struct mfcctl or mf6cctl, of an MTU that is less than that of Ethernet, and of packets that exceed it.
ENTRY, MTU, LONG = (92, 1300, 1400) if V6 else (60, 600, 1000)


def text(name):
    """The address that a script's name stands for."""
    if not V6:
        return name
    if name == "0.0.0.0":
        return "::"
    first, second, third, fourth = name.split(".")
    if first == "10":
        return f"fc00:{third}::{fourth}"
    return f"ff02::{fourth}" if first == "224" else f"ff05::{second}:{third}:{fourth}"


def address(name):
    return socket.inet_pton(FAMILY, text(name))


def shown(data):
    return socket.inet_ntop(FAMILY, data)


def attempt(name, what):
    try:
        answer = what()
    except OSError as error:
        answer = errno.errorcode[error.errno]
    print(f"{name}: {'done' if answer is None else answer}")


def daemon_socket():
    sock = socket.socket(FAMILY, socket.SOCK_RAW, PROTOCOL)
    if V6:
        # Of ICMPv6, reports of MLDv1 and echo requests alone (ICMP6_FILTER).
        blocked = [0xFFFFFFFF] * 8
        for kind in (128, 131):
            blocked[kind >> 5] &= ~(1 << (kind & 31))
        sock.setsockopt(58, 1, struct.pack("8I", *blocked))
    return sock


def number(value):
    return struct.pack("i", value)


def vif(index, local, flags=0, threshold=1, remote="0.0.0.0"):
    if V6:
        if not isinstance(local, int):
            third = int(local.split(".")[2])
            local = socket.if_nametoindex(DEVICES[third - 1] + "0") if third <= len(DEVICES) else 0
        return struct.pack("HBBHxxI", index, flags, threshold, local, 0)
    local = struct.pack("I", local) if isinstance(local, int) else address(local)
    return struct.pack("HBBI", index, flags, threshold, 0) + local + address(remote)


def ends(source, group):
    if not V6:
        return address(source) + address(group)
    return b"".join(struct.pack("HHI16sI", FAMILY, 0, 0, address(name), 0) for name in (source, group))


def mfc(source, group, parent, out):
    head = ends(source, group) + struct.pack("H", parent)
    if V6:
        return head + struct.pack("=xxI28x", sum(1 << index for index in out))
    head += bytes(out.get(index, 0) for index in range(32))
    return head + bytes(ENTRY - len(head))


def option(sock, name, value):
    return lambda: sock.setsockopt(LEVEL, name, value)


def counts(sock, index):
    answer = fcntl.ioctl(sock, VIFCNT, struct.pack("HxxxxxxQQQQ", index, 0, 0, 0, 0))
    return struct.unpack("HxxxxxxQQQQ", answer)[1:]


def uses(sock, source, group):
    asked = ends(source, group) + bytes(24)
    return struct.unpack("QQQ", fcntl.ioctl(sock, SGCNT, asked)[-24:])


def checksum(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(source, group, ttl=8, length=40, df=False, options=b"", protocol=17, payload=None):
    """An IP packet of a length as that of IPv4, unless it is long, with UDP or with some payload."""
    size = length - 20 - len(options) if length < 1000 or not V6 else length - 40
    body = payload or struct.pack("!HHHH", 1000, 2000, size, 0) + bytes(size - 8)
    if V6:
        pseudo = address(source) + address(group) + struct.pack("!II", len(body), protocol)
        at = 2 if protocol == 58 else 6
        body = body[:at] + struct.pack("!H", checksum(pseudo + body)) + body[at + 2 :]
        if options:
            body, protocol = bytes((protocol, len(options) // 8)) + options + body, 0
        return struct.pack("!IHBB", 6 << 28, len(body), protocol, ttl) + address(source) + address(group) + body
    words = 5 + len(options) // 4
    head = struct.pack("!BBHHHBBH", 0x40 | words, 0, length, 7, 0x4000 if df else 0, ttl, protocol, 0)
    head += address(source) + address(group) + options
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return head + body


def group_of(data):
    return data[24:40] if V6 else data[16:20]


def ttl_of(data):
    return data[7] if V6 else data[8]


def mac_of(group):
    return b"\x33\x33" + group[12:] if V6 else bytes((1, 0, 0x5E, group[1] & 0x7F)) + group[2:]


def is_noise(group):
    """Whether a packet is for a group of one link, as reports of groups are."""
    return group[:2] == b"\xff\x02" if V6 else group[:3] == bytes((224, 0, 0))


def is_broken(data):
    return not V6 and checksum(data[: 4 * (data[0] & 15)]) != 0


def multicast_options(sock, **values):
    """Sets IP_MULTICAST_IF (an index), IP_MULTICAST_TTL and IP_MULTICAST_LOOP, or those of IPv6."""
    names = {"device": 17, "ttl": 18, "loop": 19} if V6 else {"device": 32, "ttl": 33, "loop": 34}
    for name, value in values.items():
        value = struct.pack("8xI", value) if name == "device" and not V6 else value
        sock.setsockopt(LEVEL, names[name], value)


def join(sock, group, index):
    if V6:
        sock.setsockopt(LEVEL, 20, address(group) + struct.pack("I", index))
    else:
        sock.setsockopt(LEVEL, socket.IP_ADD_MEMBERSHIP, address(group) + struct.pack("4xI", index))
