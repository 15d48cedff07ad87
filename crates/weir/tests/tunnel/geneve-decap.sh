# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: u0 geneveouter
# out: out0
# Frames come out of Geneve devices, and filters see the tunnel.
# show: for d in g5 g6 g7 gx; do echo $d; ip -s -s link show $d | tail -n +3; done
# show: tc -s filter show dev gx ingress | grep -e enc_ -e Sent
. "$(dirname "$0")/common.sh"
g() { d=$1; shift; ip link add $d type geneve "$@"; ip link set $d address 02:00:00:00:00:70 up; tc qdisc add dev $d ingress; }
g g5 id 5 remote 192.0.2.2
g g6 id 6 remote 192.0.2.3
g g7 id 7 remote 2001:db8:1::2
g gx external dstport 6082
for d in g5 g6 g7; do tc filter add dev $d ingress matchall $(redirect out0); done
tc filter add dev gx ingress prio 1 flower enc_key_id 5 enc_src_ip 192.0.2.2 geneve_opts 0102:80:00112233 $(redirect out0)
tc filter add dev gx ingress prio 2 flower enc_key_id 6 enc_src_ip 192.0.2.2 $(redirect out0)
tc filter add dev gx ingress prio 3 flower enc_key_id 7 enc_src_ip 2001:db8:1::2 enc_dst_port 6082 $(redirect out0)
tc filter add dev gx ingress prio 9 matchall action drop
