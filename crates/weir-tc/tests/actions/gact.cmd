# SPDX-License-Identifier: Apache-2.0 OR MIT
ingress ip4-udp: pass
ingress ip4-udp: drop
ingress ip4-udp eth: pipe
ingress ip4-udp: continue
ingress ip4-udp: reclassify
ingress ip4-udp: trap
ingress ip4-udp: goto chain 3
ingress ip4-udp: jump 1 action drop
ingress ip4-udp: jump 2 action drop action drop
ingress ip4-udp: jump 3 action drop action drop
ingress ip4-udp: drop random determ pipe 3
ingress ip4-udp: pipe random determ drop 2
ingress ip4-udp: pipe random determ drop 1 pipe action pipe random determ drop 10000
ingress ip4-udp: pipe random determ reclassify 4
ingress ip4-udp: drop random netrand pipe 1
egress ip4-udp vlan: pass
egress ip4-udp: drop
egress ip4-udp: pipe
egress ip4-udp: reclassify
egress ip4-udp: trap
egress ip4-udp: drop random determ ok 3

tc actions add action drop index 3
tc actions add action drop index 3
tc actions replace action pass random determ drop 5 index 3
tc actions replace action pipe index 3
tc actions change action goto chain 42 index 3
tc actions replace action pass random netrand goto chain 42 5 index 3
tc actions add action pass random netrand drop 0
tc actions add action pass random determ drop 9999 cookie 1234 no_percpu
tc actions get action gact index 3
tc actions del action gact index 3
tc actions del action gact index 3

# An invalid control action as the fallback: accepted by 6.1.176, refused by 6.1.192 and here.
none gact
flat gact 2:G
raw gact
raw gact 2:0011
raw gact 2:G
raw gact 2:B
raw gact 2:G 3:0100
raw gact 2:G 3:0000010002000000
raw gact 2:G 3:0300010002000000
raw gact 2:G 3:0200000002000000
raw gact 2:G 3:0100010001000020
raw gact 2:B 3:0100010002000000
