# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Address labels and their effect on source addresses, the route cache, and the output of `bridge`
# without bridges. Its output on Linux 6.1 is labels.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@" || echo "= $?"; }
sysctl -qw net.ipv6.conf.default.accept_dad=0
ip link add d0 address 02:00:00:00:00:01 type dummy
c ip addrlabel
c ip addrlabel add prefix fd00::/64 label 5
c ip addrlabel add prefix fd00::/64 label 6
c ip addrlabel add prefix fd00::/64 label 6 dev d0
c ip addrlabel del prefix fd00::/64 label 9
c ip addrlabel del prefix fd00::/64 label 9
c ip addrlabel del prefix fd00:0:0:1::/64 label 9
c ip addrlabel add prefix ::1/128 label 3
c ip addrlabel add prefix 10.0.0.0/8 label 7
c ip addrlabel add prefix ::ffff:10.0.0.0/104 label 7
c ip addrlabel add prefix ::ffff:0.0.0.0/95 label 7
c ip addrlabel add prefix ::10.0.0.1/96 label 8
c ip addrlabel add prefix fd00:1:2:3::4/60 label 77
c ip addrlabel add prefix 2000::/2 label 4
c ip addrlabel add prefix 2000::/3 label 5
c ip addrlabel add prefix 2000::/4 label 6 dev lo
c ip addrlabel add prefix 2000::/4 label 6
c ip addrlabel
c ip -j addrlabel
c ip addrlabel flush
c ip addrlabel
ip link set d0 up
ip addr add 2001:db8:1::1/64 dev d0
ip addr add fd00:1::1/64 dev d0
ip route add default dev d0
source_of() { echo "+ source of $1"; ip -6 route get $1 from :: | grep -o 'src [^ ]*'; }
ip -6 route add default dev d0
source_of 2001:db8:2::2
source_of fd00:2::2
c ip addrlabel add prefix ::/0 label 1
c ip addrlabel add prefix 2001:db8::/32 label 9
c ip addrlabel add prefix fd00:2::/32 label 9
source_of fd00:2::2
c ip addrlabel add prefix 2001:db8:2::/48 label 1
source_of 2001:db8:2::2
c ip addrlabel del prefix fd00:2::/32 label 9
source_of fd00:2::2
c ip addrlabel add prefix fd00:1::/64 label 9 dev d0
source_of fd00:2::2

c ip route flush cache
c ip -4 route flush cache
c ip -6 route flush cache
c ip route show cache
c sysctl -w net.ipv4.route.flush=1
c sysctl -w net.ipv6.route.flush=1
c stat -c %A /proc/sys/net/ipv4/route/flush

# Linux serves RTM_GETVLAN once its module has been loaded.
ip link add br0 type bridge
ip link del br0
c bridge link
c bridge -d link
c bridge -j link
c bridge link show dev d0
c bridge vlan
c bridge -d vlan
c bridge -j vlan
c bridge vlan show dev d0
c bridge vlan tunnelshow
c bridge fdb
