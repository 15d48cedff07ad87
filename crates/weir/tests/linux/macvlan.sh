# SPDX-License-Identifier: Apache-2.0 OR MIT
# macvlans: their modes, sources, addresses, and what they take over from the lower device.
# Its output on Linux 6.1 is macvlan.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# A kernel without CONFIG_RPS does not show receive queues.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //'; }
a='address 02:00:00:00:00'
c ip link add d0 $a:01 mtu 1400 type dummy
c ip link add link d0 name m0 $a:10 type macvlan
c ip link add link d0 name m1 $a:11 type macvlan mode bridge
c ip link add link d0 name m2 $a:12 type macvlan mode private bcqueuelen 2000
c ip link add link m1 name m3 $a:13 type macvlan mode source macaddr set 02:00:00:00:01:01 02:00:00:00:01:02
c ip link add link d0 name m4 $a:14 mtu 1300 type macvlan mode source nodst macaddr add 02:00:00:00:01:03
for i in 0 1 2 3 4; do l m$i; done
l d0
# Wrong requests.
c ip link add m9 type macvlan
c ip link add link lo name m9 type macvlan
c ip link add link d0 name m9 mtu 1500 type macvlan
c ip link add link d0 name m9 type macvlan mode passthru
c ip link add link d0 name m9 type macvlan mode bridge macaddr add 02:00:00:00:01:03
c ip link add link d0 name m9 type macvlan mode source macaddr add 01:00:00:00:01:03
c ip link add link d0 name m9 address 01:00:00:00:00:19 type macvlan
c ip link add link d0 name m1 type macvlan
c ip link set m0 type macvlan mode passthru
c ip link set m1 type macvlan macaddr add 02:00:00:00:01:01
c ip link set m0 mtu 1500
c ip link set m0 mtu 60
c ip link set m0 address 01:00:00:00:00:10
# Sources.
c ip link set m3 type macvlan macaddr add 02:00:00:00:01:07
c ip link set m3 type macvlan macaddr add 02:00:00:00:01:07
c ip link set m3 type macvlan macaddr del 02:00:00:00:01:01
c ip link set m3 type macvlan macaddr del 02:00:00:00:01:55
l m3
c ip link set m3 type macvlan macaddr set 02:00:00:00:01:21 02:00:00:00:01:22 02:00:00:00:01:23
l m3
c ip link set m3 type macvlan macaddr flush
l m3
c ip link set m4 type macvlan mode vepa
l m4
c ip link set m4 type macvlan mode source
l m4
c ip link set m2 type macvlan bcqueuelen 5
l m2
# Up and down.
c ip link set m0 up
c ip link set m1 up
l m0
c ip link set d0 up
sleep 1
l m0
l d0
c bridge fdb show dev d0
c ip link set m1 address 02:00:00:00:00:10
c ip link set m1 address 02:00:00:00:00:01
c ip link set m1 address 02:00:00:00:00:21
c bridge fdb show dev d0
c ip link set m2 address 02:00:00:00:00:10
c ip link set m2 up
c ip link set m2 address 02:00:00:00:00:22
c ip link set m2 up
c ip link set m1 promisc on
l d0
c ip link set m1 allmulticast on
l d0
c ip link set m1 down
l d0
c bridge fdb add 02:00:00:00:00:77 dev m0
c bridge fdb add 01:00:5e:00:00:77 dev m0
c bridge fdb show dev m0
c bridge fdb del 02:00:00:00:00:77 dev m0
c bridge fdb del 01:00:5e:00:00:77 dev m0
c ip link set d0 mtu 1200
c ip -br link
c ip link show m0
c ip link show m4
c ip link set d0 carrier off
sleep 1
c ip link show m0
c ip link show m3
c ip link set d0 carrier on
sleep 1
c ip link show m0
c ip link set d0 down
c ip link show m0
c ip link set d0 address 02:00:00:00:00:99
c ip link show m0
c ethtool -k m0
c ethtool -i m0
# A second use of the lower device.
c ip link add br0 type bridge mcast_snooping 0
c ip link set d0 master br0
c ip link set m4 master br0
c ip link del br0
c ip link del d0
c ip -br link
# Mode passthru.
c ip link add d1 address 02:00:00:00:00:31 type dummy
c ip link add link d1 name p0 address 02:00:00:00:00:32 type macvlan mode passthru
c ip link add link d1 name p1 type macvlan mode bridge
sleep 1
l p0
c ip link set p0 up
l d1
c ip link set p0 type macvlan mode passthru nopromisc
l p0
l d1
c ip link set p0 address 02:00:00:00:00:33
l d1
c bridge fdb add 02:00:00:00:00:77 dev p0
c bridge fdb show dev p0
c ip link set d1 address 02:00:00:00:00:34
l p0
c ip link set p0 address 02:00:00:00:00:35
c ip link del p0
l d1
# Another namespace.
c ip netns add n1
c ip link add link d1 name q0 netns n1 address 02:00:00:00:00:41 type macvlan mode bridge
c ip link add link d1 name q1 address 02:00:00:00:00:42 type macvlan mode bridge
c ip link set q1 netns n1
sleep 1
c ip -n n1 link show q0
c ip -n n1 -br link
c ip -n n1 link set q1 up
c ip link set d1 mtu 1100
c ip -n n1 -br link
c ip -n n1 link show q1
c ip link del d1
c ip -n n1 -br link
c ip netns del n1
