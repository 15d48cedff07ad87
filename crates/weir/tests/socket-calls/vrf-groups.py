# SPDX-License-Identifier: Apache-2.0 OR MIT
# Groups in VRFs: two ports on one link, each of a VRF. Members by port and by VRF, deliveries to sockets by what they are bound
# to, sends of bound sockets, the loop back, and routes of the table.
import errno
import socket
import struct
import subprocess
import time

GROUP4, GROUP6 = "239.1.1.1", "ff05::1"
MEMBERSHIP6 = socket.IPV6_JOIN_GROUP
PKTINFO4 = 8  # IP_PKTINFO
ALL4, ALL6 = 49, 29  # IP_MULTICAST_ALL, IPV6_MULTICAST_ALL


def ip(arguments):
    done = subprocess.run(["ip", *arguments.split()], capture_output=True, text=True)
    if done.returncode or done.stderr:
        print("ip", arguments, done.returncode, done.stderr.strip())
    return done.stdout


def attempt(what, call, *arguments):
    try:
        call(*arguments)
        print(what, "-> done")
        return True
    except OSError as error:
        print(what, "->", errno.errorcode[error.errno])
        return False


def bind(s, device):
    if device:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())


def index(device):
    return socket.if_nametoindex(device) if device else 0


def join(s, family, device, group=None):
    if family == socket.AF_INET:
        value = socket.inet_aton(group or GROUP4) + bytes(4) + struct.pack("=i", index(device))
        s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, value)
    else:
        value = socket.inet_pton(family, group or GROUP6) + struct.pack("=i", index(device))
        s.setsockopt(socket.IPPROTO_IPV6, MEMBERSHIP6, value)


def receiver(family, device, member, port, group=None, all_groups=0):
    """A socket bound to a device that is a member of the group at another. None if it cannot be. It takes packets to
    groups that only others are members of, if it is to (all_groups)."""
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.settimeout(0.1)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        s.setsockopt(socket.IPPROTO_IPV6, ALL6, all_groups)
    else:
        s.setsockopt(socket.IPPROTO_IP, PKTINFO4, 1)
        s.setsockopt(socket.IPPROTO_IP, ALL4, all_groups)
    bind(s, device)
    s.bind(("", port))
    if member is not None and not attempt(f"join {family} bound to {device} at {member}", join, s, family, member, group):
        return None
    return s


def end(receivers):
    for r in receivers.values():
        if r is not None:
            r.close()
    # Under virtual time Weir sees the ends of datagram sockets when a program waits.
    time.sleep(0.1)


def heard(s):
    try:
        data, control, _, source = s.recvmsg(100, 200)
    except socket.timeout:
        return "nothing"
    place = ""
    for level, kind, value in control:
        if level == socket.IPPROTO_IP and kind == PKTINFO4:
            place = socket.if_indextoname(struct.unpack_from("=i", value)[0])
        elif level == socket.IPPROTO_IPV6 and kind == socket.IPV6_PKTINFO:
            place = socket.if_indextoname(struct.unpack_from("=i", value, 16)[0])
    where = source[0].split("%")[0]
    return f"{data.decode()} from {where} by {place}"


def sender(family, device, through):
    s = socket.socket(family, socket.SOCK_DGRAM)
    bind(s, device)
    if family == socket.AF_INET:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 4)
        if through:
            value = bytes(8) + struct.pack("=i", index(through))
            if not attempt(f"IP_MULTICAST_IF {through} bound to {device}", s.setsockopt, socket.IPPROTO_IP, socket.IP_MULTICAST_IF, value):
                return None
    else:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 4)
        if through:
            value = struct.pack("=i", index(through))
            if not attempt(f"IPV6_MULTICAST_IF {through} bound to {device}", s.setsockopt, socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, value):
                return None
    return s


def sends(family, title, sources, receivers, group, port):
    print("==", title)
    for number, (device, through) in enumerate(sources):
        s = sender(family, device, through)
        if s is None:
            continue
        if attempt(f"send bound to {device} through {through}", s.sendto, b"%d" % number, (group, port)):
            for key, r in receivers.items():
                if r is not None:
                    text = heard(r)
                    if text != "nothing":
                        print(" ", *key, ":", text)
        s.close()


