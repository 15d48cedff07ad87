# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The files of /proc/net in a namespace through which nothing has passed: names, columns, order, and the trie of routes. The output
# on Linux 6.1 is proc-net.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@" || echo "= $?"; }
sysctl -qw net.ipv6.conf.default.disable_ipv6=1
ip link set lo up
c cat /proc/net/fib_trie /proc/net/fib_triestat
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add d1 address 02:00:00:00:00:02 type dummy
ip addr add 10.0.0.1/24 brd + dev d0
ip addr add 192.168.7.1/25 brd + dev d1
ip link set d0 up
ip link set d1 up
for file in anycast6 arp dev dev_mcast fib_trie fib_triestat icmp icmp6 if_inet6 igmp igmp6 ip6_flowlabel ip_mr_cache ip_mr_vif mcfilter \
    mcfilter6 netstat packet psched raw raw6 route snmp snmp6 sockstat sockstat6 softnet_stat tcp tcp6 udp udp6 udplite \
    udplite6 dev_snmp6/lo dev_snmp6/d0; do
    c cat /proc/net/$file
done
c ls /proc/net/dev_snmp6
ip link set d1 name e1
c ls /proc/net/dev_snmp6
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.ip_default_ttl=99
echo "+ head -n 2 /proc/net/snmp"
head -n 2 /proc/net/snmp
# A rule parts the tables main and local.
ip rule add from 10.9.0.0/16 table 77
ip route add 10.9.0.0/16 dev d0 table 77
ip route add default via 10.0.0.9
ip route add blackhole 10.64.0.0/10
ip route add unreachable 10.128.0.0/9
ip route add 10.0.0.0/25 via 10.0.0.9 metric 5
ip route add 10.0.0.0/25 via 10.0.0.8 metric 6
ip route add 10.0.0.0/25 via 10.0.0.8 tos 8
for net in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 32 64 65 128; do ip route add 172.16.$net.0/24 dev d0; done
c cat /proc/net/fib_trie /proc/net/fib_triestat
