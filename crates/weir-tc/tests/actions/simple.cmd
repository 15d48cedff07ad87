# SPDX-License-Identifier: Apache-2.0 OR MIT
ingress ip4-udp eth: simple sdata hello
egress ip4-udp: simple sdata "a b" drop
ingress ip4-udp: simple sdata hello pass
ingress ip4-udp: simple sdata 0123456789012345678901234567890 pipe
ingress ip4-udp: simple sdata hello index 7 cookie c0ffee no_percpu

tc actions add action simple sdata hello
tc actions add action simple sdata again index 1
tc actions replace action simple sdata again index 1
tc actions change action simple index 1
tc actions replace action simple sdata x goto chain 3 index 1
tc actions del action simple index 1
tc actions del action simple index 1
tc actions get action simple index 1

none simple
flat simple 2:G 3:6100
raw simple
raw simple 2:G
raw simple 2:0011
raw simple 3:6100
raw simple 2:G 3:61
raw simple 2:G 3:00
raw simple 2:G 3:
raw simple 2:B
raw simple 2:B 3:6100
raw simple 2:G 3:6162636465666768696a6b6c6d6e6f707172737475767778797a30313233343500
raw simple 2:G 3:6162636465666768696a6b6c6d6e6f707172737475767778797a3031323300
