# SPDX-License-Identifier: Apache-2.0 OR MIT
# A cycle of one nanosecond begins immediately; an entry of four seconds lasts until all frames have been sent.
ingress ip4-udp-t ip4-udp-e ip6-tcp vlan-udp vlan-two: gate cycle-time 1 sched-entry open 4000000000
ingress ip4-udp-t ip4-udp-e ip6-tcp vlan-udp vlan-two: gate cycle-time 1 sched-entry close 4000000000
egress ip4-udp-t ip4-udp-e ip6-tcp vlan-udp vlan-two: gate cycle-time 1 sched-entry close 4000000000
ingress ip4-udp-t ip4-udp-e ip6-tcp vlan-udp vlan-two: gate cycle-time 1 sched-entry open 4000000000 -1 300
ingress ip4-udp-t ip4-udp-e ip6-tcp vlan-udp vlan-two: gate cycle-time 1 sched-entry open 4000000000 -1 60
ingress ip4-udp-t ip4-udp-e ip6-tcp vlan-udp vlan-two: gate cycle-time 1 sched-entry open 4000000000 -1 0
ingress ip4-udp-t ip4-udp-e ip6-tcp vlan-udp vlan-two: gate cycle-time 1 sched-entry close 4000000000 -1 300
egress ip4-udp-t ip4-udp-e ip6-tcp vlan-udp vlan-two: gate cycle-time 1 sched-entry open 4000000000 -1 300
tagged ip4-udp-t ip4-udp-e ip6-tcp vlan-udp vlan-two: gate cycle-time 1 sched-entry open 4000000000 -1 300
ingress ip4-udp-t ip6-udp: gate clockid CLOCK_MONOTONIC cycle-time 1 sched-entry close 4000000000
ingress ip4-udp-t ip6-udp: gate clockid CLOCK_REALTIME cycle-time 1 sched-entry close 4000000000
ingress ip4-udp-t ip6-udp: gate clockid CLOCK_BOOTTIME cycle-time 1 sched-entry close 4000000000
# Before the first entry begins, all frames pass.
ingress ip4-udp-t ip6-udp: gate base-time 9000000000000000000 sched-entry close 4000000000
ingress ip4-udp-t ip6-udp: gate base-time 9000000000000000000 sched-entry open 4000000000 -1 60
ingress ip4-udp-t ip6-udp: gate cycle-time 4000000000000000000 sched-entry close 1000
ingress ip4-udp-t ip6-udp: gate cycle-time 1 sched-entry close 4000000000 pass
ingress ip4-udp-t ip6-udp: gate cycle-time 1 sched-entry open 4000000000 drop
ingress ip4-udp-t ip6-udp: gate priority 3 base-time 200 cycle-time 1 cycle-time-ext 7 flags 1 sched-entry open 1 2 60 sched-entry close 4294967295 3 60 continue
# An entry of one nanosecond, then a long one.
ingress ip4-udp-t ip4-udp-e ip6-tcp vlan-udp vlan-two: gate cycle-time 1 sched-entry close 1 sched-entry open 4000000000 -1 200

tc actions add action gate priority 1 sched-entry close 100000000ns index 100
tc actions add action gate base-time 200000000000ns sched-entry close 100000000ns index 10
tc actions add action gate cycle-time 200000000000ns sched-entry close 100000000ns index 10
tc actions replace action gate base-time 400000000000ns index 10
tc actions replace action gate index 10
tc actions replace action gate clockid CLOCK_MONOTONIC index 10
tc actions replace action gate cycle-time 5ns index 10
tc actions replace action gate sched-entry open 1000 index 10 goto chain 5
tc actions add action gate index 11
tc actions add action gate index 11 goto chain 5
tc actions add action gate sched-entry close 0 index 11
tc actions add action gate sched-entry close 5 index 11 cookie d0d0 no_percpu
tc actions replace action gate sched-entry open 5 index 11 skip_hw
tc actions del action gate index 11
tc actions del action gate index 11

none gate
flat gate 2:G
raw gate
raw gate 2:G
raw gate 2:G00
raw gate 2:B
raw gate 2:B 5n:
raw gate 2:G 5n:
raw gate 2:G 5:
raw gate 2:G 5n:08000100
raw gate 2:G 5n:0800018008000300
raw gate 2:G 5n:0c0001800800030005000000
raw gate 2:G 5n:0c0001000800030005000000
raw gate 2:G 5n:0c0001800800030000000000
raw gate 2:G 5n:100001800800030005000000040002000c0001800800030007000000
raw gate 2:G 5n:0c0002800800030005000000
raw gate 2:G 5n:1000018006000300050000000800010005000000
raw gate 2:G 5n:0c000180080003000500000008000180
raw gate 2:G 5n:0c0001800800030005000000 10:0b000000
raw gate 2:G 5n:0c0001800800030005000000 10:05000000
raw gate 2:G 5n:0c0001800800030005000000 10:0b00
raw gate 2:G 5n:0c0001800800030005000000 6:05000000
raw gate 2:G 5n:0c0001800800030005000000 6:0500000000000000
raw gate 2:G 5n:0c0001800800030005000000 4:05
raw gate 2:G 5n:0c0001800800030005000000 8:05000000
raw gate 2:G 5n:0c0001800800030005000000 9:05000000
