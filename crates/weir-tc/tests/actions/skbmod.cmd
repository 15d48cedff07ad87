# SPDX-License-Identifier: Apache-2.0 OR MIT
ingress: skbmod set dmac 02:aa:aa:aa:aa:aa pipe
ingress ip4-udp vlan eth: skbmod set smac 02:bb:bb:bb:bb:bb etype 0x1234 pipe
ingress ip4-udp vlan eth: skbmod set dmac 02:aa:aa:aa:aa:aa smac 02:bb:bb:bb:bb:bb etype 0xbeef pipe
ingress ip4-udp vlan eth: skbmod swap mac pipe
# No short packets: 6.1.176 requires more bytes here than it edits, 6.1.192 does not.
ingress ip4-udp-ect ip4-udp-tos ip4-tcp ip6-tcp ip6-udplite vlan eth-arp mpls: skbmod ecn pipe
egress: skbmod swap mac pipe
egress ip4-udp-ect ip4-udp-tos ip4-tcp ip6-tcp ip6-udplite eth-arp mpls: skbmod ecn pipe
tagged ip4-udp-ect ip4-udp-tos ip4-tcp ip6-tcp ip6-udplite eth-arp: skbmod ecn pipe
tagged ip4-udp vlan eth: skbmod set etype 0x1234 pipe
# The Ethertype of the frame is changed, not the packet's protocol.
ingress vlan ip4-udp: skbmod set etype 0x8100 pipe action vlan pop
egress vlan ip4-udp eth: skbmod set etype 0x0800 pipe action vlan pop
ingress ip4-udp ip4-cut: skbmod swap mac drop
ingress ip4-udp: skbmod swap mac pass

tc actions add action skbmod set dmac 02:aa:aa:aa:aa:aa index 5
tc actions add action skbmod swap mac index 5
tc actions replace action skbmod set smac 02:aa:aa:aa:aa:aa etype 0x800 index 5
tc actions change action skbmod ecn goto chain 2 index 5
tc actions get action skbmod index 5
tc actions add action skbmod swap mac cookie 1234 no_percpu

none skbmod
raw skbmod
raw skbmod 2:0011
raw skbmod 2:G000000000000000000000000
raw skbmod 2:G000000001f00000000000000
raw skbmod 2:G000000000100000000000000
raw skbmod 2:G000000000000000000000000 3:0102
raw skbmod 2:B000000000800000000000000
raw skbmod 2:B000000000000000000000000
