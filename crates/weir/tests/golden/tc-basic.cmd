ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add d1 address 02:00:00:00:00:02 type dummy
tc qdisc add dev d0 clsact
tc actions add action gact pass index 99
tc actions del action gact index 99
tc filter add dev d0 ingress protocol ip basic match 'cmp(u8 at 9 layer 1 eq 6)' action drop
tc filter add dev d0 ingress protocol ip pref 10 basic match 'cmp(u16 at 2 layer network gt 100)' classid 1:1 action pass
tc filter add dev d0 ingress protocol ip pref 10 basic match 'cmp(u16 at 2 layer network mask 0xff00 lt 100) and u32(u32 0x0a000000 0xff000000 at 12)' classid 1:2
tc filter add dev d0 ingress protocol ip pref 10 basic match 'cmp(u32 at 12 layer link trans eq 5) or nbyte("abc" at 0 layer transport)' action drop
tc filter add dev d0 ingress protocol ip pref 10 basic match 'not cmp(u8 at 8 layer 1 eq 64) and (nbyte("abcd" at 20 layer 1) or (u32(u16 0x1234 0xffff at 4) and not meta(priority eq 6)))' action pass
tc filter add dev d0 ingress protocol ip pref 10 handle 0x77 basic match 'meta(nf_mark gt 24)' action pass
tc filter add dev d0 ingress protocol ip pref 10 handle 0x77 basic match 'meta(nf_mark gt 25)' action pass
tc filter add dev d0 ingress protocol ip pref 10 basic match 'meta(fwmark mask 0xf0 shift 4 eq 3) and meta(vlan mask 0xfff eq 0x123)' action pass
tc filter add dev d0 ingress protocol ip pref 10 basic match 'meta(pkt_len lt 200) and meta(protocol eq 8) and meta(tc_index eq 4) and meta(random mask 1 eq 1)' action pass
tc filter add dev d0 ingress protocol ip pref 10 basic match 'meta(rt_iif eq 3) or meta(rt_classid eq 4) or meta(dev eq 3) or meta(maclen eq 14) or meta(rxhash gt 0)' action pass
tc filter add dev d0 ingress protocol ip pref 10 basic match 'meta(sk_family eq 2) and meta(sk_bound_if eq 3) and meta(sk_rcvbuf gt 4)' action pass
tc filter add dev d0 ingress protocol ip pref 10 basic match 'meta(vlan eq fwmark)' action pass
tc filter add dev d0 ingress protocol ip pref 10 basic match 'cmp(u8 at 0 layer 3 eq 6)' action drop
tc filter add dev d0 ingress protocol ip pref 10 basic match 'nosuch(1)' action drop
tc filter add dev d0 ingress protocol ip pref 10 basic match 'cmp(u8 at 0)' action drop
tc filter add dev d0 ingress protocol ip pref 10 basic match 'nbyte("a")' action drop
tc filter add dev d0 ingress protocol ip pref 20 basic
tc filter add dev d0 ingress protocol ip pref 20 basic action pass
tc filter add dev d0 ingress protocol ip pref 20 basic classid 1:5
tc filter add dev d0 ingress protocol ip pref 30 basic police rate 1mbit burst 10k drop classid 1:3
tc filter show dev d0 ingress
pass 3
tc -s filter show dev d0 ingress
tc -j -p filter show dev d0 ingress pref 20
tc -s -j filter show dev d0 ingress pref 10
tc filter get dev d0 ingress protocol ip pref 10 handle 0x77 basic
tc filter get dev d0 ingress protocol ip pref 10 handle 0x99 basic
tc filter replace dev d0 ingress protocol ip pref 10 handle 0x77 basic match 'meta(nf_mark gt 26)' action pass
tc filter replace dev d0 ingress protocol ip pref 10 handle 0x78 basic match 'meta(nf_mark gt 27)' action pass
tc filter change dev d0 ingress protocol ip pref 10 handle 0x77 basic match 'meta(nf_mark gt 28)' action drop
tc filter change dev d0 ingress protocol ip pref 10 handle 0x79 basic match 'meta(nf_mark gt 28)' action drop
tc filter change dev d0 ingress protocol ip pref 10 handle 0x77 basic match 'meta(nf_mark gt 28)' action goto chain 5
tc filter del dev d0 ingress protocol ip pref 10 handle 2 basic
tc filter del dev d0 ingress protocol ip pref 10 handle 2 basic
tc filter add dev d0 ingress protocol ip pref 10 basic match 'meta(nf_mark gt 30)' action pass
tc filter show dev d0 ingress pref 10
tc filter del dev d0 ingress pref 20
tc filter add dev d0 ingress protocol ip pref 20 handle 0xffffffff basic classid 1:5
tc filter add dev d0 ingress protocol ip pref 20 handle 0x7fffffff basic classid 1:5
tc filter add dev d0 ingress protocol ip pref 20 basic classid 1:6
tc filter show dev d0 ingress pref 20
tc filter del dev d0 ingress protocol ip pref 20 handle 0xffffffff basic
tc filter del dev d0 ingress protocol ip pref 20 handle 0x7fffffff basic
tc filter del dev d0 ingress protocol ip pref 20 handle 1 basic
tc filter show dev d0 ingress pref 20
tc filter del dev d0 ingress
tc filter show dev d0 ingress
ip link del d0
ip link del d1
