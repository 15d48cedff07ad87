# SPDX-License-Identifier: Apache-2.0 OR MIT
# VRFs: the device, its ports, the rules, where routes of ports are, and requests that are refused.
# Its output on Linux 6.1 is vrf.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
settle() { [ -n "$WEIR" ] || sleep 0.5; } # Linux's link state comes late
# A kernel without CONFIG_RPS does not show receive queues.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //'; }
sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0
sysctl -qw net.ipv6.conf.default.accept_ra=0 net.ipv6.conf.default.router_solicitations=0
ip link set lo up
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link set v1 up
c ip vrf show
c ip rule
# Refused.
c ip link add red type vrf
c ip link add red type vrf table 0
c ip link add red type vrf table main
c ip link del red
c ip -6 rule del pref 1000
c ip -4 rule
c ip -6 rule
c ip link add red address 02:00:00:00:00:10 type vrf table 10
c ip link add red type vrf table 11
c ip link add blue address 02:00:00:00:00:20 type vrf table 20
# The rules came with the first VRF, and come no more.
c ip -4 rule
c ip -6 rule
c ip -6 rule add l3mdev pref 1000
c ip -6 rule add l3mdev pref 1000
c ip -d rule
c ip -j rule
l red
c ip -br link show type vrf
c ip vrf show
c ip vrf show red
c ip vrf show none
c ip vrf identify 999999
c sysctl net.vrf.strict_mode
c ip link set red type vrf table 12
# Ports.
c ip link set red master blue
c ip link set red master red
c ip link set lo master red
c ip addr add 10.0.0.1/24 dev v0
c ip -6 addr add fd00::1/64 dev v0 nodad
c ip link set v0 up
settle
c ip route show table all dev v0
c ip -6 route show table all dev v0
c ip link set v0 master red
settle
l v0
c ip -br addr show dev v0
c ip route show table all dev v0
c ip -6 route show table all dev v0
c ip route show vrf red
c ip -6 route show vrf red
c ip -6 addr add fd00::1/64 dev v0 nodad
c ip -6 route show vrf red
c ip -6 route show table 10
c ip link set red up
settle
c ip -6 route show table 10
c ip addr add 10.255.0.1/32 dev red
c ip -6 addr add fd00:255::1/128 dev red nodad
c ip addr add 127.0.0.1/8 dev red
c ip route show table 10
c ip -6 route show table 10
c ip route show table local
c ip route add vrf red default via 10.0.0.2
c ip route add vrf red unreachable 10.3.0.0/16 metric 4278198272
c ip route add vrf red 10.4.0.0/16 via 10.77.0.2
c ip route add 10.5.0.0/16 dev red
c ip route add 10.6.0.0/16 via 10.0.0.2
c ip route add 10.7.0.0/16 via 10.0.0.2 dev v0
c ip -6 route add vrf red default via fd00::2
c ip -6 route add vrf red fd03::/16 via fd77::2
c ip -6 route add fd05::/16 dev red
c ip route show
c ip -6 route show
c ip route show vrf red
c ip -6 route show vrf red
c ip route get 10.0.0.9
c ip route get vrf red 10.0.0.9
c ip route get 10.8.0.1 oif red
c ip route get 10.8.0.1 oif v0
c ip route get 10.8.0.1 from 10.0.0.2 iif v0
c ip route get 10.0.0.1 from 10.0.0.2 iif v0
c ip route get 10.255.0.1 from 10.0.0.2 iif v0
c ip route get 10.0.0.1 from 10.0.0.2 iif v1
c ip route get 10.3.0.1 vrf red
c ip route get 10.5.0.1
c ip route get fibmatch 10.8.0.1 vrf red
c ip -6 route get fd00::9
c ip -6 route get vrf red fd00::9
c ip -6 route get fd08::1 oif red
c ip -6 route get fd08::1 from fd00::2 iif v0
c ip -6 route get fd00::1 from fd00::2 iif v0
c ip -6 route get fd05::1
c ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev v0
c ip -6 neigh add fd00::2 lladdr 02:00:00:00:00:02 dev v0
c ip neigh show vrf red
c ip neigh show vrf blue
c ip -br link show vrf red
c ip -br link show master red
c ip -br addr show vrf red
c ip -j vrf show
# To another VRF, and out.
c ip link set v0 master blue
settle
c ip route show table all dev v0
c ip route show vrf red
c ip -6 route show table all dev v0
c ip link set v0 nomaster
settle
c ip route show table all dev v0
c ip -6 route show table all dev v0
c ip link set v0 nomaster
# While it is down.
c ip link set v0 down
c ip link set v0 master red
c ip route show table all dev v0
c ip link set v0 up
settle
c ip route show table all dev v0
c ip link set red down
c ip route show vrf red
c ip link set red mtu 1000
c ip link set red mtu 70000
c ip link set red netns 1
c ip link set red address 02:00:00:00:00:11
c ip link add link red name red.5 type vlan id 5
c ip link del red.5
c ip link add m0 link red type macvlan
c ip link add br0 type bridge mcast_snooping 0
c ip link set red master br0
c ip link set br0 master red
c ip link set v0 master br0
c ip link set v0 master red
c ip -br link show vrf red
c ip link del br0
# A VRF that goes releases its ports.
c ip link del red
settle
l v0
c ip route show table all dev v0
c ip rule
c ip vrf show
c ip link del blue
c ip rule
c ip rule del l3mdev
c ip rule add l3mdev table 5
c ip rule add not l3mdev pref 999
c ip rule
c ip link add red type vrf table 10
c ip rule
c sysctl -w net.vrf.strict_mode=1
c ip link add blue type vrf table 10
c ip link add blue type vrf table 11
c sysctl -w net.vrf.strict_mode=0
c ip link add green type vrf table 10
c sysctl -w net.vrf.strict_mode=1
echo "+ ip -br link show type vrf"; ip -br link show type vrf | sed 's/..:..:..:..:..:.. //'
c sysctl net.ipv4.tcp_l3mdev_accept net.ipv4.udp_l3mdev_accept net.ipv4.raw_l3mdev_accept
c sysctl -w net.ipv4.tcp_l3mdev_accept=1
c sysctl net.ipv4.tcp_l3mdev_accept
c sysctl -w net.ipv4.tcp_l3mdev_accept=2
