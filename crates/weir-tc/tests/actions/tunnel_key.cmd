# SPDX-License-Identifier: Apache-2.0 OR MIT
# The frames do not change; crates/weir/tests/tunnel tests how tunnel devices use the metadata.
ingress ip4-udp ip6-udp vlan-udp: tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2 id 5 dst_port 4789 tos 4 ttl 9
ingress ip4-udp: tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2
ingress ip4-udp: tunnel_key set src_ip fd00::1 dst_ip fd00::2 id 4294967295 nocsum no_percpu
ingress ip4-udp: tunnel_key set src_ip 1.1.1.1 dst_ip 2.2.2.2 geneve_opts 0102:80:00880022,0408:42:0040007611223344
ingress ip4-udp: tunnel_key set src_ip 1.1.1.1 dst_ip 2.2.2.2 vxlan_opts 4294967295
ingress ip4-udp: tunnel_key set src_ip 1.1.1.1 dst_ip 2.2.2.2 erspan_opts 1:287454020:0:0
ingress ip4-udp: tunnel_key set src_ip 1.1.1.1 dst_ip 2.2.2.2 erspan_opts 2:0:1:63
ingress ip4-udp: tunnel_key set src_ip 1.1.1.1 dst_ip 2.2.2.2 id 1 pipe action tunnel_key unset
ingress ip4-udp: tunnel_key unset drop
egress ip4-udp vlan-udp: tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2 id 5

tc actions add action tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2 id 5 index 3
tc actions add action tunnel_key unset index 3
tc actions replace action tunnel_key set src_ip fd00::1 dst_ip fd00::2 id 6 vxlan_opts 7 index 3
tc actions replace action tunnel_key unset index 3
tc actions change action tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2 goto chain 1 index 3
tc actions get action tunnel_key index 3
tc actions add action tunnel_key set src_ip 10.0.0.1 dst_ip fd00::1
tc actions add action tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2 geneve_opts 0102:80:008800
tc actions add action tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2 geneve_opts 0102:80:0088001122
tc actions add action tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2 erspan_opts 3:0:0:0
tc actions add action tunnel_key unset cookie 1234 no_percpu

tc filter add dev d0 ingress protocol ip prio 1 flower enc_key_id 5 enc_src_ip 10.0.0.1 enc_dst_ip 10.0.0.0/8 enc_dst_port 4789 enc_tos 4/0xfc enc_ttl 64 action drop
tc filter add dev d0 ingress protocol ip prio 2 flower enc_src_ip fd00::1 enc_dst_ip fd00::/64 action drop
tc filter add dev d0 ingress protocol ip prio 3 flower geneve_opts 0102:80:00880022/ff03:42:0040ff76,0408:42:0040007611223344 action drop
tc filter add dev d0 ingress protocol ip prio 4 flower vxlan_opts 65793/0xff action drop
tc filter add dev d0 ingress protocol ip prio 5 flower erspan_opts 2:0:1:63/2:0:1:15 action drop
tc filter add dev d0 ingress protocol ip prio 6 flower gtp_opts 1:9 action drop
tc filter add dev d0 ingress protocol ip prio 7 flower ct_state -trk action drop
tc filter add dev d0 ingress protocol ip prio 8 flower ct_state +est action drop
tc filter add dev d0 ingress protocol ip prio 9 flower ct_state +trk+new+est action drop
tc filter add dev d0 ingress protocol ip prio 10 flower ct_state +trk+inv+rel action drop
tc filter add dev d0 ingress protocol ip prio 11 flower ct_state +trk+new+rpl action drop
tc filter add dev d0 ingress protocol ip prio 12 flower geneve_opts 0102:80:008800 action drop

none tunnel_key
flat tunnel_key 2:G02000000
raw tunnel_key
raw tunnel_key 2:G
raw tunnel_key 2:G00000000
raw tunnel_key 2:G01000000
raw tunnel_key 2:G02000000
raw tunnel_key 2:G03000000
raw tunnel_key 2:B02000000
raw tunnel_key 2:B01000000
raw tunnel_key 2:G01000000 3:0a000001
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002
raw tunnel_key 2:G01000000 3:0a0000 4:0a000002
raw tunnel_key 2:G01000000 5:fd000000000000000000000000000001 6:fd0000000000000000000000000000
raw tunnel_key 2:G01000000 5:fd000000000000000000000000000001 6:fd000000000000000000000000000002 7:0005
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 9:12
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 11n:
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 11n:0400018004000180
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 11n:04000980
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 11n:04000280
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 11n:0c0002800800010005000000
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 11n:0c00028008000100050000000c0002800800010005000000
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 11n:0c0001800600010001020000
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 11n:0c0003800500010001000000
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 11n:0c0003800500010002000000
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 11n:0c0003800500010003000000
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 11n:140003800500010001000000080002000000000f
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 11n:1c000180060001000102000005000200800000000800030000880022
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 11n:1c000180060001000102000005000200800000000600030000880000
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 12:01 13:02 10:01
raw tunnel_key 2:G01000000 3:0a000001 4:0a000002 12:0102
