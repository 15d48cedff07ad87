# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: u0 erspanouter
# out: out0
# Packets for erspan and ip6erspan devices: the frames that come out, and the filters whose tunnel keys and options match.
# show: for d in e0 e1 e2 e3 e4 x6 s1 s2 s3 s4 t1 erspan0; do echo $d; ip -s -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
a() { n=$1; shift; ip link add $n type "$@"; ip link set $n up; tc qdisc add dev $n clsact; }
a e0 erspan erspan_ver 0 remote 192.0.2.2 local 192.0.2.1
a e1 erspan seq key 5 remote 192.0.2.2 local 192.0.2.1 dev u0
a e2 erspan erspan_ver 2 oseq key 6 remote 192.0.2.2
a e3 erspan seq key 0 remote 192.0.2.4
a e4 erspan external
a x6 ip6erspan external
a s1 ip6erspan seq key 5 remote 2001:db8:1::2 local 2001:db8:1::1
a s2 ip6erspan erspan_ver 2 oseq key 6 remote 2001:db8:1::2 local 2001:db8:1::1
a s3 ip6erspan oseq key 0x3ff local 2001:db8:1::1
a s4 ip6gretap key 9 remote 2001:db8:1::4 local 2001:db8:1::1
a t1 gretap key 9 remote 192.0.2.4
ip link set erspan0 address 02:00:00:00:00:e0 up
ip link set ip6gre0 up
tc qdisc add dev erspan0 clsact
f() { d=$1; shift; tc filter add dev $d ingress "$@"; }
sent() { echo "action vlan push id $1 $(redirect out0)"; }
n=10
for d in e0 e1 e2 e3 s1 s2 s3 s4 t1 erspan0; do n=$((n + 1)); f $d protocol all prio 9 matchall $(sent $n); done
for d in e4 x6; do
    n=$((n + 10))
    f $d protocol all prio 1 flower enc_key_id 9 enc_ttl 9 erspan_opts 1:0x12345:0:0 $(sent $((n + 1)))
    f $d protocol all prio 2 flower erspan_opts 2:0:1:31 $(sent $((n + 2)))
    f $d protocol all prio 3 flower erspan_opts 2:0:1:0/2:0:1:0 $(sent $((n + 3)))
    f $d protocol all prio 4 flower enc_key_id 6 $(sent $((n + 4)))
    f $d protocol all prio 5 matchall $(sent $((n + 5)))
done
