tc filter add dev d0 ingress pref 1 protocol ip u32 match ip protocol 17 0xff action tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2 id 5 dst_port 4789 tos 0x14 ttl 9 continue
tc filter add dev d0 ingress pref 2 protocol ip u32 match ip protocol 6 0xff action tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.3 id 4294967295 nocsum geneve_opts 0102:80:00880022,0408:42:0040007611223344 continue
tc filter add dev d0 ingress pref 3 protocol ip u32 match ip protocol 1 0xff action tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.4 id 6 vxlan_opts 65793 continue
tc filter add dev d0 ingress pref 4 protocol ip u32 match ip protocol 47 0xff action tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.5 id 7 erspan_opts 2:0:1:63 continue
tc filter add dev d0 ingress pref 5 protocol ipv6 flower ip_proto udp action tunnel_key set src_ip fd00::1 dst_ip fd00::2 id 8 erspan_opts 1:287454020:0:0 continue
tc filter add dev d0 ingress pref 6 protocol ipv6 flower ip_proto tcp action tunnel_key set src_ip fd00::1 dst_ip fd00::3 continue
tc filter add dev d0 ingress pref 7 protocol ipv6 flower ip_proto icmpv6 action tunnel_key set src_ip fd00::1 dst_ip fd00::4 id 9 pipe action tunnel_key unset continue
tc filter add dev d0 ingress pref 10 protocol ip flower enc_key_id 5 action continue
tc filter add dev d0 ingress pref 10 protocol ip flower enc_key_id 4294967295 action continue
tc filter add dev d0 ingress pref 10 protocol ip flower enc_key_id 0 action continue
tc filter add dev d0 ingress pref 11 protocol all flower enc_src_ip 10.0.0.1 action continue
tc filter add dev d0 ingress pref 12 protocol ip flower enc_src_ip 10.0.0.0/8 enc_dst_ip 10.0.0.2/31 action continue
tc filter add dev d0 ingress pref 13 protocol ip flower enc_dst_port 4789 action continue
tc filter add dev d0 ingress pref 14 protocol ip flower enc_tos 0x14/0x1c enc_ttl 9 action continue
tc filter add dev d0 ingress pref 15 protocol ip flower enc_ttl 0 action continue
tc filter add dev d0 ingress pref 16 protocol ip flower geneve_opts 0102:80:00880022,0408:42:0040007611223344 action continue
tc filter add dev d0 ingress pref 17 protocol ip flower geneve_opts 0102:80:00880022 action continue
tc filter add dev d0 ingress pref 18 protocol ip flower geneve_opts 0102:80:00880000/ffff:ff:ffff0000,0408:42:0040007600000000/ffff:ff:ffffffff00000000 action continue
tc filter add dev d0 ingress pref 19 protocol ip flower geneve_opts 0102:81:00880022,0408:42:0040007611223344 action continue
tc filter add dev d0 ingress pref 20 protocol ip flower vxlan_opts 65793 action continue
tc filter add dev d0 ingress pref 21 protocol ip flower vxlan_opts 1/0xff action continue
tc filter add dev d0 ingress pref 22 protocol ip flower vxlan_opts 2/0xff action continue
tc filter add dev d0 ingress pref 23 protocol all flower erspan_opts 2:0:1:63 action continue
tc filter add dev d0 ingress pref 24 protocol all flower erspan_opts 1:287454020:0:0 action continue
tc filter add dev d0 ingress pref 25 protocol ipv6 flower enc_src_ip fd00::1 enc_dst_ip fd00::2/127 action continue
tc filter add dev d0 ingress pref 26 protocol ipv6 flower enc_src_ip fd00::/16 enc_key_id 8 action continue
tc filter add dev d0 ingress pref 27 protocol ipv6 flower enc_key_id 9 action continue
tc filter add dev d0 ingress pref 28 protocol ipv6 flower enc_key_id 0 action continue
tc filter add dev d0 ingress pref 30 protocol ip u32 match ip protocol 17 0xff action skbedit priority 1:2 ptype otherhost continue
tc filter add dev d0 ingress pref 31 protocol ip u32 match ip protocol 6 0xff action skbedit priority 7 ptype broadcast continue
tc filter add dev d0 ingress pref 32 protocol ip u32 match ip protocol 1 0xff action skbedit inheritdsfield ptype multicast continue
tc filter add dev d0 ingress pref 33 protocol ipv6 matchall action skbedit inheritdsfield ptype host continue
tc filter add dev d0 ingress pref 34 protocol all basic match 'meta(priority eq 0x10002)' action continue
tc filter add dev d0 ingress pref 35 protocol all basic match 'meta(priority eq 7)' action continue
tc filter add dev d0 ingress pref 36 protocol all basic match 'meta(priority eq 46)' action continue
tc filter add dev d0 ingress pref 37 protocol all basic match 'meta(priority eq 4)' action continue
tc filter add dev d0 ingress pref 38 protocol all basic match 'meta(pkt_type eq 3)' action continue
tc filter add dev d0 ingress pref 39 protocol all basic match 'meta(pkt_type eq 1)' action continue
tc filter add dev d0 ingress pref 40 protocol all basic match 'meta(pkt_type eq 2)' action continue
tc filter add dev d0 ingress pref 41 protocol all basic match 'meta(pkt_type eq 0)' action continue
tc filter add dev d0 ingress pref 42 protocol ip u32 match ip protocol 17 0xff action ife encode use mark 7 use prio 5 use tcindex 9 type 0x88b6 pipe action ife decode allow mark allow prio allow tcindex continue
tc filter add dev d0 ingress pref 43 protocol all basic match 'meta(nf_mark eq 7) and meta(priority eq 5) and meta(tc_index eq 9)' action continue
