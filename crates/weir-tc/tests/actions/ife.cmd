# SPDX-License-Identifier: Apache-2.0 OR MIT
ingress ip4-udp ip6 vlan eth mpls: ife encode use mark 7
ingress ip4-udp ip6 vlan eth: ife encode use mark 7 use prio 0x01020304 use tcindex 513 type 0xfefe dst 02:aa:00:00:00:01 src 02:bb:00:00:00:02
ingress ip4-udp: ife encode allow mark
ingress ip4-udp: ife encode allow mark use prio 9
ingress ip4-udp: ife encode allow mark allow prio allow tcindex
ingress ip4-udp: ife encode use mark 7 drop
ingress ip4-udp: ife encode allow mark drop
ingress ip4-udp: ife encode use mark 7 pass
ingress ip4-udp ip6 vlan eth: ife encode use mark 7 use tcindex 9 pipe action ife decode allow mark allow tcindex
ingress ip4-udp ip6 vlan: ife encode use mark 7 use tcindex 9 pipe action ife decode allow mark
ingress ip4-udp: ife encode use prio 7 pipe action ife encode use tcindex 3 pipe action ife decode allow prio allow tcindex pipe action ife decode allow prio allow tcindex
ingress ife ip4-udp: ife decode allow mark allow prio allow tcindex
ingress ife: ife decode allow prio
ingress ife: ife decode allow mark allow prio allow tcindex drop
ingress ife: ife decode allow mark allow prio allow tcindex pipe action ife encode allow mark allow prio allow tcindex
egress ip4-udp ip6 vlan eth: ife encode use mark 7
egress ip4-udp ip6 vlan eth: ife encode allow prio use mark 7 use tcindex 65535 type 0x1234
egress ip4-udp: ife encode use mark 7 pipe action ife encode use mark 8
egress ip4-udp ip6: ife encode use mark 7 pipe action ife decode allow mark
egress ife: ife decode allow mark allow prio allow tcindex
tagged ip4-udp ip6 vlan eth: ife encode use mark 7
ingress ip4-udp: ife encode use mark 3 index 9 cookie ab no_percpu

tc actions add action ife encode use mark 3
tc actions add action ife encode use mark 4 index 1
tc actions replace action ife encode use mark 4 index 1
tc actions replace action ife encode use mark 4 index 1 goto chain 5
tc actions add action ife decode allow mark index 3
tc actions del action ife index 3

none ife
flat ife 1:G01000000
raw ife
raw ife 1:G
raw ife 1:G0100
raw ife 1:G00000000
raw ife 1:G02000000
raw ife 1:G04000000
raw ife 1:B01000000
raw ife 1:B00000000 6n:
raw ife 1:G01000000 6n:
raw ife 1:G01000000 6n:08000100070000000800010009000000
raw ife 1:G01000000 6n:0600010007000000
raw ife 1:G01000000 6n:0800000007000000
raw ife 1:G01000000 6n:0800020007000000
raw ife 1:G01000000 6n:0800040007000000
raw ife 1:G01000000 6n:0800060007000000
raw ife 1:G01000000 6n:0800050007000000
raw ife 1:G01000000 6n:04000200
raw ife 1:G01000000 3:02aa000000
raw ife 1:G01000000 3:02aa00000001ff
raw ife 1:G01000000 5:0800
raw ife 1:G01000000 5:08
