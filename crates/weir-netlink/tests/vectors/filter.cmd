! ip link add d0 type veth peer name pd0
! ip link add d1 type veth peer name pd1
! ip link set d0 up
! tc qdisc add dev d0 clsact
tc filter add dev d0 ingress matchall action drop
tc filter add dev d0 ingress prio 7 handle 3 matchall skip_hw classid 1:2 action mirred egress mirror dev d1
tc filter add dev d0 ingress flower action drop
tc filter add dev d0 ingress protocol ip prio 5 flower skip_hw classid 1:1 ip_proto tcp dst_ip 192.0.2.0/24 src_ip 10.0.0.1 dst_port 80 src_port 1000-2000 action pass
tc filter add dev d0 ingress protocol ipv6 prio 6 flower ip_proto udp dst_ip 2001:db8::/32 src_ip 2001:db8::1 src_port 53 action drop
tc filter add dev d0 egress protocol all prio 8 flower indev d1 src_mac 02:00:00:00:00:01 dst_mac 02:00:00:00:00:00/ff:ff:ff:00:00:00 action pass
tc filter add dev d0 ingress protocol ip flower ip_proto tcp tcp_flags 0x2/0x17 ip_tos 0x10/0xfc ip_ttl 64 ip_flags frag/firstfrag action ok
tc filter add dev d0 ingress protocol ip flower ip_proto icmp type 8 code 0 action drop
tc filter add dev d0 ingress protocol ipv6 flower ip_proto icmpv6 type 128 code 0 action drop
tc filter add dev d0 ingress protocol ip flower ip_proto sctp dst_port 36412 action drop
tc filter add dev d0 ingress protocol 802.1Q flower vlan_id 100 vlan_prio 3 vlan_ethtype ipv4 dst_ip 192.0.2.1 action drop
tc filter add dev d0 ingress protocol 802.1ad flower vlan_id 100 vlan_ethtype 802.1q cvlan_id 200 cvlan_prio 5 cvlan_ethtype ipv4 src_ip 10.0.0.0/8 action drop
tc filter add dev d0 ingress protocol 802.1Q flower num_of_vlans 2 action drop
tc filter add dev d0 ingress protocol arp flower arp_op request arp_sip 192.0.2.0/24 arp_tip 192.0.2.1 arp_sha 02:00:00:00:00:01 arp_tha 02:00:00:00:00:02 action drop
tc filter add dev d0 ingress protocol rarp flower arp_op reply action drop
tc filter add dev d0 ingress protocol mpls_uc flower mpls_label 100 mpls_tc 3 mpls_bos 1 mpls_ttl 64 action drop
tc filter add dev d0 ingress protocol mpls_uc flower mpls lse depth 1 label 100 lse depth 2 label 200 tc 1 bos 1 ttl 5 action drop
tc filter add dev d0 ingress protocol ip flower enc_src_ip 192.0.2.1 enc_dst_ip 192.0.2.0/24 enc_key_id 42 enc_dst_port 4789 enc_tos 0x10 enc_ttl 64 action drop
tc filter add dev d0 ingress protocol ip flower enc_src_ip 2001:db8::1 enc_dst_ip 2001:db8::2 enc_key_id 7 geneve_opts 0102:80:00112233/ffff:ff:ffffffff action drop
tc filter add dev d0 ingress protocol ip flower enc_key_id 7 vxlan_opts 5/255 action drop
tc filter add dev d0 ingress protocol ip flower enc_key_id 7 erspan_opts 1:9:0:0/255:4294967295:255:255 action drop
tc filter add dev d0 ingress protocol ip flower enc_key_id 7 gtp_opts 01:3/ff:ff action drop
tc filter add dev d0 ingress protocol ip flower ct_state +trk+est ct_zone 5 ct_mark 0x10/0xff ct_label 0123456789abcdef action drop
tc filter add dev d0 ingress protocol ppp_ses flower pppoe_sid 7 ppp_proto ip src_ip 192.0.2.1 action drop
tc filter add dev d0 ingress protocol ip flower hw_tc 3 action drop
tc filter add dev d0 ingress protocol ip prio 9 handle 0x10 flower skip_sw verbose dst_ip 192.0.2.5 action drop
tc filter add dev d0 ingress chain 5 protocol ip prio 1 flower src_ip 10.9.9.9 action goto chain 6
tc filter add block 22 protocol ip prio 1 flower dst_ip 192.0.2.9 action drop
tc filter add dev d0 ingress protocol ip u32 match ip dst 192.0.2.0/24 match ip protocol 6 0xff flowid 1:1
tc filter add dev d0 ingress protocol ip prio 3 u32 match u32 0x12345678 0xffffffff at 12 action mirred egress redirect dev d1
tc filter add dev d0 parent ffff: prio 2 u32 divisor 256
tc filter add dev d0 ingress protocol ip basic match 'cmp(u16 at 2 layer 1 gt 100)' classid 1:5
tc filter add dev d0 ingress protocol ip handle 7 fw classid 1:7
tc filter add dev d0 ingress protocol ip flow hash keys src,dst divisor 16
tc filter replace dev d0 ingress protocol ip prio 9 handle 0x10 flower dst_ip 192.0.2.6 action pass
tc filter change dev d0 ingress protocol ip prio 9 handle 0x10 flower dst_ip 192.0.2.7 action pass
tc filter show dev d0 ingress
tc -s filter show dev d0 egress
tc filter show block 22
tc filter get dev d0 ingress protocol ip prio 9 handle 0x10 flower
tc filter del dev d0 ingress protocol ip prio 9 handle 0x10 flower
tc filter del dev d0 ingress
tc chain add dev d0 ingress chain 9
tc chain add dev d0 ingress chain 10 flower dst_mac 00:00:00:00:00:00 src_mac 00:00:00:00:00:00
tc chain show dev d0 ingress
tc chain del dev d0 ingress chain 9
