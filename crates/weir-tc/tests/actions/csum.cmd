# SPDX-License-Identifier: Apache-2.0 OR MIT
ingress: csum ip4h tcp udp icmp igmp udplite sctp pipe
ingress ip4: csum ip4h pipe
ingress ip4-tcp ip6 ip4-cut: csum tcp pipe
ingress ip4-udp ip6 ip4-cut: csum udp pipe
ingress ip4-icmp ip6-icmp ip4-cut: csum icmp pipe
ingress ip4-igmp ip4-udp: csum igmp pipe
ingress ip4 ip6: csum udplite pipe
ingress ip4 ip6: csum sctp pipe
egress: csum ip4h tcp udp icmp igmp udplite sctp pipe
tagged: csum ip4h tcp udp icmp igmp udplite sctp pipe
ingress ip4-udp: csum udp drop
ingress ip4-udp: csum udp pass
# After edits, which is the purpose of the action.
ingress ip4-udp ip4-tcp ip6-udp ip6-tcp: pedit ex munge eth dst set 02:aa:aa:aa:aa:aa munge udp dport set 9 munge ip ttl set 1 pipe action csum ip4h udp tcp pipe
ingress ip4-icmp: pedit munge offset 20 u8 set 0 pipe action csum icmp pipe
# Tags in the data, which change the network header.
ingress vlan ip4-udp: vlan push id 1 pipe action vlan push id 2 pipe action csum ip4h udp tcp pipe
egress vlan ip4-udp: csum ip4h udp tcp pipe action pedit munge offset 0 u8 set 0xff pipe
ingress vlan: csum ip4h udp tcp pipe action pedit munge offset 0 u8 set 0xff pipe
egress vlan ip4-udp: vlan push id 1 pipe action vlan push id 2 pipe action csum ip4h udp tcp pipe

tc actions add action csum ip4h index 3
tc actions add action csum tcp index 3
tc actions replace action csum tcp and udp index 3
tc actions change action csum icmp goto chain 1 index 3
tc actions get action csum index 3
tc actions add action csum sctp cookie 1234 no_percpu

none csum
raw csum
raw csum 1:0011
raw csum 1:B01000000
raw csum 1:Gffffffff
