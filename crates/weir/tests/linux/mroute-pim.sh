# SPDX-License-Identifier: Apache-2.0 OR MIT
# PIM of IPv4: the register VIF and its device, reports with whole packets, asserts, received registers.
# Its output on Linux 6.1 is mroute-pim.txt beside it; record makes it.
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
sleep 0.5
exec python3 -Bu "${0%.sh}.py"
