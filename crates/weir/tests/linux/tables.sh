# SPDX-License-Identifier: Apache-2.0 OR MIT
# The state of a namespace other than links, addresses and routes: settings, tables, /proc/net. Its
# output on Linux 6.1 is tables.txt beside it; record makes it. Numbers that differ from run to run
# (random times, reference counts) are left out.
exec 2>&1
c() { echo "+ $*"; "$@" | sed -e 's/reachable [0-9]*/reachable N/' -e 's/refcnt [0-9]*/refcnt N/'; }
export PATH="$PATH:/usr/sbin:/sbin"
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add v0 address 02:00:00:00:00:11 type veth peer name v1 address 02:00:00:00:00:12
for d in lo d0 v0 v1; do ip link set $d up; done
ip addr add 10.0.0.1/24 dev d0
ip addr add 2001:db8::1/64 dev v0 nodad
ip route add 10.9.0.0/16 via 10.0.0.2 metric 5 mtu 1400
ip route add default via 10.0.0.9 advmss 1000
ip route add blackhole 10.8.0.0/16
ip route add 10.7.0.1 dev d0
ip route add 10.6.0.0/16 nexthop via 10.0.0.3 weight 2 nexthop via 10.0.0.4
ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:aa dev d0
ip neigh add 10.0.0.3 lladdr 02:00:00:00:00:ab nud stale dev d0
sysctl -q -w net.ipv4.conf.d0.forwarding=1 net.ipv4.conf.v0.rp_filter=2
c ip netconf
c ip -4 netconf
c ip -6 netconf
c ip netconf show dev d0
c ip -6 netconf show dev v0
c ip ntable
c ip ntable show dev d0 name arp_cache
c ip ntable change name arp_cache dev d0 queue 7 retrans 500
c ip ntable change name ndisc_cache dev v0 ucast_probes 5 locktime 30
c ip ntable change name arp_cache dev nosuch queue 7
c ip ntable change name nosuch queue 7
c ip ntable show dev d0
c ip ntable show dev v0
c sysctl net.ipv4.neigh.d0.unres_qlen net.ipv4.neigh.d0.retrans_time_ms
c ip addrlabel
c ip nexthop
c ip token
c ip tuntap
c ip mroute
c stat -c "%A %n" /proc/sys/net /proc/sys/net/ipv4 /proc/sys/net/ipv4/conf/d0 /proc/sys/net/ipv4/ip_forward /proc/self/net /proc/net/dev /sys/class/net
for f in arp route igmp tcp tcp6 udp udp6 raw raw6 unix psched; do c cat /proc/net/$f; done
echo + netstat -rn; busybox netstat -rn
sysctl -q -w net.ipv4.ip_forward=1
c ip -4 netconf
