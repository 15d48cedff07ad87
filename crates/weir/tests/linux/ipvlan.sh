# SPDX-License-Identifier: Apache-2.0 OR MIT
# ipvlans in the modes l2 and l3: settings, addresses, and what they take over from the lower device.
# Its output on Linux 6.1 is ipvlan.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# A kernel without CONFIG_RPS does not show receive queues.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //'; }
c ip link add d0 address 02:00:00:00:00:01 mtu 1400 type dummy
c ip link add link d0 name i0 type ipvlan mode l2
c ip link add link d0 name i1 type ipvlan mode l2 private
c ip link add link i1 name i2 mtu 1300 type ipvlan mode l2 vepa
for i in 0 1 2; do l i$i; done
# Wrong requests.
c ip link add i9 type ipvlan
c ip link add link lo name i9 type ipvlan
c ip link add link d0 name i1 type ipvlan mode l2
c ip link set i0 address 02:00:00:00:00:09
c ip link set i0 mtu 60
c ip link add link i0 name i0.5 type vlan id 5
c ip link add link i0 name m0 type macvlan
c ip link add link d0 name m0 type macvlan
c ip link add br0 type bridge mcast_snooping 0
c ip link set d0 master br0
c ip link set i0 master br0
c ip link del br0
# Modes and flags are those of the lower device.
c ip link set i1 type ipvlan mode l2 bridge
l i0
c ip link add link d0 name i3 type ipvlan
l i0
l i3
c ip link set i0 type ipvlan mode l2
l i3
# Addresses.
c ip addr add 10.0.0.1/24 dev i0
c ip addr add 10.0.0.1/24 dev i1
c ip addr add 10.0.0.1/24 dev i0
c ip addr add 10.0.0.2/24 dev i1
c ip addr add fd00::1/64 dev i0 nodad
c ip addr add fd00::1/64 dev i1 nodad
c ip link set i0 up
c ip link set i1 up
c ip link set d0 up
sleep 2
c ip -br addr
c ip link show i0
c bridge fdb show dev d0
c ip link set i0 allmulticast on
l d0
c ip link set i0 promisc on
l d0
c ip link set i0 down
c ip addr del 10.0.0.2/24 dev i1
c ip addr add 10.0.0.2/24 dev i0
c ip link set d0 mtu 1200
c ip -br link
c ip link show i0
c ip link show i2
c ip link set d0 carrier off
sleep 1
c ip link show i1
c ip link set d0 carrier on
sleep 1
c ip link show i1
c ip link set d0 down
c ip link show i1
c ip link set d0 address 02:00:00:00:00:77
c ip -br link
c ethtool -k i1
c ethtool -i i1
c ip link del i3
c ip netns add n1
c ip link add link d0 name q0 netns n1 type ipvlan mode l2
c ip -n n1 link show q0
c ip link del d0
c ip -n n1 -br link
c ip -br link
c ip netns del n1
