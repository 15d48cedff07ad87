# cls_api.c: priorities, protocols, chains and their templates, shared blocks.
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add d1 address 02:00:00:00:00:02 type dummy
tc filter show dev d0 ingress
tc filter add dev d0 ingress protocol ip matchall action drop
tc filter add dev d0 protocol ip matchall action drop
tc filter add dev d0 parent 1: protocol ip matchall action drop
tc chain add dev d0 ingress chain 3
tc qdisc add dev d0 clsact
tc filter add dev d0 parent ffff: protocol ip matchall action drop
tc filter add dev d0 parent ffff:1 protocol ip matchall action drop
tc actions add action gact pass index 99
tc actions del action gact index 99
tc filter add dev d0 ingress protocol ip matchall action continue
tc filter add dev d0 ingress protocol ip matchall action continue
tc filter add dev d0 ingress protocol ipv6 matchall action continue
tc filter add dev d0 ingress matchall action continue
tc filter add dev d0 ingress protocol arp pref 5 matchall action continue
tc filter add dev d0 ingress protocol arp pref 65535 matchall action continue
tc filter add dev d0 ingress protocol 0x88b5 pref 1 matchall action continue
tc filter add dev d0 ingress protocol 802.1ad pref 2 matchall action continue
tc filter show dev d0 ingress
tc filter show dev d0 ingress protocol arp
tc filter show dev d0 ingress protocol all
tc filter show dev d0 ingress pref 5
tc filter show dev d0 ingress protocol ip pref 5
tc filter add dev d0 ingress protocol ip pref 5 matchall action drop
tc filter add dev d0 ingress protocol arp pref 5 flower action drop
tc filter add dev d0 ingress protocol arp pref 5 handle 9 matchall action drop
tc filter add dev d0 ingress protocol arp pref 5 handle 1 matchall action drop
tc filter replace dev d0 ingress protocol arp pref 5 handle 1 matchall action drop
tc filter replace dev d0 ingress protocol arp pref 6 handle 1 matchall action drop
tc filter replace dev d0 ingress protocol arp handle 1 matchall action drop
tc filter change dev d0 ingress protocol arp pref 5 handle 1 matchall action drop
tc filter change dev d0 ingress protocol arp pref 7 handle 1 matchall action drop
tc filter change dev d0 ingress protocol arp handle 1 matchall action drop
tc filter get dev d0 ingress protocol arp handle 1 matchall
tc filter get dev d0 ingress protocol arp pref 5 handle 1 matchall
tc filter get dev d0 ingress protocol ip pref 5 handle 1 matchall
tc filter get dev d0 ingress protocol arp pref 5 handle 1 flower
tc filter get dev d0 ingress protocol arp pref 8 handle 1 matchall
tc filter get dev d0 ingress chain 4 protocol arp pref 5 handle 1 matchall
tc filter del dev d0 ingress protocol arp
tc filter del dev d0 ingress handle 1 matchall
tc filter del dev d0 ingress matchall
tc filter del dev d0 ingress protocol ip pref 5
tc filter del dev d0 ingress protocol arp pref 5 handle 7 matchall
tc filter del dev d0 ingress protocol arp pref 5 handle 1 flower
tc filter del dev d0 ingress protocol arp pref 5 handle 1 matchall
tc filter del dev d0 ingress pref 65535 matchall
tc filter del dev d0 ingress pref 6 flower
tc filter del dev d0 ingress chain 4 pref 6
tc filter del dev d0 ingress chain 4
tc filter show dev d0 ingress
tc filter del dev d0 ingress
tc filter show dev d0 ingress
tc chain add dev d0 ingress chain 1
tc chain add dev d0 ingress chain 1
tc chain add dev d0 ingress chain 268435455
tc chain add dev d0 ingress chain 268435456
tc chain add dev d0 ingress
tc chain show dev d0 ingress
tc filter add dev d0 ingress chain 268435456 matchall action drop
tc filter show dev d0 ingress chain 268435456
tc chain add dev d0 ingress chain 2 protocol ip flower dst_ip 0.0.0.0/24 ip_proto tcp
tc chain add dev d0 ingress chain 5 flower src_mac 00:00:00:00:00:00/FF:FF:FF:FF:FF:FF
tc chain add dev d0 ingress chain 6 protocol ip u32 match u32 0 0
tc chain add dev d0 ingress chain 6 matchall
tc chain add dev d0 ingress chain 6 nosuch
tc chain add dev d0 ingress chain 6 flower dst_ip 1.2.3.4
tc chain show dev d0 ingress
tc -j -p chain show dev d0 ingress
tc chain get dev d0 ingress chain 2
tc chain get dev d0 ingress chain 9
tc filter add dev d0 ingress chain 2 protocol ip matchall action drop
tc filter add dev d0 ingress chain 2 protocol ip u32 match u32 0 0
tc filter add dev d0 ingress chain 2 protocol ip flower dst_ip 10.0.0.1 action drop
tc filter add dev d0 ingress chain 2 protocol ip flower dst_ip 10.0.0.0/24 action drop
tc filter add dev d0 ingress chain 2 protocol ip flower dst_ip 10.0.1.0/24 ip_proto tcp action drop
tc filter add dev d0 ingress chain 2 protocol ip flower dst_ip 10.0.1.0/24 ip_proto tcp dst_port 80 action drop
tc filter add dev d0 ingress chain 5 flower src_mac 02:00:00:00:00:01 action drop
tc filter add dev d0 ingress chain 5 flower dst_mac 02:00:00:00:00:01 action drop
tc filter show dev d0 ingress
tc chain del dev d0 ingress chain 2
tc chain show dev d0 ingress
tc filter show dev d0 ingress chain 2
tc filter add dev d0 ingress chain 7 matchall action drop
tc chain show dev d0 ingress
tc chain add dev d0 ingress chain 7
tc chain del dev d0 ingress chain 7
tc chain show dev d0 ingress
tc chain del dev d0 ingress chain 7
tc filter add dev d0 ingress pref 1 matchall action goto chain 8
tc chain show dev d0 ingress
tc chain get dev d0 ingress chain 8
tc chain add dev d0 ingress chain 8
tc chain show dev d0 ingress
tc chain del dev d0 ingress chain 8
tc chain del dev d0 ingress chain 8
tc filter add dev d0 ingress chain 8 pref 1 matchall action goto chain 0
tc filter add dev d0 ingress chain 8 pref 2 matchall action goto chain 8
tc filter show dev d0 ingress
tc filter del dev d0 ingress pref 1
tc filter show dev d0 ingress
tc chain show dev d0 ingress
tc chain del dev d0 ingress
tc filter del dev d0 ingress chain 8
tc chain show dev d0 ingress
tc filter add block 5 matchall action drop
tc filter show block 5
tc chain add block 5 chain 1
tc chain show block 5
tc qdisc add dev d1 ingress_block 5 egress_block 6 clsact
tc qdisc show dev d1
tc filter add block 5 protocol ip matchall action drop
tc filter add block 5 protocol ip pref 3 flower dst_ip 1.2.3.4 action goto chain 4
tc filter add block 5 chain 4 protocol ip pref 3 handle 5 flower dst_ip 1.2.3.4 action pass
tc filter add dev d1 ingress matchall action drop
tc filter show dev d1 ingress
tc filter show dev d1 egress
tc filter del dev d1 ingress
tc filter get dev d1 ingress protocol ip pref 3 handle 1 flower
tc filter get block 5 protocol ip pref 3 handle 1 flower
tc filter get block 5 chain 4 protocol ip pref 3 handle 5 flower
tc filter show block 5
tc -j -p filter show block 5
tc chain show block 5
tc chain add block 6 chain 9 protocol ip flower dst_ip 0.0.0.0/8
tc chain show block 6
tc qdisc del dev d0 clsact
tc qdisc add dev d0 ingress_block 5 ingress
tc qdisc show dev d0
tc qdisc del dev d1 clsact
tc filter show block 5
tc filter show block 6
tc filter del block 5 pref 3
tc filter show block 5
tc filter del block 6
ip link del d0
tc filter show block 5
tc filter add block 5 matchall action drop
tc qdisc add dev d1 ingress_block 0 clsact
tc qdisc add dev d1 egress_block 7 ingress
tc qdisc add dev d1 root handle 1: prio
tc filter add dev d1 parent 1: protocol ip matchall classid 1:2
tc filter add dev d1 protocol ip matchall classid 1:3
tc filter add dev d1 parent 1:1 protocol ip matchall classid 1:2
tc filter add dev d1 parent 1:9 protocol ip matchall classid 1:2
tc filter show dev d1
tc filter show dev d1 parent 1:
tc chain show dev d1 parent 1:
tc chain add dev d1 parent 1: chain 4
tc chain show dev d1
tc qdisc del dev d1 root
tc filter show dev d1
ip link del d1
