# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: u0 sitouter
# out: out0
# Packets for sit devices that look at their senders: i1 is one of ISATAP, s1 of 6to4. Router advertisements through i1
# count by their senders.
# show: for d in i1 s1; do echo $d; ip -s -s link show $d | tail -n +3; done
# show: ip -6 route show dev i1 | sed 's/ expires [0-9]*sec//'
# show: ip -6 addr show dev i1 | grep inet6
. "$(dirname "$0")/common.sh"
ip addr add 192.0.2.7/24 dev u0
a() { n=$1; shift; ip link add $n type "$@"; ip link set $n up; tc qdisc add dev $n clsact; }
a i1 sit local 192.0.2.1 isatap
a s1 sit local 192.0.2.7
sysctl -qw net.ipv6.conf.i1.disable_ipv6=0 net.ipv6.conf.s1.disable_ipv6=0 net.ipv6.conf.i1.accept_ra_rt_info_max_plen=64
ip addr add 2001:db8:a::5efe:192.0.2.1/64 dev i1
ip -6 addr add 2002:c000:207::1/16 dev s1
ip tunnel prl dev i1 prl-default 192.0.2.2
ip tunnel prl dev i1 prl-nodefault 192.0.2.3
for d in i1 s1; do tc filter add dev $d ingress protocol ipv6 prio 9 flower ip_proto udp $(redirect out0); done
