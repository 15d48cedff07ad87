# SPDX-License-Identifier: Apache-2.0 OR MIT
# What a device counts as dropped: received frames that no protocol and no packet socket takes.
# Its output on Linux 6.1 is rx-dropped.txt beside it; record makes it.
exec 2>&1
ip link add p1 address 02:00:00:00:00:01 type veth peer name q1 address 02:00:00:00:00:11
ip link add d0 type dummy
for d in p1 q1 d0; do
    sysctl -qw net.ipv6.conf.$d.disable_ipv6=1
    ip link set $d up
done
ip link set p1 promisc on
python3 "${0%.sh}.py"
