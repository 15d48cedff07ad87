# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ipinner
# out: u0
# Packets of programs, whose checksums vxlan devices with remote checksum offload leave to the receiver, and forwarded ones.
# sends: for n in 0 1 2 3 4; do python3 -IS remcsum-sends.py 10.0.$n.2 $n; done
# sends: python3 -IS remcsum-sends.py fd00::2 0
# sends: python3 -IS remcsum-sends.py 10.1.0.2 9
# sends: ip netns exec behind python3 -IS remcsum-sends.py 10.0.5.2 5
. "$(dirname "$0")/common.sh"
sysctl -qw net.ipv4.tcp_timestamps=0 net.ipv4.tcp_window_scaling=0 net.ipv6.auto_flowlabels=0
v() {
    n=$1
    shift
    ip link add vx$n address 02:00:00:00:00:7$n type vxlan id 1$n dstport 4789 srcport 5000 5001 nolearning "$@"
    ip link set vx$n addrgenmode none
    ip link set vx$n up
    ip addr add 10.0.$n.1/24 dev vx$n
    ip neigh add 10.0.$n.2 lladdr 02:00:00:00:00:99 dev vx$n
}
v 0 remote 192.0.2.2 remcsumtx
v 1 remote 192.0.2.2 remcsumtx noudpcsum
v 2 remote 2001:db8:1::2 remcsumtx
v 3 remote 192.0.2.2
v 4 remote 192.0.2.2 remcsumtx
ethtool -K vx4 tx off >/dev/null
sysctl -qw net.ipv6.conf.vx0.disable_ipv6=0
ip addr add fd00::1/64 dev vx0 nodad
ip neigh add fd00::2 lladdr 02:00:00:00:00:99 dev vx0
# A tag is in front of the header.
ip link add link vx0 name vx0.3 type vlan id 3
ip link set vx0.3 up
ip addr add 10.1.0.1/24 dev vx0.3
ip neigh add 10.1.0.2 lladdr 02:00:00:00:00:99 dev vx0.3
# From another namespace, through a bridge.
v 5 remote 192.0.2.2 remcsumtx
ip addr flush dev vx5
ip netns add behind
ip link add br0 type bridge
ip link add b0 type veth peer name b1 address 02:00:00:00:00:b1 netns behind
for d in vx5 b0; do ip link set $d master br0; done
for d in b0 br0; do ip link set $d up; done
ip -n behind link set b1 up
ip -n behind addr add 10.0.5.1/24 dev b1
ip -n behind neigh add 10.0.5.2 lladdr 02:00:00:00:00:99 dev b1
tc qdisc add dev in0 clsact
tc filter add dev in0 ingress protocol ip prio 1 flower ip_proto udp $(redirect vx0)
tc filter add dev in0 ingress protocol ipv6 prio 2 flower ip_proto tcp $(redirect vx0)
