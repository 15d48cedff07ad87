# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 hopinner
# out: u0
# Packets through sit and ipip devices without a remote: the next hop, or an address of 6to4, says where to. i1 is one of
# ISATAP. What is redirected has no next hop.
# show: for d in s1 i1 i2 p1; do echo $d; ip -s -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.in0.disable_ipv6=0 net.ipv4.conf.all.rp_filter=0
ip link set in0 address 02:00:00:00:00:d0
ip addr add 2001:db8::ff/64 dev in0 nodad
a() { n=$1; shift; ip link add $n type "$@"; ip link set $n addrgenmode none up; sysctl -qw net.ipv6.conf.$n.disable_ipv6=0; }
a s1 sit local 192.0.2.1 mode any
a i1 sit local 192.0.2.1 dev u0 isatap ttl 9 tos 0x20
a i2 sit remote 192.0.2.3 local 192.0.2.1 isatap
a p1 ipip local 192.0.2.1
r() { ip -6 route add "$@"; }
r 2002::/16 dev s1
r ::192.0.2.0/120 dev s1
r 2001:db8:b::/48 via ::192.0.2.3 dev s1 onlink
r 2001:db8:c::/48 dev s1
r 2001:db8:a::/48 via fe80::5efe:192.0.2.2 dev i1
r 2001:db8:a1::/48 via fe80::200:5efe:192.0.2.3 dev i1
r 2001:db8:a2::/48 via fe80::1 dev i1
r 2001:db8:a3::/64 dev i1
r 2001:db8:a4::/48 via fe80::5efe:192.0.2.4 dev i2
ip route add 10.8.1.0/24 via 192.0.2.4 dev s1 onlink
ip route add 10.8.2.0/24 via 192.0.2.2 dev i1 onlink
ip route add 10.8.3.0/24 via 192.0.2.2 dev p1 onlink
ip route add 10.8.4.0/24 dev p1
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@"; }
f protocol ipv6 prio 1 flower dst_ip 2002:c000:203::/48 $(redirect s1)
f protocol ipv6 prio 2 flower dst_ip 2001:db8:d::/48 $(redirect s1)
f protocol ipv6 prio 3 flower dst_ip 2001:db8:e::/48 $(redirect i1)
f protocol ip prio 4 flower dst_ip 10.8.9.0/24 $(redirect p1)
f protocol ip prio 5 flower dst_ip 10.8.8.0/24 $(redirect s1)
