# SPDX-License-Identifier: Apache-2.0 OR MIT
# Sourced by all these scripts: frames arrive at in0 or at the underlay u0, and leave by u0 or out0.
# Linux names the other ends pin0, pu0 and pout0.
set -e
# Only the underlay sends packets of its own.
sysctl -qw net.ipv6.conf.default.disable_ipv6=1
for d in in0 u0 out0; do
    ip link add $d type veth peer name p$d
    ip link set p$d up
done
sysctl -qw net.ipv6.conf.u0.disable_ipv6=0
sysctl -qw net.ipv4.ip_default_ttl=55
ip link set u0 address 02:00:00:00:01:01
for d in in0 u0 out0; do ip link set $d up; done
ip addr add 192.0.2.1/24 dev u0
ip addr add 2001:db8:1::1/64 dev u0 nodad
for n in 2 3 4; do
    ip neigh add 192.0.2.$n lladdr 02:00:00:00:02:0$n dev u0
    ip neigh add 2001:db8:1::$n lladdr 02:00:00:00:06:0$n dev u0
done
redirect() { echo "action mirred egress redirect dev $1"; }
