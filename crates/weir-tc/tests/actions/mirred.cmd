# SPDX-License-Identifier: Apache-2.0 OR MIT
tc actions add action mirred egress redirect dev d1 index 3
tc actions add action mirred egress redirect dev d1 index 3
tc actions replace action mirred egress mirror dev d0 index 3
tc actions replace action mirred ingress redirect dev lo index 3
tc actions change action mirred ingress mirror dev lo pipe index 3
tc actions get action mirred index 3
tc actions add action mirred egress mirror dev d1 goto chain 4 index 5 cookie 1234 no_percpu
tc actions add action mirred egress mirror index 3 dev d1
tc actions del action mirred index 3
tc actions del action mirred index 3

none mirred
flat mirred 2:G0100000005000000
raw mirred
raw mirred 2:G
raw mirred 2:G0000000005000000
raw mirred 2:G0500000005000000
raw mirred 2:G0100000063000000
raw mirred 2:G0100000000000000
raw mirred 2:G0500000063000000
raw mirred 2:B0100000005000000
raw mirred 2:B0100000063000000
raw mirred 2:G01000000ffffffff
