# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: u0 outer
# out: out0
# Datagrams for a vxlan device in external mode whose network identifiers are VLANs of a bridge.
# show: ip -s -s link show vx0 | tail -n +3
# show: bridge fdb show | grep vx | grep -v permanent | sort
. "$(dirname "$0")/common.sh"
sysctl -qw net.ipv6.conf.all.disable_ipv6=1
sysctl -qw net.ipv6.conf.u0.disable_ipv6=0
ip link add br0 address 02:00:00:00:00:99 type bridge vlan_filtering 1 mcast_snooping 0
ip link add vx0 address 02:00:00:00:00:70 type vxlan external dstport 4789
ip link set out0 master br0
ip link set vx0 master br0
bridge link set dev vx0 vlan_tunnel on
for v in 50 60 70 100; do bridge vlan add dev vx0 vid $v; bridge vlan add dev out0 vid $v; done
bridge vlan add dev out0 vid 60 untagged
bridge vlan del dev vx0 vid 1
bridge vlan add dev vx0 vid 50 tunnel_info id 5
bridge vlan add dev vx0 vid 60 tunnel_info id 6
ip link set vx0 up
ip link set br0 up
