# SPDX-License-Identifier: Apache-2.0 OR MIT
# The link kinds ip6gre and ip6gretap, and their fallback device.
# Its output on Linux 6.1 is ip6gre.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# A kernel without CONFIG_RPS does not show receive queues. The permanent address is drawn at random.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //;s/^[0-9]*: //;s/ permaddr [0-9a-f:]*//'; }
sysctl -qw net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.default.accept_dad=0
ip link add u0 address 02:00:00:00:00:10 type dummy
ip link set u0 addrgenmode none
c ip addr add fd00::1/64 dev u0 nodad
c ip link set u0 up
c ip link add g0 type ip6gre
c ip link add g1 type ip6gre remote fd00::2 local fd00::1 key 5
c ip link add g2 type ip6gre remote fd00::2 local fd00::1 ikey 6 okey 7 iseq oseq icsum ocsum encaplimit none
c ip link add g3 type ip6gre remote fd00::2 local fd00::1 key 5
c ip link add g3 type ip6gre remote fd00::2 local fd00::1 dev u0 hoplimit 9 tclass 0x20 flowlabel 0x12345 fwmark 7
c ip link add g4 type ip6gre remote fd00::2 local fd00::1 key 8 tclass inherit flowlabel inherit dscp inherit
c ip link add g5 type ip6gre external
c ip link add g6 type ip6gre external
c ip link add g6 type ip6gre local fd00::1
c ip link add g7 mtu 9000 type ip6gre remote fd00::7 local fd00::1
c ip link add g8 mtu 60 type ip6gre remote fd00::8 local fd00::1 csum
c ip link add g9 type ip6gre remote fd00::9 local fd00::1 encap fou
c ip link add g9 type ip6gre remote 10.0.0.1
c ip link add g9 type ip6gre remote 2001:db8::1 local fd00::1 key 10
for d in ip6gre0 g1 g2 g3 g4 g5 g6 g7 g8 g9; do l $d; done
c ip link add t1 address 02:00:00:00:00:01 type ip6gretap remote fd00::2 local fd00::1 key 5 dev u0
c ip link add t2 address 02:00:00:00:00:02 type ip6gretap external
c ip link add t3 address 02:00:00:00:00:02 type ip6gretap remote ::
c ip link add t3 address 01:00:00:00:00:02 type ip6gretap remote fd00::3
c ip link add t3 address 02:00:00:00:00:03 type ip6gretap remote fd00::2 local fd00::1 key 5 dev u0
c ip link add t3 address 02:00:00:00:00:03 mtu 1600 type ip6gretap remote fd00::3 local fd00::1 csum seq
c ip link add t4 address 02:00:00:00:00:04 type ip6gretap local fd00::1
c ip link add t5 address 02:00:00:00:00:05 type ip6gretap remote fd00::5 local fd00::1 encaplimit none
for d in t1 t2 t3 t4 t5; do l $d; done
c ip link set g1 type ip6gre remote fd00::9 local fd00::1 key 9 csum
l g1
c ip link set g1 type ip6gre remote fd00::2 local fd00::1 ikey 6 okey 7
c ip link set g6 type ip6gre remote fd00::66 local fd00::1
l g6
c ip link set t1 type ip6gretap remote fd00::77 hoplimit 9
l t1
c ip link set ip6gre0 type ip6gre remote fd00::3
c ip link set g1 mtu 67
c ip link set g1 mtu 68
c ip link set g1 mtu 65523
c ip link set g1 mtu 65524
c ip link set t1 mtu 67
c ip link set t1 mtu 65400
c ip link set t1 mtu 65536
c ip link set t1 address 02:00:00:00:00:09
c ip link set t1 address 03:00:00:00:00:09
c ip link del ip6gre0
c ip link del ip6tnl0
c ip netns add n1
c ip link set ip6gre0 netns n1
c ip link set g4 netns n1
echo "+ ip -n n1 -d link show g4"
ip -n n1 -d link show g4 | sed 's/numrxqueues 1 //;s/^[0-9]*: //;s/ permaddr [0-9a-f:]*//'
c ip link set g3 up
c ip link set t1 up
ip addr show dev g3 | sed 's/^[0-9]*: //;s/ permaddr [0-9a-f:]*//;s/fe80:[0-9a-f:]*ff:fe/fe80::ff:fe/;s/ff:fe[0-9a-f:]*/ff:fe/'
ip addr show dev t1 | sed 's/^[0-9]*: //'
c ip link del u0
c ip link del g1
c ip netns del n1
ip -o link | sed 's/[0-9]*: //;s/:.*//' | grep -v -e erspan -e '^lo'
