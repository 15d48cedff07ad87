# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ipinner
# out: u0
# VXLAN devices that filter by VNI send by the remotes of the VNIs, and count per VNI. The filter is for what they receive.
# show: ip -s -s link show vx0 | tail -n +3
# show: ip -s -s link show vx1 | tail -n +3
# show: bridge -s vni show
# show: bridge fdb show | grep vx.*dst | sort
. "$(dirname "$0")/common.sh"
sysctl -qw net.ipv6.conf.all.disable_ipv6=1
sysctl -qw net.ipv6.conf.u0.disable_ipv6=0
ip link add br0 address 02:00:00:00:00:99 type bridge vlan_filtering 1 mcast_snooping 0
ip link add vx0 address 02:00:00:00:00:70 type vxlan external vnifilter dstport 4789 srcport 5000 5001 ttl 7 dev u0 remote 192.0.2.4
ip link add vx1 address 02:00:00:00:00:71 type vxlan external vnifilter dstport 4790 srcport 5000 5001
ip link set in0 master br0
ip link set vx0 master br0
bridge link set dev vx0 vlan_tunnel on
bridge vlan add dev in0 vid 10 pvid untagged
for v in 2-9 11-300; do bridge vlan add dev in0 vid $v; bridge vlan add dev vx0 vid $v; done
bridge vlan add dev vx0 vid 10
bridge vlan add dev vx0 vid 10 tunnel_info id 1000
bridge vlan add dev vx0 vid 100-300 tunnel_info id 5100-5300
bridge vlan add dev vx0 vid 2-9 tunnel_info id 2-9
vni() { python3 -IS "$(dirname "$0")/../linux/vxlan-vni.py" "$@"; }
vni add vni 1000 dev vx0
vni add vni 5100-5103 dev vx0 remote 192.0.2.2
vni add vni 2 dev vx0 remote 239.1.1.1
vni add vni 3 dev vx0 remote 192.0.2.3
vni add vni 3 dev vx0 remote 192.0.2.2
vni add vni 5 dev vx0 remote 2001:db8:1::2
vni add vni 6 dev vx0 remote ff05::100
vni add vni 70-71 dev vx1
ip link set vx0 up
ip link set vx1 up
ip link set br0 up
# By metadata: an identifier in the filter, one without a route, and one that the filter lacks.
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@" $(redirect vx1); }
set4="action tunnel_key set src_ip 192.0.2.1 dst_ip 192.0.2.2"
f protocol ip prio 1 flower ip_proto tcp $set4 id 70
f protocol ipv6 prio 2 flower ip_proto tcp action tunnel_key set src_ip 192.0.2.1 dst_ip 203.0.113.1 id 71
f protocol arp prio 3 flower $set4 id 72
f protocol ipv6 prio 4 flower ip_proto udp action tunnel_key set src_ip 2001:db8:1::1 dst_ip 2001:db8:1::3 id 71 dst_port 4791
