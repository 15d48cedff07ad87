# SPDX-License-Identifier: Apache-2.0 OR MIT
# The link kinds erspan and ip6erspan, and their fallback devices.
# Its output on Linux 6.1 is erspan.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# A kernel without CONFIG_RPS does not show receive queues.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //;s/^[0-9]*: //'; }
sysctl -qw net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.default.accept_dad=0
ip link add u0 address 02:00:00:00:00:10 type dummy
ip link set u0 addrgenmode none
c ip addr add fd00::1/64 dev u0 nodad
c ip addr add 192.0.2.1/24 dev u0
c ip link set u0 up
a() { n=$1; k=$2; shift 2; echo "+ $n $k $*"; ip link add $n address 02:00:00:00:01:01 type $k "$@"; }
a e0 erspan
a e0 erspan erspan_ver 0
a e0 erspan erspan_ver 0 remote 192.0.2.2 local 192.0.2.1
a e1 erspan seq key 1 erspan 123 remote 192.0.2.2 local 192.0.2.1
a e2 erspan seq key 2 erspan_ver 2 erspan_dir egress erspan_hwid 63 remote 192.0.2.2 local 192.0.2.1 dev u0 ttl 9 tos 0x20 fwmark 7
a e3 erspan seq key 3 erspan_ver 1 erspan 0xfffff erspan_dir egress erspan_hwid 5 remote 192.0.2.2
a e4 erspan seq key 4 erspan_ver 2 erspan 7 erspan_hwid 5 local 192.0.2.1 nopmtudisc ignore-df
a e5 erspan erspan_ver 0 seq key 5 csum erspan 9 erspan_dir egress remote 192.0.2.5
a e6 erspan external
a e7 erspan external erspan_ver 2
a e8 erspan iseq okey 8 ikey 9 remote 192.0.2.8
a e9 erspan seq remote 192.0.2.9
a e9 erspan key 9 remote 192.0.2.9
a e9 erspan seq key 9 csum remote 192.0.2.9
a e9 erspan seq key 1024 remote 192.0.2.9
a e9 erspan seq ikey 9 okey 1024 remote 192.0.2.9
a e9 erspan erspan_ver 0 key 1024 remote 192.0.2.9
a ea erspan seq key 9 erspan 0x100000 remote 192.0.2.9
a ea erspan seq key 9 erspan_ver 3 remote 192.0.2.9
a ea erspan seq key 9 erspan_ver 2 erspan_hwid 64 remote 192.0.2.9
a ea erspan seq key 9 erspan_ver 2 erspan_dir up remote 192.0.2.9
a ea erspan seq key 1 erspan_ver 2 remote 192.0.2.2 local 192.0.2.1
a ea erspan seq key 9 remote 0.0.0.0
a eb erspan seq key 10 remote 192.0.2.10 encap fou
for d in erspan0 e0 e1 e2 e3 e4 e5 e6 e7 e8 e9; do l $d; done
a s0 ip6erspan
a s0 ip6erspan erspan_ver 0 seq key 1 remote fd00::2 local fd00::1
a s1 ip6erspan seq key 1 erspan 123 remote fd00::2 local fd00::1
a s2 ip6erspan seq key 2 erspan_ver 2 erspan_dir egress erspan_hwid 63 remote fd00::2 local fd00::1 dev u0 hoplimit 9 tclass 0x20 flowlabel 0x12345 fwmark 7
a s3 ip6erspan seq key 3 erspan_ver 1 erspan_hwid 5 remote fd00::2 encaplimit none
a s4 ip6erspan seq key 4 erspan_ver 2 erspan 7 erspan_hwid 5 local fd00::1
a s5 ip6erspan external
a s6 ip6erspan external erspan_ver 2
a s7 ip6erspan iseq okey 8 ikey 9 remote fd00::8 local fd00::1
a s8 ip6erspan seq remote fd00::9 local fd00::1
a s8 ip6erspan key 9 remote fd00::9 local fd00::1
a s8 ip6erspan seq key 9 csum remote fd00::9 local fd00::1
a s8 ip6erspan seq key 1024 remote fd00::9 local fd00::1
a s8 ip6erspan seq key 9 erspan 0x100000 remote fd00::9 local fd00::1
a s8 ip6erspan seq key 9 erspan_ver 3 remote fd00::9 local fd00::1
a s8 ip6erspan seq key 9 erspan_ver 2 erspan_hwid 64 remote fd00::9 local fd00::1
a s8 ip6erspan seq key 1 erspan_ver 2 remote fd00::2 local fd00::1
a s8 ip6erspan seq key 9 remote ::
a t1 ip6gretap key 1 remote fd00::2 local fd00::1
a t1 ip6gretap key 77 remote fd00::2 local fd00::1
a s8 ip6erspan seq key 77 remote fd00::2 local fd00::1
a t2 ip6gretap external
for d in s1 s2 s3 s4 s5 s6 s7; do l $d; done
c ip link set e1 type erspan seq key 1 erspan_ver 2 erspan_dir egress erspan_hwid 9 remote 192.0.2.2 local 192.0.2.1
l e1
c ip link set e1 type erspan seq key 1 erspan_ver 1 remote 192.0.2.22 local 192.0.2.1
l e1
c ip link set e3 type erspan seq key 33 erspan 9 remote 192.0.2.2 dev u0
l e3
c ip link set e2 type erspan seq key 1 erspan_ver 2 remote 192.0.2.22 local 192.0.2.1
c ip link set e2 type erspan seq key 2048 erspan_ver 2 remote 192.0.2.22 local 192.0.2.1
c ip link set erspan0 type erspan seq key 1 remote 192.0.2.22
c ip link set s1 type ip6erspan seq key 1 erspan_ver 2 erspan_dir egress erspan_hwid 9 remote fd00::2 local fd00::1
l s1
c ip link set s1 type ip6erspan seq key 7 remote fd00::2 local fd00::1 encaplimit none
l s1
c ip link set s2 type ip6erspan seq key 7 remote fd00::2 local fd00::1
c ip link set e1 mtu 67
c ip link set e1 mtu 68
c ip link set e1 mtu 65400
c ip link set e1 mtu 65536
c ip link set s1 mtu 67
c ip link set s1 mtu 65400
c ip link set s1 mtu 65536
c ip link set e1 address 02:00:00:00:00:09
c ip link set e1 address 03:00:00:00:00:09
c ip link set erspan0 up
c ip link del erspan0
for d in e1 s1; do echo $d; ethtool -k $d | grep ': on'; done
c ip netns add n1
c ip link set erspan0 netns n1
c ip link set e4 netns n1
echo "+ ip -n n1 -d link show e4"
ip -n n1 -d link show e4 | sed 's/numrxqueues 1 //;s/^[0-9]*: //'
c ip tunnel show erspan0
c ip tunnel add g1 mode gre remote 192.0.2.3 local 192.0.2.1
c ip link del u0
c ip netns del n1
ip -o link | sed 's/[0-9]*: //;s/:.*//' | grep -v '^lo'
