# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: u0 gpeouter
# out: out0
# Datagrams for vxlan devices with the generic protocol extension: the packets that they decapsulate, and the filters whose
# tunnel keys match.
# show: ip -s -s link show vx0 | tail -n +3
# show: ip -s -s link show vx1 | tail -n +3
# show: ip -s -s link show vx2 | tail -n +3
# show: bridge -s vni show dev vx1
. "$(dirname "$0")/common.sh"
ip link add vx0 type vxlan external gpe dstport 4790
ip link add vx1 type vxlan external gpe dstport 4791 vnifilter udp6zerocsumrx
ip link add vx2 type vxlan external gpe dstport 4792
for n in 0 1; do
    ip link set vx$n up
    tc qdisc add dev vx$n clsact
done
bridge vni add dev vx1 vni 5
bridge vni add dev vx1 vni 7
f() { d=$1; shift; tc filter add dev $d ingress "$@"; }
sent() { echo "action vlan push_eth dst_mac 02:00:00:00:00:0$1 src_mac 02:00:00:00:00:aa $(redirect out0)"; }
f vx0 protocol ip prio 1 flower enc_key_id 5 enc_src_ip 192.0.2.2 enc_dst_port 4790 enc_tos 0x10/0xfc enc_ttl 9 $(sent 1)
f vx0 protocol ipv6 prio 2 flower enc_key_id 5 $(sent 2)
f vx0 protocol ip prio 3 flower enc_src_ip 2001:db8:1::/64 enc_key_id 7 $(sent 3)
f vx0 protocol 0x6558 prio 4 matchall $(redirect out0)
f vx0 protocol mpls_uc prio 5 matchall $(sent 5)
f vx0 protocol 0x894f prio 6 matchall $(sent 6)
f vx0 protocol all prio 20 matchall $(sent 7)
f vx1 protocol all prio 1 matchall $(sent 8)
