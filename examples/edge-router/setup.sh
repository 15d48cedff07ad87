#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# setup.sh: sets up two routers between a LAN and a WAN, with filters, redirection and policy routing.
#
#   LAN  -- lan0 edge to-core -- to-edge core wan0 --  WAN
#           10.1.0.1  10.0.0.1   10.0.0.2    10.2.0.1
#           ::1  2001:db8:ff::1  ::2         ::1
#   2001:db8:1::/64                          2001:db8:2::/64
#   VLAN 10: lan0.10, 10.1.10.1
#
#   weir run setup.sh --in edge/lan0=lan.pcapng.gz --in core/wan0=wan.pcapng.gz \
#       --out edge/lan0=lan-out.pcapng --out core/wan0=wan-out.pcapng --out edge/tap=tap.pcapng
#
# It also runs on real Linux (as root, in private namespaces):
#   unshare --net --mount sh -c 'mount -t tmpfs tmpfs /run && ./setup.sh && ip -n edge address'
# PORT: the kind of lan0 and wan0, default dummy; veth to receive real frames.
set -eu

for router in edge core; do
    ip netns add $router
    ip netns exec $router sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
done

# The cable between the routers.
ip link add to-core netns edge address 02:00:00:00:00:01 type veth \
    peer name to-edge netns core address 02:00:00:00:00:02

# Edge. A dummy does not use ARP by default; here it stands for an Ethernet port.
ip -n edge -batch - <<EOF
link set lo up
link add lan0 address 02:00:00:01:00:01 type ${PORT:-dummy}
link set lan0 arp on
link add link lan0 name lan0.10 type vlan id 10
link add tap type dummy
link add ifb0 type ifb
link set lan0 up
link set lan0.10 up
link set to-core up
link set tap up
link set ifb0 up
address add 10.1.0.1/24 brd + dev lan0
address add 10.1.10.1/24 brd + dev lan0.10
address add 2001:db8:1::1/64 dev lan0 nodad
address add 10.0.0.1/30 dev to-core
address add 2001:db8:ff::1/64 dev to-core nodad
route add default via 10.0.0.2
route add default via 2001:db8:ff::2
neighbour add 10.1.0.2 lladdr 02:00:00:01:00:02 dev lan0 nud permanent
neighbour add 2001:db8:1::2 lladdr 02:00:00:01:00:02 dev lan0 nud permanent
EOF

# Core.
ip -n core -batch - <<EOF
link set lo up
link add wan0 address 02:00:00:02:00:01 type ${PORT:-dummy}
link set wan0 arp on up
link set to-edge up
address add 10.2.0.1/24 brd + dev wan0
address add 2001:db8:2::1/64 dev wan0 nodad
address add 10.0.0.2/30 dev to-edge
address add 2001:db8:ff::2/64 dev to-edge nodad
route add 10.1.0.0/16 via 10.0.0.1
route add 2001:db8:1::/64 via 2001:db8:ff::1
neighbour add 10.2.0.2 lladdr 02:00:00:02:00:02 dev wan0 nud permanent
neighbour add 2001:db8:2::2 lladdr 02:00:00:02:00:02 dev wan0 nud permanent
EOF

# The policy: routes with which edge rejects packets in different ways, and a separate table for VLAN 10.
ip -n edge -batch - <<EOF
route add prohibit 10.8.0.0/16
route add unreachable 10.9.0.0/16
route add unreachable 2001:db8:9::/48
rule add from 10.1.10.0/24 lookup 10 priority 100
route add default via 10.0.0.2 table 10
route add blackhole 10.2.0.77 table 10
EOF

# Filters for packets from LAN hosts:
tc -n edge -batch - <<EOF
qdisc add dev lan0 clsact
qdisc add dev ifb0 root pfifo limit 100
# - iperf3 over TCP is dropped, by one action shared by both families;
actions add action drop index 5201 cookie 1f35201a
filter add dev lan0 ingress pref 10 protocol ip flower ip_proto tcp dst_port 5201 action gact index 5201
filter add dev lan0 ingress pref 11 protocol ipv6 flower ip_proto tcp dst_port 5201 action gact index 5201
# - DNS queries are mirrored to tap;
filter add dev lan0 ingress pref 20 protocol ip flower ip_proto udp dst_port 53 action mirred egress mirror dev tap
filter add dev lan0 ingress pref 21 protocol ipv6 flower ip_proto udp dst_port 53 action mirred egress mirror dev tap
# - iperf3 over UDP is redirected through the queue of ifb0 and returns;
filter add dev lan0 ingress pref 30 protocol ip flower ip_proto udp dst_port 5201 action mirred egress redirect dev ifb0
# - echo requests are classified by VLAN and by fragments, and counted.
filter add dev lan0 ingress pref 40 protocol 802.1Q flower vlan_id 10 vlan_ethtype ip ip_proto icmp action pass
filter add dev lan0 ingress pref 41 protocol ip flower ip_proto icmp action goto chain 1
filter add dev lan0 ingress chain 1 pref 1 protocol ip flower ip_flags frag action pass
filter add dev lan0 ingress chain 1 pref 2 protocol ip flower ip_proto icmp type 8 code 0 action pass
EOF

# Packets to the WAN: those to foreign private networks are dropped; other IPv4 packets are counted.
tc -n core -batch - <<EOF
qdisc add dev wan0 clsact
filter add dev wan0 egress pref 1 protocol ip flower dst_ip 192.168.0.0/16 action drop
filter add dev wan0 egress pref 2 protocol ip matchall action pass
EOF
