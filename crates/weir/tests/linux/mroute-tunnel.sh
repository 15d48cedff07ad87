# SPDX-License-Identifier: Apache-2.0 OR MIT
# Multicast routes of IPv4 between Ethernet and tunnel devices: what leaves by a tunnel, and what comes by one.
# Its output on Linux 6.1 is mroute-tunnel.txt beside it; record makes it.
exec 2>&1
sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.all.disable_ipv6=1
n=1
for d in a b c d; do
    ip link add ${d}0 address 02:00:00:00:00:0$n type veth peer name ${d}1
    ip addr add 10.0.$n.1/24 dev ${d}0
    ip link set ${d}0 up
    ip link set ${d}1 up
    n=$((n + 1))
done
ip link set lo up
ip neigh add 10.0.2.2 lladdr 02:00:00:00:01:02 dev b0
ip tunnel add gre1 mode gre local 10.0.2.1 remote 10.0.2.2 ttl 20
ip tunnel add ipip1 mode ipip local 10.0.2.1 remote 10.0.2.2
ip addr add 10.1.1.1/24 dev gre1
ip addr add 10.1.2.1/24 dev ipip1
ip link set gre1 up
ip link set ipip1 up multicast on
sleep 0.5
exec python3 -Bu "${0%.sh}.py"
