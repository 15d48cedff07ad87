# SPDX-License-Identifier: Apache-2.0 OR MIT
ingress: mpls push protocol mpls_uc label 123
ingress ip4-udp mpls vlan eth: mpls push protocol mpls_mc label 1048575 tc 7 ttl 1 bos 0
ingress ip4-udp mpls vlan eth: mpls push label 16 pipe action mpls push label 17 tc 2
ingress ip4-udp mpls vlan eth: mpls mac_push label 200 ttl 9
ingress ip4-udp mpls vlan eth: mpls mac_push label 200 bos 0 pipe action mpls mac_push protocol mpls_mc label 201
ingress: mpls pop protocol ipv4
ingress mpls ip4-udp vlan: mpls pop protocol mpls_uc pipe action mpls pop protocol ipv4
ingress mpls ip4-udp vlan: mpls modify label 77
ingress mpls: mpls modify ttl 3 tc 0 bos 1
ingress mpls ip4-udp vlan eth: mpls dec_ttl
ingress ip4-udp vlan: mpls push label 100 pipe action mpls dec_ttl pipe action mpls pop protocol ipv4
ingress ip4-udp vlan mpls: mpls mac_push label 100 pipe action mpls dec_ttl pipe action mpls modify label 5
ingress ip4-udp vlan mpls: vlan push id 1 pipe action vlan push id 2 pipe action mpls push label 100
ingress ip4-udp vlan mpls: vlan push id 1 pipe action vlan push id 2 pipe action mpls pop protocol ipv4
ingress ip4-udp vlan mpls: mpls push label 100 pipe action vlan push id 1 pipe action vlan push id 2 pipe action vlan pop
ingress ip4-udp vlan eth-arp: vlan pop_eth pipe action mpls push label 100 pipe action vlan push_eth dst_mac 02:00:00:00:00:0a src_mac 02:00:00:00:00:0b
egress: mpls push label 123
egress ip4-udp mpls vlan eth: mpls mac_push label 200
egress mpls ip4-udp vlan: mpls pop protocol ipv4
egress mpls ip4-udp vlan: mpls modify label 77 tc 1
egress mpls ip4-udp vlan: mpls dec_ttl
tagged ip4-udp mpls vlan: mpls push label 100
tagged ip4-udp mpls vlan: mpls mac_push label 100
tagged ip4-udp mpls vlan: mpls pop protocol ipv6
ingress mpls-one: mpls pop protocol ipv4 drop
ingress mpls-one: mpls pop protocol ipv4 pass

tc actions add action mpls push label 5 index 6
tc actions add action mpls push label 6 index 6
tc actions replace action mpls modify ttl 6 index 6
tc actions change action mpls dec_ttl goto chain 2 index 6
tc actions get action mpls index 6
tc actions add action mpls push label 1 cookie 1234 no_percpu

none mpls
flat mpls 2:G01000000 4:0800
raw mpls
raw mpls 2:G
raw mpls 2:G01000000
raw mpls 2:G01000000 4:0500
raw mpls 2:G01000000 4:0800 5:01000000
raw mpls 2:G01000000 4:0800 6:01
raw mpls 2:G01000000 4:0800 8:00
raw mpls 2:G04000000 4:0800
raw mpls 2:G04000000 7:01
raw mpls 2:G02000000
raw mpls 2:G05000000
raw mpls 2:G02000000 5:01000000 4:0800
raw mpls 2:G03000000 4:8847
raw mpls 2:G03000000
raw mpls 2:G00000000
raw mpls 2:G06000000
raw mpls 2:G02000000 5:03000000
raw mpls 2:G02000000 5:00001000
raw mpls 2:G02000000 5:0000
raw mpls 2:G02000000 5:01000000 6:08
raw mpls 2:G02000000 5:01000000 7:00
raw mpls 2:G02000000 5:01000000 8:02
raw mpls 2:G02000000 5:01000000 9:02
raw mpls 2:B02000000 5:01000000
raw mpls 2:B02000000
