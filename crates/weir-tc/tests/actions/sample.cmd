# SPDX-License-Identifier: Apache-2.0 OR MIT
ingress ip4-udp eth: sample rate 1 group 1
ingress ip4-udp eth: sample rate 1 group 1 trunc 20
ingress vlan ip6-tcp: sample rate 1 group 4294967295 trunc 0
ingress ip4-udp vlan: sample rate 1 group 2 pipe action sample rate 1 group 3 trunc 30 drop
ingress ip4-udp vlan: vlan push id 9 pipe action vlan push id 8 pipe action sample rate 1 group 2
egress ip4-udp vlan eth: sample rate 1 group 2 trunc 65535
tagged ip4-udp ip6-tcp: sample rate 1 group 2
# The sample includes the tunnel metadata.
ingress ip4-udp: tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2 id 5 dst_port 4789 tos 4 ttl 9 pipe action sample rate 1 group 2 trunc 20
ingress ip4-udp: tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2 nocsum pipe action sample rate 1 group 2 trunc 20
ingress ip4-udp: tunnel_key set src_ip fd00::1 dst_ip fd00::2 id 4294967295 geneve_opts 0102:80:00880022,0408:42:0040007611223344 pipe action sample rate 1 group 2 trunc 20
ingress ip4-udp: tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2 id 7 vxlan_opts 5 pipe action sample rate 1 group 2 trunc 20
ingress ip4-udp: tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2 id 7 erspan_opts 2:0:1:63 pipe action sample rate 1 group 2 trunc 20
ingress ip4-udp: tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2 id 7 pipe action tunnel_key unset pipe action sample rate 1 group 2 trunc 20
egress ip4-udp: tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2 id 5 pipe action sample rate 1 group 2 trunc 65535
egress ip4-udp: sample rate 4294967295 group 4294967295 trunc 0
ingress ip4-udp: sample rate 2000000000 group 3 drop
ingress ip4-udp: sample rate 2000000000 group 3 pass index 5 cookie aa no_percpu

tc actions add action sample rate 0 group 1
tc actions add action sample rate 10 group 1 index 1
tc actions add action sample rate 10 group 2 index 1
tc actions replace action sample rate 11 group 2 trunc 77 index 1
tc actions replace action sample rate 12 group 2 index 1 drop
tc actions replace action sample rate 0 group 2 index 1
tc actions replace action sample rate 0 group 2 index 1 goto chain 3
tc actions add action sample rate 10 index 2
tc actions add action sample rate 0 group 2 index 1
tc actions add action sample index 1
tc actions replace action sample index 1
tc actions del action sample index 1

none sample
flat sample 2:G 3:01000000 5:01000000
raw sample
raw sample 2:G
raw sample 2:0011 3:01000000 5:01000000
raw sample 2:G 3:01000000
raw sample 2:G 5:01000000
raw sample 2:G 3:00000000 5:01000000
raw sample 2:G 3:0100 5:01000000
raw sample 2:G 3:01000000 5:0100
raw sample 2:G 3:01000000 5:01000000 4:0100
raw sample 2:B 3:01000000 5:01000000
raw sample 2:B 3:00000000 5:01000000