ip("link add r0 type veth peer name r1")
for table, (vrf, port) in enumerate([("red", "r0"), ("rpeer", "r1")]):
    ip(f"link add {vrf} type vrf table {100 + table}")
    ip(f"link set {vrf} up")
    ip(f"link set {port} addrgenmode none master {vrf} up")
    ip(f"addr add 10.0.3.{port[1]}/24 dev {port}")
    ip(f"addr add fd00::{port[1]}/64 dev {port} nodad")
    ip(f"addr add fe80::{port[1]}/64 dev {port} nodad")

for family, group in [(socket.AF_INET, GROUP4), (socket.AF_INET6, GROUP6)]:
    bound = ["", "red", "r0", "rpeer", "r1"]
    members = ["r1", "rpeer", "r0", "red"]
    receivers = {}
    for device in bound:
        for member in members:
            receivers[device or "-", member] = receiver(family, device, member, 5000)
        receivers[device or "-", "none"] = receiver(family, device, None, 5000, None, 1)
    # Of members by their route.
    for device in bound:
        receivers[device or "-", "any"] = receiver(family, device, "", 5000)
    sources = [(device, through) for device in ["red", "r0", ""] for through in ["", "r0", "red"]]
    sends(family, "without routes", sources, receivers, group, 5000)
    if family == socket.AF_INET:
        ip("route add 239.0.0.0/8 dev r0 vrf red")
        ip("route add 239.0.0.0/8 dev r1 vrf rpeer")
        ip("route add 239.0.0.0/8 dev red")
    else:
        ip("route add multicast ff05::/16 dev r0 table 100")
        ip("route add multicast ff05::/16 dev red table local")
    sends(family, "with routes", sources, receivers, group, 5000)
    end(receivers)
    s = receiver(family, "red", "", 5000)
    # Members leave with their sockets.
    print(ip("maddr show").replace("\t", " ").count(group), "left" if s else "none")
    if s:
        s.close()

# The VRF alone is a member, or its port.
for family, group in [(socket.AF_INET, GROUP4), (socket.AF_INET6, GROUP6)]:
    for member in ["rpeer", "r1", "red"]:
        receivers = {(device or "-", member): receiver(family, device, member, 5004) for device in ["", "rpeer", "r1", "red", "r0"]}
        sends(family, member + " is a member", [("r0", "")], receivers, group, 5004)
        end(receivers)

# Without routes: a port has its link, a VRF has not.
for device in ["red", "r0", ""]:
    for through in ["", "r0", "red"]:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        bind(s, device)
        attempt(f"IP_UNICAST_IF {through} bound to {device}", s.setsockopt, socket.IPPROTO_IP, 50, struct.pack("!i", index(through)))
        attempt("send", s.sendto, b"x", ("192.0.2.1", 9))
        attempt("connect to a group", s.connect, (GROUP4, 9))
        print(s.getsockname()[0])

# Of local scope, and to all hosts.
for family, group in [(socket.AF_INET, "224.0.0.251"), (socket.AF_INET6, "ff02::fb")]:
    receivers = {(device or "-", member): receiver(family, device, member, 5001, group)
                 for device in ["", "rpeer", "r1"] for member in ["r1", "rpeer"]}
    sends(family, group, [("red", ""), ("r0", ""), ("red", "r0")], receivers, group, 5001)
for family, group in [(socket.AF_INET, "224.0.0.1"), (socket.AF_INET6, "ff02::1")]:
    receivers = {(device or "-", "none"): receiver(family, device, None, 5002, None, 1) for device in ["", "rpeer", "r1"]}
    sends(family, group, [("red", ""), ("r0", "")], receivers, group, 5002)

# A VRF whose sockets are those of others, too.
subprocess.run(["sysctl", "-qw", "net.ipv4.udp_l3mdev_accept=1"])
receivers = {("-", member): receiver(socket.AF_INET, "", member, 5003) for member in ["r1", "rpeer"]}
sends(socket.AF_INET, "udp_l3mdev_accept", [("r0", "")], receivers, GROUP4, 5003)
