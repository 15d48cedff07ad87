# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Prints the structure of every netlink message that a stack sends: type, flags of the header, and of each
attribute its type, its flags and its length, in order. The scripts beside this one test the values.

A line is an attribute: `TYPE LENGTH`, with `N` where NLA_F_NESTED is set and `O` where
NLA_F_NET_BYTEORDER is. The attributes of a nest follow it, indented. Empty attributes in front of 64-bit values (IFLA_PAD and the like) are
left out, because Linux adds them on some machines only.
"""

import itertools
import os
import shlex
import socket
import struct
import subprocess

REQUEST, MULTI, ROOT_MATCH = 1, 2, 0x300
NESTED, NET_BYTEORDER, NOARP = 0x8000, 0x4000, 0x40
NEWLINK, NEWADDR, NEWROUTE, NEWNEIGH, NEWRULE = 16, 20, 24, 28, 32
NEWQDISC, NEWTCLASS, NEWTFILTER, NEWACTION = 36, 40, 44, 48
NEWNEIGHTBL, NEWADDRLABEL, NEWNETCONF, NEWNSID, NEWCHAIN, NEWLINKPROP = 64, 72, 80, 88, 100, 108
DONE, ERROR = 3, 2
ASKED = 0x77777777  # a sequence number
NAMES = {
    2: "error", 3: "done", 16: "newlink", 17: "dellink", 20: "newaddr", 21: "deladdr", 24: "newroute", 25: "delroute",
    28: "newneigh", 29: "delneigh", 32: "newrule", 33: "delrule", 36: "newqdisc", 37: "delqdisc", 40: "newtclass",
    41: "deltclass", 44: "newtfilter", 45: "deltfilter", 48: "newaction", 49: "delaction", 50: "getaction",
    64: "newneightbl", 72: "newaddrlabel", 73: "deladdrlabel", 80: "newnetconf", 81: "delnetconf", 88: "newnsid",
    89: "delnsid", 100: "newchain", 101: "delchain",
}
HEADERS = {4: 16, 5: 8, 6: 12, 7: 12, 8: 12, 9: 20, 10: 20, 11: 20, 12: 4, 16: 4, 18: 12, 20: 4, 22: 4, 25: 20}

# Nests: the attributes inside, by attribute. `ANY` is a list of attributes with the same structure.
ANY = -1
SKIPPED = "not compared"
PAD = "nothing, before what Linux aligns"
STATS = {6: PAD}
ACTION = {2: {}, 4: STATS, 5: PAD}
ACTIONS = {ANY: ACTION}
EMATCH = {2: {}}
FILTERS = {
    "flower": {3: ACTIONS, 84: {ANY: {}}},
    "matchall": {2: ACTIONS},
    "u32": {7: ACTIONS},
    "basic": {3: ACTIONS, 2: EMATCH},
    "fw": {4: ACTIONS},
    "route": {6: ACTIONS},
    "flow": {9: ACTIONS, 11: EMATCH},
    "cgroup": {1: ACTIONS, 3: EMATCH},
    "bpf": {1: ACTIONS},
}
QDISCS = {
    "htb": {}, "hfsc": {}, "fq": {}, "fq_codel": {}, "codel": {}, "pie": {}, "red": {}, "gred": {6: {ANY: {}}}, "tbf": {},
    "cake": {}, "choke": {}, "drr": {}, "qfq": {}, "ingress": {}, "clsact": {}, "etf": {}, "cbs": {}, "hhf": {}, "sfb": {},
    "taprio": {}, "ets": {}, "fq_pie": {}, "skbprio": None, "atm": {},
}
LINK_DATA = {"vlan": {3: {}, 4: {}}}
# Weir does not report the values of sysctls and IPv6's counters here.
INET6 = {1: SKIPPED, 2: SKIPPED, 3: SKIPPED, 5: SKIPPED, 6: SKIPPED}
LINK = {
    18: {2: {}},
    26: {2: SKIPPED, 10: INET6},
    32: SKIPPED,  # IFLA_NUM_RX_QUEUES: with CONFIG_RPS, which user-mode Linux lacks
    43: {},
    52: {},
}


def rtnetlink(group_mask=0):
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    sock.bind((0, group_mask))
    return sock


def attributes(data):
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("HH", data, at)
        if length < 4 or at + length > len(data):
            raise ValueError("not attributes: " + data[at:].hex())
        yield kind, data[at + 4 : at + length]
        at += (length + 3) & ~3


def show(out, data, inside, depth=1):
    listed = list(attributes(data))
    for place, (kind, payload) in enumerate(listed):
        bare = kind & 0x3FFF
        if inside.get(bare) is SKIPPED or inside.get(bare) is PAD and not payload:
            continue
        nest = inside.get(bare, inside.get(ANY))
        is_nest = nest is not None or kind & NESTED
        following = listed[place + 1][1] if place + 1 < len(listed) else b"no padding"
        if not payload and not is_nest and len(following) % 8 == 0:
            continue
        flags = ("N" if kind & NESTED else "") + ("O" if kind & NET_BYTEORDER else "")
        out.append("  " * depth + f"{bare} {flags or '-'} {'nest' if is_nest else len(payload)}")
        if is_nest:
            show(out, payload, nest or {}, depth + 1)


def tc_nests(kind, ty):
    if ty in (44, 45):
        return {2: FILTERS.get(kind, {}), 7: STATS, 9: PAD}
    nests = {7: STATS, 8: {}, 9: PAD}
    if kind == "cake":
        nests[7] = {**STATS, 4: {10: {ANY: {}}}}
    if QDISCS.get(kind) is not None:
        nests[2] = QDISCS[kind]
    return nests


def message(ty, flags, body):
    """Returns the lines of a message."""
    out = [f"{NAMES.get(ty, ty)} flags {flags:#x}"]
    if ty in (ERROR, DONE):
        return [*out, f"  {struct.unpack_from('i', body)[0]}"]
    group = ty // 4
    attrs = body[HEADERS[group] :]
    if group == 4 and body[0] in (0, 7):
        info = dict(attributes(dict(attributes(attrs)).get(18, b"")))
        kind = info.get(1, b"").rstrip(b"\0").decode()
        show(out, attrs, {**LINK, 18: {2: LINK_DATA.get(kind, {})}})
    elif group == 4:
        show(out, attrs, {12: INET6})
    elif group == 6:
        show(out, attrs, {8: {}, 22: {}})
    elif group == 16:
        show(out, attrs, {6: {}})
    elif group in (9, 10, 11, 25):
        kind = dict(attributes(attrs)).get(1, b"").rstrip(b"\0").decode()
        show(out, attrs, tc_nests(kind, ty))
    elif group == 12:
        show(out, attrs, {1: ACTIONS})
    else:
        show(out, attrs, {})
    return out


def tell(messages):
    """Prints messages, and only counts repetitions of the same structure."""
    for lines, alike in itertools.groupby(message(*one[:3]) for one in messages):
        more = len(list(alike)) - 1
        print("\n".join(lines))
        if more:
            print(f"and {more} more")


def receive(sock):
    data = sock.recv(1 << 18)
    at = 0
    while at + 16 <= len(data):
        length, ty, flags, seq, pid = struct.unpack_from("IHHII", data, at)
        yield ty, flags, data[at + 16 : at + length], seq
        at += (length + 3) & ~3


def ask(what, ty, header, attrs=b"", flags=ROOT_MATCH):
    """Sends a request and prints the structure of its answer: a dump unless the flags say otherwise."""
    print(f"? {what}")
    with rtnetlink() as sock:
        sock.send(struct.pack("IHHII", 16 + len(header) + len(attrs), ty, REQUEST | flags, 1, 0) + header + attrs)
        got = list(receive(sock))
        while got[-1][0] not in (ERROR, DONE) and got[-1][1] & MULTI:
            got += receive(sock)
        # The entries that IPv6 creates for multicast addresses depend on the packets sent so far.
        tell(one for one in got if one[0] != NEWNEIGH or not one[2][8] & NOARP)


def attribute(ty, payload):
    return struct.pack("HH", 4 + len(payload), ty) + payload + b"\0" * (-len(payload) % 4)


def run(commands):
    for command in commands.strip().splitlines():
        command = command.strip()
        done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
        print(f"+ {command}")
        if done.returncode:
            print(f"! {done.stderr.strip()}")


def told(commands):
    """Runs commands, and prints after each the structure of the notifications it causes."""
    with rtnetlink() as sock:
        for group in range(1, 33):
            sock.setsockopt(270, 1, group)  # NETLINK_ADD_MEMBERSHIP
        for command in commands.strip().splitlines():
            run(command)
            got = []
            # The answer to this request arrives after the notifications sent before it.
            sock.send(struct.pack("IHHIIBBHiII", 32, NEWLINK + 2, REQUEST, ASKED, 0, 0, 0, 0, 1, 0, 0))
            while not (got and got[-1][3] == ASKED):
                got += receive(sock)
            got = [one[:3] for one in got if one[3] != ASKED]
            # The notifications of IPv6 and of a device's settings arrive at times of their own.
            tell(one for one in got if one[0] not in (NEWNETCONF, NEWNETCONF + 1))


SETUP = """
ip link add d0 type dummy
ip link add d1 numtxqueues 4 numrxqueues 2 type dummy
ip link property add dev d1 altname another
ip link set d1 alias words
ip link add v0 type veth peer name v1
ip link add link d0 name d0.5 type vlan id 5 egress 1:2 2:3 ingress 4:5
ip link add vx0 type vxlan id 7 local 10.0.0.1 remote 10.0.0.9 dstport 4789 dev d0
ip link add vx1 type vxlan external dstport 4790
ip link add i0 type ifb
ip netns add shape
ip link add v2 type veth peer name v3 netns shape
ip link set d0 up
ip addr add 10.0.0.1/24 brd + dev d0
ip addr add 10.0.1.1 peer 10.0.1.2/32 dev d0 label d0:x
ip addr add 10.0.2.1/24 dev d0 valid_lft 1000 preferred_lft 500
ip addr add 2001:db8::1/64 dev d0 nodad
ip addr add 2001:db8:1::1 peer 2001:db8:1::2/64 dev d0 nodad
ip route add 10.1.0.0/16 via 10.0.0.2 metric 7 mtu 1400 advmss 1200 src 10.0.0.1
ip route add 10.2.0.0/16 nexthop via 10.0.0.2 weight 2 nexthop via 10.0.0.3 dev d0
ip route add blackhole 10.3.0.0/16
ip route add unreachable 10.4.0.0/16 table 1000
ip route add 10.5.0.0/16 dev d0 tos 0x10
ip route add 10.6.0.0/16 via inet6 2001:db8::9 dev d0
ip route add 2001:db8:2::/48 via 2001:db8::2 mtu 1400
ip route add 2001:db8:3::/48 nexthop via 2001:db8::2 nexthop via 2001:db8::3 weight 3
ip route add blackhole 2001:db8:4::/48
ip rule add from 10.0.0.0/8 table 1000 prio 100
ip rule add fwmark 1/0xff iif d0 tos 0x10 lookup main suppress_prefixlength 0 prio 101
ip rule add ipproto tcp dport 80-90 sport 5 uidrange 0-10 goto 32766 prio 102
ip rule add to 10.9.0.0/16 oif d1 blackhole prio 103
ip -6 rule add from 2001:db8::/32 table 1000 prio 100
ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev d0 nud permanent
ip neigh add 2001:db8::2 lladdr 02:00:00:00:00:02 dev d0 nud permanent protocol 4
bridge fdb add 02:00:00:00:00:03 dev vx0 dst 10.0.0.8 vni 9 port 1
ip link set d1 up
tc qdisc add dev d0 root handle 1: htb default 1 r2q 5
tc class add dev d0 parent 1: classid 1:1 htb rate 10mbit ceil 20mbit
tc class add dev d0 parent 1: classid 1:2 est 1sec 8sec htb rate 40gbit ceil 50gbit
tc qdisc add dev d0 parent 1:1 handle 11: fq_codel
tc qdisc add dev d0 parent 1:2 handle 12: netem delay 10ms 1ms 25% loss gemodel 1% 10% rate 1mbit slot 1ms 2ms
tc qdisc add dev d0 clsact
tc qdisc add dev d1 root handle 1: mq
tc qdisc add dev d1 parent 1:1 handle 11: hfsc default 1
tc class add dev d1 parent 11: classid 11:1 hfsc sc rate 1mbit ul rate 2mbit
tc qdisc add dev d1 parent 1:2 handle 12: prio
tc qdisc add dev d1 parent 12:1 handle 121: red limit 100000 min 10000 max 30000 avpkt 1000 probability 0.1
tc qdisc add dev d1 parent 12:2 handle 122: tbf rate 1mbit burst 10k latency 50ms peakrate 2mbit mtu 1500
tc qdisc add dev d1 parent 12:3 handle 123: sfq perturb 10
tc qdisc add dev d1 parent 1:3 handle 13: qfq
tc class add dev d1 parent 13: classid 13:1 qfq weight 3
tc qdisc add dev d1 parent 13:1 handle 131: cake bandwidth 10mbit
tc qdisc add dev d1 parent 1:4 handle 14: drr
tc class add dev d1 parent 14: classid 14:1 drr quantum 2000
tc class add dev d1 parent 14: classid 14:2 drr
tc class add dev d1 parent 14: classid 14:3 drr
tc class add dev d1 parent 14: classid 14:4 drr
tc class add dev d1 parent 14: classid 14:5 drr
tc class add dev d1 parent 14: classid 14:6 drr
tc class add dev d1 parent 14: classid 14:7 drr
tc class add dev d1 parent 14: classid 14:8 drr
tc class add dev d1 parent 14: classid 14:9 drr
tc qdisc add dev d1 parent 14:1 handle 141: fq
tc qdisc add dev d1 parent 14:2 handle 142: codel
tc qdisc add dev d1 parent 14:3 handle 143: pie
tc qdisc add dev d1 parent 14:4 handle 144: choke limit 1000 bandwidth 10mbit
tc qdisc add dev vx1 root handle 1: sfb
tc qdisc add dev d1 parent 14:6 handle 146: gred setup vqs 4 default 1
tc qdisc change dev d1 parent 14:6 handle 146: gred DP 1 limit 100000 min 10000 max 30000 avpkt 1000 probability 0.1 bandwidth 10mbit
tc qdisc add dev d1 parent 14:7 handle 147: hhf
tc qdisc add dev d1 parent 14:8 handle 148: pfifo limit 10
tc qdisc add dev d1 parent 14:9 handle 149: bfifo limit 1000
tc qdisc add dev v0 root handle 1: cbs idleslope 1000 sendslope -1000 hicredit 10 locredit -10
tc qdisc add dev v1 root handle 1: skbprio
tc qdisc add dev v2 root stab linklayer atm overhead 4 handle 1: plug
tc qdisc add dev i0 root handle 1: htb
tc qdisc add dev vx0 ingress_block 22 clsact
tc filter add dev d0 ingress prio 1 protocol ip flower skip_hw ip_proto tcp dst_ip 10.0.0.0/8 src_port 80 dst_port 1-9 tcp_flags 2/2 action drop
tc filter add dev d0 ingress prio 2 protocol 802.1q flower vlan_id 5 vlan_prio 3 vlan_ethtype ipv4 dst_mac 02:00:00:00:00:01 action vlan pop pipe action mirred egress redirect dev v0
tc filter add dev d0 ingress prio 3 protocol ip flower enc_key_id 5 enc_dst_ip 10.0.0.1 enc_dst_port 4789 geneve_opts 0102:80:00880022 action tunnel_key unset pipe action skbedit mark 5 priority 1:1 queue_mapping 2
tc filter add dev d0 ingress prio 4 protocol ipv6 flower src_ip 2001:db8::/32 ip_tos 4 ip_ttl 5 classid 1:1 action gact pass random determ drop 5
tc filter add dev d0 ingress prio 5 protocol arp flower arp_op request arp_tip 10.0.0.1 action police rate 1mbit burst 10k conform-exceed drop/pass
tc filter add dev d0 egress prio 1 matchall action pedit ex munge ip ttl set 5 munge eth dst set 02:00:00:00:00:09 pipe action csum ip and tcp
tc filter add dev d0 egress prio 2 protocol ip u32 match ip dst 10.0.0.0/8 match ip dport 80 0xffff flowid 1:1 action nat ingress 10.0.0.0/8 11.0.0.0
tc filter add dev d0 egress prio 3 protocol ip basic match 'cmp(u8 at 9 layer 1 eq 6)' classid 1:1 action sample rate 10 group 4 trunc 60
tc filter add dev d0 parent 1: prio 4 protocol ip handle 7 fw classid 1:1 police rate 1mbit burst 10k mtu 2k drop
tc filter add dev d0 parent 1: prio 5 protocol ip route to 3 classid 1:1
tc filter add dev d0 parent 1: prio 6 protocol ip handle 1 flow hash keys src,dst divisor 16 baseclass 1:1 perturb 5
tc filter add dev d0 parent 1: prio 7 protocol ip handle 1: u32 divisor 4
tc filter add dev d0 egress prio 8 protocol ip matchall action tunnel_key set id 5 src_ip 10.0.0.1 dst_ip 10.0.0.2 dst_port 4789 geneve_opts 0102:80:00880022 ttl 4 nocsum pipe action vlan push id 5 priority 2 pipe action mirred egress mirror dev v0 pipe action skbmod set dmac 02:00:00:00:00:09 pipe action ife encode allow mark pipe action mpls push label 5
tc filter add dev d0 egress prio 9 protocol ip matchall action simple sdata words pipe action goto chain 5
tc chain add dev d0 ingress chain 5 protocol ip flower ip_proto tcp dst_ip 0.0.0.0/0
tc actions add action gact drop index 50 cookie 1234
tc actions add action mirred egress redirect dev v0 index 51 no_percpu
tc actions add action police rate 1mbit burst 10k peakrate 2mbit mtu 2k index 52
tc actions add action skbedit ptype host mark 1/3 index 53
tc filter add block 22 prio 1 matchall action drop
"""

NOTICES = """
ip link add n0 type dummy
ip link set n0 mtu 1400
ip link set n0 alias words
ip addr add 10.7.0.1/24 brd + dev n0
ip addr del 10.7.0.1/24 dev n0
ip route add blackhole 10.77.0.0/16
ip route replace unreachable 10.77.0.0/16
ip route append blackhole 10.77.0.0/16
ip route del 10.77.0.0/16
ip route add blackhole 2001:db8:77::/48
ip route del blackhole 2001:db8:77::/48
ip rule add from 10.77.0.0/16 prio 7
ip rule del prio 7
ip neigh add 10.0.0.7 lladdr 02:00:00:00:00:07 dev d0 nud permanent
ip neigh change 10.0.0.7 lladdr 02:00:00:00:00:08 dev d0 nud permanent
ip neigh del 10.0.0.7 dev d0
tc qdisc add dev n0 root handle 1: htb
tc qdisc replace dev n0 root handle 2: htb
tc class add dev n0 parent 2: classid 2:1 htb rate 1mbit
tc class change dev n0 parent 2: classid 2:1 htb rate 2mbit
tc class del dev n0 classid 2:1
tc filter add dev n0 parent 2: prio 1 protocol ip flower dst_ip 10.0.0.1 action drop
tc filter replace dev n0 parent 2: prio 1 protocol ip handle 1 flower dst_ip 10.0.0.2 action drop
tc filter del dev n0 parent 2: prio 1 protocol ip handle 1 flower
tc filter del dev n0 parent 2:
tc chain add dev n0 parent 2: chain 3
tc chain del dev n0 parent 2: chain 3
tc qdisc del dev n0 root
tc actions add action gact drop index 70
tc actions replace action gact pass index 70
tc actions del action gact index 70
ip netns add other
ip netns set other 9
ip link set n0 name n1
ip link property add dev n1 altname one
ip link del n1
"""


def tcmsg(dev, parent=0, info=0):
    index = socket.if_nametoindex(dev) if dev else 0
    return struct.pack("BBHiIII", 0, 0, 0, index, 0, parent, info)


def main():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    ask("neighbour tables", NEWNEIGHTBL + 2, b"\0" * 4)
    run(SETUP)
    d0 = socket.if_nametoindex("d0")
    ifinfo = struct.pack("BBHiII", 0, 0, 0, 0, 0, 0)
    filter_mask = attribute(29, struct.pack("I", 1))  # IFLA_EXT_MASK: VF
    ask("links", NEWLINK + 2, ifinfo, filter_mask)
    ask("links, IPv6", NEWLINK + 2, struct.pack("BBHiII", 10, 0, 0, 0, 0, 0))
    ask("link d0", NEWLINK + 2, struct.pack("BBHiII", 0, 0, 0, d0, 0, 0), flags=0)
    for name, family in ("IPv4", 2), ("IPv6", 10):
        ask(f"addresses, {name}", NEWADDR + 2, struct.pack("BBBBI", family, 0, 0, 0, 0))
        ask(f"routes, {name}", NEWROUTE + 2, struct.pack("BBBBBBBBI", family, 0, 0, 0, 0, 0, 0, 0, 0))
        ask(f"rules, {name}", NEWRULE + 2, struct.pack("BBBBBBBBI", family, 0, 0, 0, 0, 0, 0, 0, 0))
        ask(f"neighbours, {name}", NEWNEIGH + 2, struct.pack("BBHiHBB", family, 0, 0, 0, 0, 0, 0))
        ask(f"netconf, {name}", NEWNETCONF + 2, struct.pack("Bxxx", family))
        ask(f"netconf of d0, {name}", NEWNETCONF + 2, struct.pack("Bxxx", family), attribute(1, struct.pack("i", d0)), 0)
    ask("forwarding entries", NEWNEIGH + 2, struct.pack("BBHiHBB", 7, 0, 0, socket.if_nametoindex("vx0"), 0, 0, 0))
    route = struct.pack("BBBBBBBBI", 2, 32, 0, 0, 0, 0, 0, 0, 0)
    ask("route to 10.1.0.1", NEWROUTE + 2, route, attribute(1, bytes([10, 1, 0, 1])), 0)
    route = struct.pack("BBBBBBBBI", 2, 32, 0, 0, 0, 0, 0, 0, 0x2000)
    ask("route to 10.1.0.1, matched", NEWROUTE + 2, route, attribute(1, bytes([10, 1, 0, 1])), 0)
    route = struct.pack("BBBBBBBBI", 10, 128, 0, 0, 0, 0, 0, 0, 0)
    ask("route to 2001:db8:2::1", NEWROUTE + 2, route, attribute(1, socket.inet_pton(10, "2001:db8:2::1")), 0)
    ask("neighbour 10.0.0.2", NEWNEIGH + 2, struct.pack("BBHiHBB", 2, 0, 0, d0, 0, 0, 0), attribute(1, bytes([10, 0, 0, 2])), 0)
    ask("address labels of all families", NEWADDRLABEL + 2, struct.pack("BBBBII", 0, 0, 0, 0, 0, 0))
    ask("address labels", NEWADDRLABEL + 2, struct.pack("BBBBII", 10, 0, 0, 0, 0, 0))
    ask("namespace ids", NEWNSID + 2, b"\0" * 4)
    for dev in "d0", "d1", "v0", "v1", "v2", "i0", "vx0", "vx1":
        ask(f"qdiscs of {dev}", NEWQDISC + 2, tcmsg(dev))
    for dev in "d0", "d1", "i0":
        ask(f"classes of {dev}", NEWTCLASS + 2, tcmsg(dev))
    for name, parent in ("ingress", 0xFFFFFFF2), ("egress", 0xFFFFFFF3), ("1:", 0x10000):
        ask(f"filters of d0 {name}", NEWTFILTER + 2, tcmsg("d0", parent))
        ask(f"chains of d0 {name}", NEWCHAIN + 2, tcmsg("d0", parent))
    block = struct.pack("BBHiIII", 0, 0, 0, -1, 0, 22, 0)
    ask("filters of block 22", NEWTFILTER + 2, block)
    for kind in "gact", "mirred", "police", "skbedit", "vlan":
        action = attribute(1, attribute(1, attribute(1, kind.encode() + b"\0")))
        ask(f"actions {kind}", NEWACTION + 2, b"\0" * 4, action)
    one = attribute(1, attribute(1, attribute(1, b"gact\0") + attribute(3, struct.pack("I", 50))))
    ask("action gact 50", NEWACTION + 2, b"\0" * 4, one, 0)
    for family in 255, 129, 7:
        for name, ty, header in (
            ("addresses", NEWADDR, struct.pack("BBBBI", family, 0, 0, 0, 0)),
            ("routes", NEWROUTE, struct.pack("BBBBBBBBI", family, 0, 0, 0, 0, 0, 0, 0, 0)),
            ("rules", NEWRULE, struct.pack("BBBBBBBBI", family, 0, 0, 0, 0, 0, 0, 0, 0)),
            ("neighbours", NEWNEIGH, struct.pack("BBHiHBB", family, 0, 0, 0, 0, 0, 0)),
            ("neighbour tables", NEWNEIGHTBL, struct.pack("Bxxx", family)),
            ("netconf", NEWNETCONF, struct.pack("Bxxx", family)),
            ("address labels", NEWADDRLABEL, struct.pack("BBBBII", family, 0, 0, 0, 0, 0)),
        ):
            ask(f"{name}, family {family}", ty + 2, header)
    told(NOTICES)


main()
