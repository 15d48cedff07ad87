# SPDX-License-Identifier: Apache-2.0 OR MIT
ingress ip4-udp vlan-udp: skbedit mark 7 pipe
ingress ip4-udp: skbedit mark 0xffff pipe action skbedit mark 0x1234/0x0ff0 pipe
ingress ip4-udp: skbedit mark 0xffff pipe action skbedit mark 0/0xf0 pipe
ingress ip4-udp: skbedit priority 1:2 ptype otherhost pipe
ingress: skbedit inheritdsfield pipe
egress: skbedit inheritdsfield pipe
tagged: skbedit inheritdsfield pipe
egress ip4-udp: skbedit queue_mapping 3 pipe
egress ip4-udp: skbedit queue_mapping 7 mark 9 pipe
egress ip4-udp: skbedit mark 5 pass
ingress ip4-udp: skbedit mark 5 drop

tc actions add action skbedit priority 1:2 index 4
tc actions add action skbedit priority 1:3 index 4
tc actions replace action skbedit mark 7/0xff queue_mapping 5 ptype host index 4
tc actions change action skbedit priority 3 goto chain 2 index 4
tc actions get action skbedit index 4

none skbedit
raw skbedit
raw skbedit 2:0011
raw skbedit 2:G
raw skbedit 2:G 3:0000
raw skbedit 2:G 7:0400
raw skbedit 2:G 7:0300
raw skbedit 2:B 5:01000000
raw skbedit 2:B
raw skbedit 2:G 8:01000000
raw skbedit 2:G 9:4000000000000000
raw skbedit 2:G 9:4000000000000000 4:0100
raw skbedit 2:G 9:4000000000000000 4:0100 10:0000
raw skbedit 2:G 9:4000000000000000 4:0000 10:ffff
raw skbedit 2:G 9:0100000000000000
raw skbedit 2:G 9:4000000000000000 4:0200 10:0400
