ip link delete d0
ip link delete d1
ip link add d0 address 02:00:00:00:00:01 numtxqueues 8 type veth peer name p0
ip link add d1 address 02:00:00:00:00:03 numtxqueues 8 type veth peer name p1
ip link add v0 index 48 address 02:00:00:00:00:01 type veth peer name v1
ip link add v2 index 67 type veth peer name v3
for dev in d0 p0 d1 p1 v0 v1 v2 v3; do echo 1 >/proc/sys/net/ipv6/conf/$dev/disable_ipv6; ip link set $dev up; done
for dev in all d0 v0; do echo 0 >/proc/sys/net/ipv4/conf/$dev/rp_filter; done
echo 1 >/proc/sys/net/ipv4/ip_forward
ip address add 10.255.0.1/8 dev v0
ip address add 192.168.9.9/16 dev d1
for host in 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 1.1 1.2 1.3 1.4 1.5 1.6 1.7 1.8; do ip neighbour add 192.168.$host lladdr 02:00:00:00:00:77 dev d1; done
tc filter add dev d0 ingress pref 1 protocol ip u32 match ip protocol 6 0xff action skbedit queue_mapping 5 continue
tc filter add dev d0 ingress pref 2 protocol ip u32 match ip src 10.1.0.0/16 action pass
tc filter add dev d0 ingress pref 3 protocol ip matchall action mirred egress redirect dev v1
tc qdisc add dev d1 clsact
tc qdisc add dev d1 root handle 1: multiq
tc filter add dev d1 egress pref 1 protocol ip route to 0 action continue
tc filter add dev d1 egress pref 2 protocol ip route to 0 from 0 action continue
tc filter add dev d1 egress pref 3 protocol ip route from 0 action continue
tc filter add dev d1 egress pref 4 protocol ip route fromif v0 action continue
tc filter add dev d1 egress pref 5 protocol ip route to 0 fromif v0 action continue
tc filter add dev d1 egress pref 6 protocol ip route fromif v2 action continue
tc filter add dev d1 egress pref 7 protocol ip route to 2 fromif v0 action continue
tc filter add dev d1 egress pref 8 protocol ip route to 2 from 3 action continue
tc filter add dev d1 egress pref 9 protocol ip route to 1 action continue
tc filter add dev d1 egress pref 10 protocol ip basic match 'meta(rt_classid eq 0)' action continue
tc filter add dev d1 egress pref 11 protocol ip basic match 'meta(rt_iif eq 48)' action continue
tc filter add dev d1 egress pref 12 protocol ip basic match 'not cmp(u8 at 9 layer 1 eq 6) or meta(rt_iif eq 48)' action skbedit queue_mapping 1 continue
tc filter add dev d1 egress pref 13 protocol ip u32 match ip protocol 17 0xff action skbedit queue_mapping 3 continue
tc filter add dev d1 egress pref 14 protocol ip u32 match ip protocol 1 0xff action skbedit queue_mapping 7 continue
tc filter add dev d1 egress pref 15 protocol ip u32 match ip protocol 47 0xff action skbedit queue_mapping 9 continue
