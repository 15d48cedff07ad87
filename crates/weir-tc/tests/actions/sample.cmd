# SPDX-License-Identifier: Apache-2.0 OR MIT
ingress ip4-udp eth: sample rate 1 group 1
ingress ip4-udp eth: sample rate 1 group 1 trunc 20
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
