# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ip6route
# out: in0
# Packets that are routed to ip6gre and ip6gretap devices and do not get far, and errors about outer packets: what the inner sender
# hears.
# show: for d in t1 t2; do echo $d; ip -s -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
sysctl -qw net.ipv6.auto_flowlabels=0 net.ipv6.icmp.ratelimit=0 net.ipv4.icmp_ratelimit=0 net.ipv4.icmp_msgs_per_sec=100000 \
    net.ipv4.icmp_msgs_burst=10000
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.in0.disable_ipv6=0 net.ipv4.conf.all.rp_filter=0
ip link set in0 address 02:00:00:00:00:d0
ip addr add 10.9.0.1/24 dev in0
ip addr add 2001:db8::ff/64 dev in0 nodad
ip neigh add 10.9.0.9 lladdr 02:00:00:00:00:01 dev in0
ip neigh add 2001:db8::1 lladdr 02:00:00:00:00:01 dev in0
a() { n=$1; shift; ip link add $n type ip6gre "$@"; ip link set $n up; sysctl -qw net.ipv6.conf.$n.disable_ipv6=0; }
a t1 remote 2001:db8:1::2 local 2001:db8:1::1
a t2 remote 2001:db8:ffff::1 local 2001:db8:1::1 encaplimit none
a t3 remote 2001:db8:1::4 local 2001:db8:1::1
ip link set t3 mtu 9000
n=1
for last in b9:185 ba:186 bb:187; do
    ip -6 route add 2001:db8:1::${last%:*}/128 dev t$n
    ip route add 198.51.100.${last#*:}/32 dev t$n
    n=$((n + 1))
done
