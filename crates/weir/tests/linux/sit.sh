# SPDX-License-Identifier: Apache-2.0 OR MIT
# The link kind sit and its fallback device.
# Its output on Linux 6.1 is sit.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# A kernel without CONFIG_RPS does not show receive queues.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //;s/^[0-9]*: //'; }
sysctl -qw net.ipv6.conf.default.disable_ipv6=0
ip link add u0 address 02:00:00:00:00:10 type dummy
ip link set u0 addrgenmode none
c ip addr add 10.0.0.1/24 dev u0
c ip link set u0 up
c ip link add s1 type sit remote 10.0.0.2 local 10.0.0.1
c ip link add s2 type sit remote 10.0.0.2 local 10.0.0.1 mode ip6ip
c ip link add s2 type sit remote 10.0.0.3 local 10.0.0.1 mode ip6ip ttl 9 tos inherit dev u0
c ip link add s3 type sit remote 10.0.0.4 mode ipip nopmtudisc
c ip link add s4 mtu 1279 type sit remote 10.0.0.5
c ip link add s5 type sit local 10.0.0.1
for d in sit0 s1 s2 s3 s5; do l $d; done
c ip link set s1 mtu 1279
c ip link set s1 mtu 1280
c ip link set s1 type sit remote 10.0.0.3 local 10.0.0.1 dev u0
c ip link set s1 type sit remote 10.0.0.9 local 10.0.0.1
c ip link set s1 type sit remote any local 10.0.0.1
c ip link set s1 type sit ttl 7 remote 10.0.0.9 local 10.0.0.1
l s1
c ip link del sit0
c ip link set s1 up
ip addr show dev s1 | sed 's/^[0-9]*: //'
c ip link del u0
ip -o link | sed 's/[0-9]*: //;s/:.*//' | grep -v -e '^lo'
