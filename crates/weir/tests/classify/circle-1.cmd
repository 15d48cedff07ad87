ip link add v0 type veth peer name v1
echo 1 >/proc/sys/net/ipv6/conf/v0/disable_ipv6; echo 1 >/proc/sys/net/ipv6/conf/v1/disable_ipv6
ip link set v0 up; ip link set v1 up
tc qdisc add dev d1 clsact
tc qdisc add dev v0 clsact
tc filter add dev d0 ingress pref 1 protocol ip u32 match ip protocol 17 0xff action mirred egress redirect dev d1
tc filter add dev d0 ingress pref 2 protocol ip matchall action mirred egress mirror dev d1
tc filter add dev d0 ingress pref 3 protocol ipv6 matchall action mirred egress redirect dev v0
tc filter add dev d1 egress pref 1 protocol ip u32 match ip protocol 17 0xff action pipe action mirred egress redirect dev v0 action drop
tc filter add dev d1 egress pref 2 protocol ip u32 match ip protocol 6 0xff action pipe action mirred egress mirror dev d1 action pass
tc filter add dev d1 egress pref 3 protocol ip u32 match ip protocol 1 0xff action pipe action mirred egress redirect dev d1
tc filter add dev d1 egress pref 4 protocol ip u32 match ip protocol 47 0xff action pipe action mirred egress mirror dev v0 pipe action mirred egress mirror dev d1 pipe action pass
tc filter add dev d1 egress pref 5 protocol ipv6 matchall action pipe action mirred egress mirror dev v0 drop
tc filter add dev v0 egress pref 1 protocol ip matchall action mirred egress redirect dev d1
tc filter add dev v0 egress pref 2 protocol ipv6 matchall action mirred egress redirect dev d1
