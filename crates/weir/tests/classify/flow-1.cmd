tc qdisc add dev d1 root handle 1: prio bands 16
tc filter add dev d0 ingress matchall action mirred egress redirect dev d1
tc filter add dev d1 parent 1: protocol ip pref 1 basic match 'cmp(u8 at 9 layer 1 eq 17)' action goto chain 1
tc filter add dev d1 parent 1: protocol ip pref 1 basic match 'cmp(u8 at 9 layer 1 eq 6) and cmp(u16 at 6 layer 1 mask 0x1fff eq 0)' action goto chain 2
tc filter add dev d1 parent 1: protocol ip pref 2 handle 3 flow map key proto divisor 3 baseclass 1:13
tc filter add dev d1 parent 1: chain 1 protocol ip pref 1 handle 1 flow map key dst divisor 5 baseclass 1:1
tc filter add dev d1 parent 1: chain 2 protocol ip pref 1 handle 2 flow map key src and 0xff xor 0x3 rshift 1 addend 3 divisor 7 baseclass 1:6
tc filter add dev d1 parent 1: protocol ipv6 pref 3 basic match 'cmp(u8 at 6 layer 1 eq 17)' action goto chain 3
tc filter add dev d1 parent 1: protocol ipv6 pref 3 basic match 'cmp(u8 at 6 layer 1 eq 6)' action goto chain 4
tc filter add dev d1 parent 1: protocol ipv6 pref 4 handle 3 flow map key src rshift 1 divisor 9 baseclass 1:5
tc filter add dev d1 parent 1: chain 3 protocol ipv6 pref 1 handle 1 flow map key dst divisor 4 baseclass 1:2
tc filter add dev d1 parent 1: chain 4 protocol ipv6 pref 1 handle 2 flow map key proto-dst divisor 16 baseclass 1:1
tc filter add dev d1 parent 1: protocol 802.1q pref 5 handle 1 flow map key vlan-tag divisor 11 baseclass 1:4
