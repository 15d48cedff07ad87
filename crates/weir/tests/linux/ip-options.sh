# SPDX-License-Identifier: Apache-2.0 OR MIT
# IP options that programs choose for their packets (IP_OPTIONS): what is taken and shown, headers on the wire, fragments,
# lengths, and what comes back by the loopback device.
# Its output on Linux 6.1 is ip-options.txt beside it; record makes it.
exec 2>&1
sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.all.disable_ipv6=1
sysctl -qw net.ipv4.icmp_ratelimit=0
ip link add a0 address 02:00:00:00:00:01 type veth peer name a1
ip addr add 10.0.0.1/24 dev a0
ip link set a0 up
ip link set a1 up
ip link set lo up
ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev a0
exec python3 -Bu "${0%.sh}.py"
