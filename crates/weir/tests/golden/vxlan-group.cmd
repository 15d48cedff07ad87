# Remotes that are groups: which device and address they need, memberships while devices are up, entries of the table.
for n in 0 1; do ip link add u$n address 02:00:00:00:00:1$n type dummy; sysctl -q net.ipv6.conf.u$n.addr_gen_mode=1; ip addr add 10.9.$n.1/24 dev u$n; ip addr add fd00:$n::1/64 dev u$n nodad; ip link set u$n up; done
ip link add x0 type vxlan id 5 dstport 4789 group 239.1.1.1
ip link add x0 type vxlan id 5 dstport 4789 group ff05::100
ip link add x0 type vxlan id 5 dstport 4789 group 239.1.1.1 dev nosuch
ip link add x0 type vxlan id 5 dstport 4789 local 239.1.1.1 dev u0
ip link add x0 type vxlan id 5 dstport 4789 group 239.1.1.1 local fd00:0::1 dev u0
ip link add x0 type vxlan id 5 dstport 4789 group ff05::100 local fe80::1 dev u0
ip link add x0 type vxlan id 5 dstport 4789 remote 239.1.1.1 dev u0
ip link add x0 type vxlan id 5 dstport 4789 group 10.9.0.2 dev u0
ip link add x0 address 02:00:00:00:00:01 type vxlan id 5 dstport 4789 group 239.1.1.1 dev u0
ip link add x1 address 02:00:00:00:00:02 type vxlan id 6 dstport 4789 group 239.1.1.1 dev u0 ttl 7
ip link add x2 address 02:00:00:00:00:03 type vxlan id 7 dstport 4790 group 239.1.1.1 dev u0
ip link add x3 address 02:00:00:00:00:04 type vxlan id 8 dstport 4789 group ff05::100 dev u0
ip link add x4 address 02:00:00:00:00:05 type vxlan id 9 dstport 4789 group ff02::100 local fe80::1 dev u0
ip link add x5 address 02:00:00:00:00:06 type vxlan id 10 dstport 4789 group ff02::100 dev u1
for n in 0 1 2 3 4 5; do sysctl -q net.ipv6.conf.x$n.disable_ipv6=1; done
ip -d link show x0 | grep vxlan; ip -d link show x3 | grep vxlan; ip -d -j link show x1 | grep -o '"vxlan","info_data":{[^}]*}'
ip maddr show dev u0; ip maddr show dev u1
bridge fdb show dev x0; bridge fdb show dev x3
ip link set x0 up; ip maddr show dev u0
ip link set x1 up; ip link set x2 up; ip link set x3 up; ip link set x5 up; ip maddr show dev u0; ip maddr show dev u1
ip link set x0 down; ip maddr show dev u0
ip link set x2 down; ip maddr show dev u0
ip link set x1 down; ip maddr show dev u0
ip link set x3 down; ip link set x5 down; ip maddr show dev u0; ip maddr show dev u1
# A device that is up gets another group.
ip link set x0 up; ip link set x0 type vxlan id 5 group 239.1.1.2 dev u0; ip maddr show dev u0; bridge fdb show dev x0
ip link set x0 type vxlan id 5 group 239.1.1.2 dev u1; ip -d link show x0 | grep -o 'vxlan id.*dstport'; bridge fdb show dev x0; ip maddr show dev u0; ip maddr show dev u1
ip link set x0 down; ip maddr show dev u0; ip maddr show dev u1
ip link set x0 up; ip maddr show dev u0; ip maddr show dev u1
ip link set x0 type vxlan id 5 group 10.9.1.2; ip link set x0 down; ip maddr show dev u1
ip link set x1 up; ip link set x0 type vxlan id 5 group 239.1.1.1 dev u0; ip link set x0 up; ip maddr show dev u0; ip link set x1 type vxlan id 6 group 239.1.1.9; ip link set x1 down; ip maddr show dev u0; ip link set x0 down; ip maddr show dev u0
ip link set x0 type vxlan id 5 group ff05::100
# Groups as remotes of entries.
bridge fdb append 00:00:00:00:00:00 dev x1 dst 239.1.1.3
bridge fdb append 00:00:00:00:00:00 dev x1 dst 239.1.1.3 via u1
bridge fdb add 01:00:5e:00:00:09 dev x1 dst 239.1.1.4 via u0
bridge fdb add 02:00:00:00:00:99 dev x1 dst 239.1.1.4
bridge fdb add 02:00:00:00:00:98 dev x1 dst ff02::9
bridge fdb show dev x1
ip link set x1 up; ip maddr show dev u0; ip maddr show dev u1; ip link set x1 down
# What makes a device not go up.
sysctl -q net.ipv4.igmp_max_memberships=1; ip link add x6 type vxlan id 11 dstport 4789 group 239.1.1.6 dev u0; ip link set x0 up; ip link set x6 up; ip link set x1 up; ip link set x0 down; ip link set x1 up; ip maddr show dev u0; ip link set x6 up; ip link set x1 down; ip link set x0 down; ip link set x6 down; ip link del x6; sysctl -q net.ipv4.igmp_max_memberships=20
sysctl -q net.ipv6.conf.u0.disable_ipv6=1; ip link set x3 up; ip maddr show dev u0; ip link add x7 type vxlan id 12 dstport 4789 group ff05::100 dev u0; ip link set x3 down; sysctl -q net.ipv6.conf.u0.disable_ipv6=0
ip link set u1 mtu 1000; ip link set x5 up; ip link set x5 down
ip link set u1 mtu 60; ip link set x5 up; ip link set x0 type vxlan id 5 group 239.1.1.8 dev u1; ip link set x0 up; ip link set u1 mtu 1500
# The underlay device goes down and away.
ip link set x1 up; ip link set u0 down; ip maddr show dev u0; ip link set x1 down; ip maddr show dev u0; ip link set u0 up; ip link set x1 up; ip link set x2 up; ip link del u0; ip -o link show type vxlan | cut -d: -f2
