# SPDX-License-Identifier: Apache-2.0 OR MIT
# The link kinds ipip, gre and gretap, and their fallback devices.
# Its output on Linux 6.1 is iptunnel.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# A kernel without CONFIG_RPS does not show receive queues.
# It gives a fallback device its MTU too late for IPv6.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //;s/^[0-9]*: //;s/nopmtudisc addrgenmode eui64/nopmtudisc/'; }
sysctl -qw net.ipv6.conf.default.disable_ipv6=0
ip link add u0 address 02:00:00:00:00:10 type dummy
ip link set u0 addrgenmode none
c ip addr add 10.0.0.1/24 dev u0
c ip link set u0 up
c ip link add i0 type ipip
c ip link add i1 type ipip remote 10.0.0.2 local 10.0.0.1 dev u0 ttl 9 tos 4
c ip link add i2 type ipip remote 10.0.0.2 local 10.0.0.1 dev u0 ttl 11
c ip link add i2 type ipip remote 10.0.0.2 local 10.0.0.1
c ip link add i3 type ipip external
c ip link add i4 type ipip external
c ip link add i4 type ipip remote 10.0.0.3 nopmtudisc tos inherit fwmark 5
c ip link add i5 mtu 9000 type ipip local 10.0.0.1
c ip link add i6 mtu 60 type ipip remote 10.0.0.6
c ip link add i7 type ipip remote 10.0.0.7 mode any
c ip link add i8 type ipip remote 10.0.0.8 encap fou
for d in tunl0 i1 i2 i3 i4 i5 i6 i7; do l $d; done
c ip link add g1 type gre remote 10.0.0.2 local 10.0.0.1 key 5
c ip link add g2 type gre remote 10.0.0.2 local 10.0.0.1 ikey 6 okey 7 iseq oseq icsum ocsum
c ip link add g3 type gre remote 10.0.0.2 local 10.0.0.1 key 5
c ip link add g3 type gre remote 10.0.0.2 key 5 nopmtudisc ignore-df
c ip link add g4 type gre remote 10.0.0.2 key 6 ignore-df
c ip link add g5 type gre external
c ip link add g6 type gre external
c ip link add g6 type gre ttl 3
for d in g1 g2 g3 g5 g6; do l $d; done
c ip link add t1 address 02:00:00:00:00:01 type gretap remote 10.0.0.2 local 10.0.0.1 key 5 dev u0
c ip link add t2 address 02:00:00:00:00:02 type gretap external
c ip link add t3 address 02:00:00:00:00:02 type gretap remote 0.0.0.0
c ip link add t3 address 01:00:00:00:00:02 type gretap remote 10.0.0.3
c ip link add t3 address 02:00:00:00:00:02 mtu 1600 type gretap remote 10.0.0.3 csum seq nopmtudisc
for d in t1 t2 t3; do l $d; done
c ip link set i1 type ipip remote 10.0.0.9 local 10.0.0.1
l i1
c ip link set i1 type ipip remote 10.0.0.2 local 10.0.0.1
c ip link set i1 type ipip remote any local 10.0.0.1
c ip link set i5 type ipip remote 10.0.0.9
c ip link set i5 type ipip local any
c ip link set i3 type ipip external
c ip link set tunl0 type ipip remote 10.0.0.3
c ip link set g1 type gre remote 10.0.0.2 local 10.0.0.1 key 9 csum
l g1
c ip link set g1 type gre remote 10.0.0.2 local 10.0.0.1 ikey 6 okey 7
c ip link set t1 type gretap remote 10.0.0.77 ttl 9 dev u0
l t1
c ip link set i1 mtu 67
c ip link set i1 mtu 68
c ip link set i1 mtu 65515
c ip link set i1 mtu 65516
c ip link set t1 mtu 65493
c ip link set t1 mtu 65492
c ip link set i1 address 02:00:00:00:00:01
c ip link del tunl0
c ip link del gre0
l gre0
l gretap0
c ip netns add n1
c ip link set tunl0 netns n1
c ip link set i4 netns n1
echo "+ ip -n n1 -d link show i4"
ip -n n1 -d link show i4 | sed 's/numrxqueues 1 //;s/^[0-9]*: //'
c ip link set i1 up
c ip link set g1 up
c ip link set g5 addrgenmode none
c ip link set g5 up
c ip link set t1 up
ip addr show dev i1 | sed 's/^[0-9]*: //'
ip addr show dev g1 | sed 's/^[0-9]*: //'
ip addr show dev t1 | sed 's/^[0-9]*: //;s/ tentative//'
c ip addr add 10.9.0.1 peer 10.9.0.2 dev i1
ip route show dev i1
c ip link del u0
c ip link del i1
c ip netns del n1
ip -o link | sed 's/[0-9]*: //;s/:.*//' | grep -v '^lo'
