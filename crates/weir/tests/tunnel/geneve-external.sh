# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ipinner
# out: u0
# Metadata decide how a Geneve device sends.
# show: ip -s link show gx | tail -n +3
. "$(dirname "$0")/common.sh"
ip link add gx address 02:00:00:00:00:70 type geneve external
ip link set gx up
tc qdisc add dev in0 ingress
key() { echo "action tunnel_key set $* action mirred egress mirror dev gx action tunnel_key unset"; }
tc filter add dev in0 ingress matchall \
    $(key id 5 src_ip 192.0.2.1 dst_ip 192.0.2.2 csum) \
    $(key id 6 src_ip 192.0.2.1 dst_ip 192.0.2.3 nocsum ttl 9 tos 0x10 geneve_opts 0102:80:00112233) \
    $(key id 7 src_ip 192.0.2.1 dst_ip 192.0.2.4 csum geneve_opts 0102:80:0011223344556677,0304:05:aabbccdd) \
    $(key id 8 src_ip 2001:db8:1::1 dst_ip 2001:db8:1::2 csum ttl 7 geneve_opts ffff:01:01020304) \
    $(key id 9 src_ip 2001:db8:1::1 dst_ip 2001:db8:1::3 nocsum)
