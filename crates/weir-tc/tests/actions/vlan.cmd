# SPDX-License-Identifier: Apache-2.0 OR MIT
ingress ip4-udp ip6 vlan eth mpls: vlan push id 100
ingress vlan ip4-udp eth: vlan push protocol 802.1ad id 4094 priority 7
ingress ip4-udp ip6 vlan eth mpls: vlan pop
ingress vlan ip4-udp eth: vlan pop pipe action vlan pop
ingress ip4-udp ip6 vlan eth mpls: vlan modify id 9
ingress vlan ip4-udp: vlan modify id 9 priority 2 protocol 802.1ad
ingress vlan ip4-udp eth: vlan push id 1 pipe action vlan push id 2 pipe action vlan push id 3 priority 1
ingress vlan ip4-udp eth: vlan push id 1 pipe action vlan push id 2 pipe action vlan pop
ingress vlan ip4-udp: vlan push id 1 pipe action vlan push id 2 pipe action vlan pop pipe action vlan pop
ingress vlan ip4-udp eth: vlan push id 1 pipe action vlan push id 2 pipe action vlan pop pipe action vlan modify id 77
ingress ip4-udp ip6 vlan eth-arp eth-llc mpls-one: vlan pop_eth
ingress ip4-udp ip6 vlan eth-arp eth-llc mpls-one: vlan pop_eth pipe action vlan push_eth dst_mac 02:00:00:00:00:0a src_mac 02:00:00:00:00:0b
ingress vlan ip4-udp: vlan push_eth dst_mac 02:00:00:00:00:0a src_mac 02:00:00:00:00:0b
ingress vlan ip4-udp eth-arp eth-llc: vlan pop pipe action vlan pop pipe action vlan pop_eth
ingress ip4-udp: vlan push id 100 drop
ingress ip4-udp: vlan push id 100 pass
egress ip4-udp ip6 vlan eth mpls: vlan push id 100
egress ip4-udp ip6 vlan eth mpls: vlan pop
egress ip4-udp ip6 vlan eth mpls: vlan modify id 9 priority 0
egress vlan ip4-udp eth: vlan push id 1 pipe action vlan push id 2
egress vlan ip4-udp eth: vlan push id 1 pipe action vlan pop
egress ip4-udp ip6 vlan eth mpls: vlan pop_eth
egress vlan ip4-udp eth: vlan pop_eth pipe action vlan push_eth dst_mac 02:00:00:00:00:0a src_mac 02:00:00:00:00:0b
tagged ip4-udp ip6 vlan eth: vlan push protocol 802.1ad id 100
tagged ip4-udp ip6 vlan eth: vlan pop
tagged ip4-udp ip6 vlan eth: vlan modify id 9 protocol 802.1ad
tagged vlan ip4-udp eth: vlan push id 6 pipe action vlan pop
tagged vlan ip4-udp eth: vlan pop pipe action vlan pop
tagged vlan ip4-udp: vlan pop_eth

tc actions add action vlan push id 100 index 7
tc actions add action vlan push id 100 index 7
tc actions replace action vlan pop index 7
tc actions change action vlan modify id 5 index 7
tc actions add action vlan push id 4095
tc actions replace action vlan push id 4095 index 7
tc actions add action vlan modify id 4095 index 7
tc actions add action vlan push id 1 goto chain 3
tc actions get action vlan index 7
tc actions add action vlan push id 1 cookie 1234 no_percpu

none vlan
raw vlan
raw vlan 2:0011
raw vlan 2:G02000000
raw vlan 2:G02000000 3:ff0f
raw vlan 2:G02000000 3:fe0f
raw vlan 2:G03000000 3:ffff
raw vlan 2:G02000000 3:0100 4:0800
raw vlan 2:G02000000 3:01
raw vlan 2:G00000000
raw vlan 2:G06000000
raw vlan 2:G05000000
raw vlan 2:G05000000 7:020000000001
raw vlan 2:G05000000 7:0200000000 8:020000000001
raw vlan 2:G05000000 7:02000000000101 8:020000000001
raw vlan 2:B01000000
raw vlan 2:B02000000
flat vlan 2:G01000000
