# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ipinner
# out: u0
# VLANs of a bridge with tunnel ids, through a vxlan device in external mode: its table decides by the id.
# show: ip -s -s link show vx0 | tail -n +3
. "$(dirname "$0")/common.sh"
sysctl -qw net.ipv6.conf.all.disable_ipv6=1
sysctl -qw net.ipv6.conf.u0.disable_ipv6=0
ip link add br0 address 02:00:00:00:00:99 type bridge vlan_filtering 1 mcast_snooping 0
ip link add vx0 address 02:00:00:00:00:70 type vxlan external dstport 4789 srcport 5000 5001 ttl 7
ip link set in0 master br0
ip link set vx0 master br0
bridge link set dev vx0 vlan_tunnel on
bridge vlan add dev in0 vid 10 pvid untagged
for v in 2-9 11-300; do bridge vlan add dev in0 vid $v; bridge vlan add dev vx0 vid $v; done
bridge vlan add dev vx0 vid 10
bridge vlan add dev vx0 vid 10 tunnel_info id 1000
bridge vlan add dev vx0 vid 100-300 tunnel_info id 5100-5300
bridge vlan add dev vx0 vid 2-9 tunnel_info id 2-9
bridge fdb append 00:00:00:00:00:00 dev vx0 dst 192.0.2.2 src_vni 1000
bridge fdb append 00:00:00:00:00:00 dev vx0 dst 192.0.2.3 src_vni 1000 vni 77
bridge fdb append 02:00:00:00:00:d0 dev vx0 dst 192.0.2.4 src_vni 1000 vni 88 self
for v in 5100 5101 5123 5200 2 3 5 7; do bridge fdb append 00:00:00:00:00:00 dev vx0 dst 192.0.2.3 src_vni $v; done
ip link set vx0 up
ip link set br0 up
