# SPDX-License-Identifier: Apache-2.0 OR MIT
ingress ip4-udp ip4-tcp ip4-icmp: police rate 8bit burst 400 conform-exceed drop/pipe
ingress ip4-udp ip4-tcp ip4-icmp: police rate 8bit burst 400 mtu 60 conform-exceed drop/pipe
ingress ip4-udp ip4-tcp ip4-icmp: police rate 8bit burst 400 conform-exceed pipe/drop
ingress ip4-udp ip4-tcp ip4-icmp: police rate 8bit burst 700 peakrate 16bit mtu 700 conform-exceed drop/pipe
egress ip4-udp ip4-tcp ip4-icmp: police rate 8bit burst 400 conform-exceed drop/pipe
egress ip4-udp ip4-tcp ip4-icmp: police rate 8bit burst 1000 overhead 20 conform-exceed drop/pipe
egress ip4-udp ip4-tcp ip4-icmp: police rate 8bit burst 1000 mpu 200 conform-exceed drop/pipe
egress ip4-udp ip4-tcp ip4-icmp: police rate 8bit burst 1000 linklayer atm conform-exceed drop/pipe
egress ip4-udp ip4-tcp ip4-icmp: police mtu 60 conform-exceed drop/pipe
ingress ip4-udp ip4-tcp ip4-icmp: police mtu 60 conform-exceed drop/pipe
egress ip4-udp ip4-tcp ip4-icmp: police pkts_rate 1 pkts_burst 3 mtu 60 conform-exceed drop/pass
ingress ip4-udp: police rate 80gbit burst 1mb mtu 9000 peakrate 160gbit conform-exceed drop/pipe
ingress ip4-udp: police rate 8bit burst 400
ingress ip4-udp ip4-tcp ip4-icmp: police rate 8bit burst 100 conform-exceed pipe/continue
ingress ip4-udp ip4-tcp ip4-icmp: police rate 8bit burst 100 conform-exceed continue/ok
ingress ip4-udp ip4-tcp ip4-icmp: police rate 8bit burst 100 conform-exceed reclassify/pipe
ingress ip4-udp ip4-tcp ip4-icmp: police rate 8bit burst 100 conform-exceed jump 1 action drop
ingress ip4-udp: police rate 1mbit burst 10k index 7 cookie 12 no_percpu
ingress ip4-udp: police avrate 1mbit conform-exceed drop/pipe

tc actions add action police rate 1mbit burst 10k index 3
tc actions add action police rate 1mbit burst 10k index 3
tc actions replace action police rate 2mbit burst 20k mtu 1500 index 3
tc actions replace action police pkts_rate 1000 pkts_burst 200 index 3
tc actions replace action police avrate 10kbit index 3
tc actions add action police rate 1mbit burst 10k conform-exceed goto chain 3 index 9
tc actions add action police mtu 1000 index 11
tc actions add action police rate 8gbit burst 1m mtu 2k peakrate 100gbit overhead 14 linklayer atm index 12
tc actions add action police rate 100gbit burst 1m mtu 2k peakrate 100kbit overhead 14 linklayer adsl mpu 64 index 13
tc actions add action police index 3
tc actions del action police index 3
tc actions del action police index 3

# An invalid control action as the fallback: accepted by 6.1.176, refused by 6.1.192 and here.
none police
flat police 1:0000000001000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
raw police
raw police 1:0011
raw police 1:0000000003000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
raw police 1:0000000063000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
raw police 1:0000000003000000000000000000000000000000000000000000000000000000010000000000000000000000000000000000000000000000
raw police 1:0000000003000000000000000000000000000000000000000000000000000000000000000000000000000000010000000000000000000000
raw police 1:0000000003000000000000000000000000000000000000000000000000000000010000000000000000000000000000000000000000000000 2:00
raw police 1:0000000003000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000 10:0100000000000000
raw police 1:0000000003000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000 11:0100000000000000
raw police 1:0000000003000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000 10:0100000000000000 11:0200000000000000
raw police 1:0000000003000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000 10:01000000 11:0200000000000000
raw police 1:0000000003000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000 5:01000020
raw police 1:0000000003000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000 4:00040000
