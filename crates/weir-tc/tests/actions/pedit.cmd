# SPDX-License-Identifier: Apache-2.0 OR MIT
# Plain keys: offsets from the network header.
ingress: pedit munge offset 0 u8 set 0x45 retain 0x0f pipe
ingress ip4-udp ip4-cut eth vlan: pedit munge offset 12 u32 set 0x0a000001 pipe
ingress ip4-udp: pedit munge ip ttl set 5 munge ip tos set 0x10 retain 0xfc pipe
ingress ip4-udp ip4-tcp ip4-cut: pedit munge ip sport set 99 munge ip dport set 0x50 pipe
ingress ip4-udp eth: pedit munge offset -14 u16 set 0xffff munge offset -12 u32 set 0xdeadbeef pipe
ingress ip4 eth: pedit munge offset 20 u32 at 0 0x0f 0 set 0x01020304 pipe
ingress ip4: pedit munge offset 0 u32 at 0 0x0f 30 set 0x01020304 pipe
ingress ip4: pedit munge offset 4 u8 at 9 0x10 2 set 0xee pipe
ingress ip4-udp: pedit munge offset 4 u8 at 1 0xff 0 set 0xee pipe
ingress ip4-udp ip4-cut eth: pedit munge offset 20 u32 set 1 munge offset 24 u32 set 2 munge offset 60 u32 set 3 munge offset 0 u8 set 0 pipe
egress: pedit munge offset 0 u8 set 0x45 retain 0x0f pipe
egress ip4-udp eth vlan: pedit munge offset -14 u16 set 0xffff pipe
tagged ip4-udp vlan: pedit munge offset 16 u32 set 0xc6336401 pipe
# Extended keys.
ingress: pedit ex munge eth dst set 02:aa:aa:aa:aa:aa munge eth src set 02:bb:bb:bb:bb:bb pipe
ingress ip4-udp vlan eth: pedit ex munge eth type set 0x1234 pipe
ingress ip4-udp vlan: pedit ex munge ip src add 1.2.3.4 munge eth dst set 02:00:00:00:00:01 pipe
ingress ip4 vlan: pedit ex munge ip src set 10.1.2.3 munge ip dst set 10.9.8.7 pipe
ingress ip4: pedit ex munge ip ttl dec munge ip tos add 4 pipe
ingress ip4-udp ip4-tcp: pedit ex munge ip ttl add 200 munge ip protocol set 47 pipe
ingress ip4-udp: pedit ex munge ip dsfield set 0xb8 retain 0xfc munge ip ihl set 7 pipe
ingress ip6 vlan eth: pedit ex munge ip6 src set 2001:db8:9::1 munge ip6 dst set 2001:db8:9::2 pipe
ingress ip6: pedit ex munge ip6 hoplimit dec munge ip6 traffic_class set 0x2e munge ip6 flow_lbl set 0xabcde pipe
ingress ip6-udp: pedit ex munge ip6 nexthdr set 59 munge ip6 payload_len set 9 pipe
ingress: pedit ex munge tcp dport set 8080 munge tcp sport add 1 pipe
ingress: pedit ex munge udp dport set 5353 munge udp sport set 7 pipe
ingress ip4-tcp ip6-tcp: pedit ex munge tcp flags set 0x02 retain 0xff pipe
egress ip4 ip6 vlan eth: pedit ex munge tcp dport set 8080 pipe
egress ip4-udp ip6-udp vlan eth: pedit ex munge eth dst set 02:aa:aa:aa:aa:aa munge ip ttl set 9 munge udp dport add 1 pipe
tagged ip4 ip6 vlan: pedit ex munge udp dport add 65535 munge eth src set 02:bb:bb:bb:bb:bb pipe
# Headers moved by other actions.
ingress vlan ip4-udp: vlan push id 1 pipe action vlan push id 2 pipe action pedit ex munge ip ttl set 9 munge eth dst set 02:aa:aa:aa:aa:aa pipe
ingress vlan ip4-udp: vlan pop pipe action pedit ex munge ip ttl set 9 munge udp dport set 9 pipe
egress vlan ip4-udp: vlan pop pipe action pedit ex munge ip ttl set 9 munge udp dport set 9 pipe
egress vlan ip4-udp: vlan push id 1 pipe action vlan push id 2 pipe action pedit munge offset 8 u8 set 9 pipe
ingress ip4-udp ip4-cut: pedit ex munge ip ttl set 9 munge offset 40 u32 set 1 drop
ingress ip4-udp ip4-cut: pedit ex munge ip ttl set 9 pass
ingress ip4-udp ip4-cut: pedit munge offset 8 u32 set 3 pipe no_percpu

tc actions add action pedit munge offset 0 u8 set 1 index 9
tc actions add action pedit munge offset 0 u8 set 2 index 9
tc actions replace action pedit ex munge ip ttl set 2 munge eth type set 5 index 9
tc actions change action pedit munge offset 12 u32 set 2 goto chain 3 index 9
tc actions get action pedit index 9
tc actions add action pedit munge offset 4 u8 at 2 0xff 33 set 1 cookie 1234 no_percpu

# A header or command that does not exist: EINVAL in 6.1.176, ERANGE in 6.1.192 and here.
none pedit
raw pedit
raw pedit 2:0011
raw pedit 2:G00000000
raw pedit 2:G01000000
raw pedit 2:G01000000000000000000000001000000000000000000000000000000
raw pedit 2:B01000000000000000000000001000000000000000000000000000000
raw pedit 2:B00000000
raw pedit 2:G01000000000000000000000004000000000000000000000000000000
raw pedit 2:G02000000000000000000000004000000000000000000000000000000
raw pedit 4:G01000000000000000000000004000000000000000000000000000000
raw pedit 4:G01000000000000000000000004000000000000000000000000000000 5n:
raw pedit 4:G01000000000000000000000004000000000000000000000000000000 5n:1400060006000100000000000600020000000000
raw pedit 4:G01000000000000000000000004000000000000000000000000000000 5n:1400070006000100000000000600020001000000
raw pedit 4:G01000000000000000000000004000000000000000000000000000000 5n:0c0006000600010000000000
raw pedit 4:G01000000000000000000000004000000000000000000000000000000 5n:14000600060001000000000006000200000000001400060006000100000000000600020000000000
