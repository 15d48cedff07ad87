ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add d1 address 02:00:00:00:00:02 type dummy
ip link set d0 up
tc filter add dev d0 ingress matchall action drop
tc qdisc add dev d0 clsact
tc filter show dev d0 ingress
tc filter add dev d0 ingress protocol ip flower dst_ip 10.0.0.0/8 ip_proto tcp dst_port 80 action drop
tc filter add dev d0 ingress protocol ip flower dst_ip 10.0.0.0/8 ip_proto tcp dst_port 80 action drop
tc filter add dev d0 ingress protocol ip pref 10 handle 5 flower src_ip 10.1.0.0/16 action mirred egress redirect dev d1
tc filter add dev d0 ingress protocol ip pref 10 handle 5 flower src_ip 10.2.0.0/16 action drop
tc filter add dev d0 ingress protocol ip pref 10 flower src_ip 10.1.0.0/16 action drop
tc filter add dev d0 ingress protocol ipv6 pref 10 flower action drop
tc filter add dev d0 ingress protocol ipv6 pref 11 flower src_ip 2001:db8::/32 classid 1:5 action pass
tc filter add dev d0 ingress protocol 802.1q pref 12 flower vlan_id 5 vlan_prio 3 vlan_ethtype ipv4 action goto chain 7
tc filter add dev d0 ingress protocol all pref 13 matchall action mirred egress mirror dev d1 pipe action ok
tc filter add dev d0 egress protocol all matchall skip_hw action drop
tc filter add dev d0 egress protocol all matchall skip_sw action drop
tc filter add dev d0 ingress chain 7 protocol arp flower arp_op request arp_tip 10.0.0.1 action drop
tc filter show dev d0 ingress
pass 3
tc -s filter show dev d0 ingress
tc -s -d filter show dev d0 ingress
tc -j -p -s filter show dev d0 ingress
tc filter show dev d0 egress
tc filter show dev d0 ingress chain 7
tc filter show dev d0 ingress protocol ip
tc filter show dev d0 ingress pref 13
tc filter get dev d0 ingress protocol ip pref 10 handle 5 flower
tc filter get dev d0 ingress protocol ip pref 10 handle 6 flower
tc filter get dev d0 ingress protocol ip pref 99 handle 6 flower
tc chain show dev d0 ingress
tc chain add dev d0 ingress chain 9
tc chain add dev d0 ingress chain 9
tc chain show dev d0 ingress
tc chain get dev d0 ingress chain 7
tc chain get dev d0 ingress chain 8
tc chain del dev d0 ingress chain 9
tc chain del dev d0 ingress chain 9
tc chain add dev d0 ingress chain 11 protocol ip flower dst_ip 0.0.0.0/16
tc chain show dev d0 ingress
tc filter add dev d0 ingress chain 11 protocol ip flower dst_ip 10.0.0.0/16 action drop
tc filter add dev d0 ingress chain 11 protocol ip flower dst_ip 10.0.0.0/24 action drop
tc filter replace dev d0 ingress protocol ip pref 10 handle 5 flower src_ip 10.3.0.0/16 action drop
tc filter change dev d0 ingress protocol ip pref 10 handle 5 flower src_ip 10.4.0.0/16 action pass
tc filter change dev d0 ingress protocol ip pref 10 handle 77 flower src_ip 10.4.0.0/16 action pass
tc filter show dev d0 ingress pref 10
tc filter del dev d0 ingress protocol ip pref 10 handle 5 flower
tc filter del dev d0 ingress protocol ip pref 10 handle 5 flower
tc filter del dev d0 ingress pref 13
tc filter del dev d0 ingress pref 13
tc filter show dev d0 ingress
tc filter del dev d0 ingress chain 7
tc filter del dev d0 ingress
tc filter show dev d0 ingress
tc filter add dev d0 ingress protocol ip flower dst_port 80 action drop
tc filter add dev d0 ingress protocol ip flower ip_proto udp dst_port 80-90 action drop
tc filter add dev d0 ingress protocol ip flower ip_proto udp dst_port 90-80 action drop
tc filter add dev d0 ingress protocol ip flower ip_tos 0x10/0xfc ip_ttl 64 action drop
tc filter add dev d0 ingress protocol ip flower ip_flags frag/nofirstfrag action drop
tc filter add dev d0 ingress protocol ip flower ip_proto icmp type 8 code 0 action drop
tc filter add dev d0 ingress protocol ip flower ip_proto tcp tcp_flags 0x2/0x12 action drop
tc filter add dev d0 ingress flower src_mac 02:00:00:00:00:00/ff:ff:ff:00:00:00 dst_mac 01:02:03:04:05:06 action drop
tc filter add dev d0 ingress protocol ip flower indev d1 action drop
tc filter add dev d0 ingress protocol ip flower indev nosuch action drop
tc filter add dev d0 ingress protocol mpls_uc flower mpls_label 5 mpls_ttl 3 action drop
tc filter add dev d0 ingress protocol ip flower verbose skip_sw dst_ip 1.2.3.4 action drop
tc filter add dev d0 ingress protocol ip flower dst_ip 1.2.3.4 hw_tc 3 action drop
tc filter add dev d0 ingress protocol ip flower dst_ip 1.2.3.5
tc filter show dev d0 ingress
tc filter add dev d0 ingress protocol ip flower dst_ip 300.1.1.1 action drop
tc filter add dev d0 ingress protocol ip nosuch
tc filter add dev d0 ingress protocol ip flower action nosuch
tc filter add dev nosuch ingress protocol ip flower
tc filter add dev d0 parent 5: protocol ip flower action drop
tc filter add dev d0 parent ffff:fff4 protocol ip flower action drop
tc filter add dev d0 ingress chain 4294967295 protocol ip flower action drop
tc filter add dev d0 ingress protocol ip flower action goto chain 300000000000
tc filter add dev d0 ingress protocol ip flower action mirred egress redirect dev nosuch
tc filter add dev d0 ingress protocol ip pref 70000 flower action drop
tc filter add dev d0 ingress protocol ip handle 0x80000000 flower dst_ip 9.9.9.9 action drop
tc filter add dev d0 ingress protocol ip handle 7 matchall
tc qdisc add dev d1 ingress_block 3 egress_block 4 clsact
tc filter add block 3 protocol ip flower dst_ip 1.1.1.1 action drop
tc filter show block 3
tc filter show dev d1 ingress
tc filter add dev d1 ingress protocol ip flower dst_ip 1.1.1.1 action drop
tc filter add block 99 protocol ip flower
tc qdisc show dev d1
tc chain show block 3
tc filter del block 3
ip link del d1
tc filter show dev d0 ingress
ip link del d0
