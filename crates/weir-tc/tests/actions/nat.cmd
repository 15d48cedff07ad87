# SPDX-License-Identifier: Apache-2.0 OR MIT
ingress: nat ingress 198.51.100.9 10.1.2.3 pipe
ingress: nat egress 192.0.2.0/24 10.1.2.0 pipe
ingress ip4: nat ingress 198.51.100.0/24 10.0.0.0 pipe
ingress ip4: nat ingress 192.0.2.0/28 203.0.113.16 pipe
ingress ip4: nat egress 198.51.100.9/32 203.0.113.16 pipe
ingress ip4: nat egress any 255.255.255.255 pipe
egress ip4 vlan eth ip6-udp: nat egress 192.0.2.1 10.1.2.3 pipe
tagged ip4 vlan: nat ingress 198.51.100.9 10.1.2.3 pipe
ingress vlan ip4-udp: vlan pop pipe action nat ingress 198.51.100.9 10.1.2.3 pipe
ingress vlan ip4-udp: vlan push id 1 pipe action vlan push id 2 pipe action nat ingress 198.51.100.9 10.1.2.3 pipe
ingress ip4-udp: nat ingress 198.51.100.9 10.1.2.3 drop
ingress ip4-udp: nat ingress 198.51.100.9 10.1.2.3 pass

tc actions add action nat ingress 192.0.2.1 10.0.0.1 index 8
tc actions add action nat egress 192.0.2.1 10.0.0.1 index 8
tc actions replace action nat egress 192.0.2.0/26 10.0.0.64 index 8
tc actions change action nat egress any 10.0.0.1 goto chain 2 index 8
tc actions get action nat index 8
tc actions add action nat ingress 192.0.2.1 10.0.0.1 cookie 1234 no_percpu

none nat
raw nat
raw nat 1:0011
raw nat 1:B00000000000000000000000000000000
raw nat 1:Gc0000201c0000202ffffffff03000000
