# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: u0 outer
# out: out0
# Datagrams for vxlan devices: the frames that they decapsulate, and the filters whose tunnel keys match (the
# filters set the source address).
# show: ip -s -s link show vx0 | tail -n +3
# show: ip -s -s link show vx1 | tail -n +3
# show: ip -s -s link show vx2 | tail -n +3
# show: ip -s -s link show vx3 | tail -n +3
# show: bridge fdb show | grep vx | sort
. "$(dirname "$0")/common.sh"
ip link add vx0 address 02:00:00:00:00:70 type vxlan external dstport 4789
ip link add vx1 address 02:00:00:00:00:71 type vxlan id 1 dstport 4790 remote 192.0.2.9
ip link add vx2 address 02:00:00:00:00:72 type vxlan id 2 dstport 4791 local 2001:db8:1::1 udp6zerocsumrx
ip link add vx3 address 02:00:00:00:00:73 type vxlan external dstport 4792 gbp
for n in 0 1 2 3; do
    ip link set vx$n up
    tc qdisc add dev vx$n clsact
done
f() { d=$1; shift; tc filter add dev $d ingress "$@"; }
sent() { echo "action vlan push id $1 $(redirect out0)"; }
f vx0 protocol all prio 1 flower enc_key_id 5 enc_src_ip 192.0.2.2 enc_dst_ip 192.0.2.0/24 enc_dst_port 4789 enc_tos 0x10/0xfc enc_ttl 9 $(sent 101)
f vx0 protocol all prio 2 flower enc_key_id 5 enc_ttl 8/0xf8 $(sent 102)
f vx0 protocol all prio 3 flower enc_src_ip 2001:db8:1::/64 enc_dst_ip 2001:db8:1::1 enc_key_id 7 $(sent 103)
f vx0 protocol all prio 4 flower enc_tos 0x20 $(sent 104)
f vx0 protocol ip prio 5 flower enc_dst_ip 192.0.2.1 ip_proto tcp $(sent 105)
f vx0 protocol all prio 6 flower enc_src_ip 192.0.2.2 $(sent 106)
f vx0 protocol all prio 20 matchall $(sent 199)
f vx1 protocol all prio 1 flower enc_key_id 1 $(sent 201)
f vx1 protocol all prio 2 flower enc_src_ip 192.0.2.2 $(sent 202)
f vx1 protocol all prio 3 matchall $(sent 203)
f vx2 protocol all prio 1 matchall $(sent 301)
f vx3 protocol all prio 1 flower vxlan_opts 7 $(sent 401)
f vx3 protocol all prio 2 flower vxlan_opts 7/0xffff $(sent 402)
f vx3 protocol all prio 3 flower vxlan_opts 524288/0x80000 $(sent 403)
f vx3 protocol all prio 4 matchall $(sent 404)
