tc filter add dev d0 ingress protocol all pref 1 basic match 'not (meta(rt_classid eq 0) or u32(u32 0xc0a80105 0xffffffff at 16))' action pipe
tc filter add dev d0 ingress protocol ip pref 2 basic match 'cmp(u8 at 6 layer 1 gt 184)' action continue
tc filter add dev d0 ingress protocol all pref 4 basic match 'not (u32(u32 0x14000000 0x7d718d73 at 20) and u32(u32 0x0 0xb9492f25 at 12))' action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match '(nbyte("bcd" at 28 layer 1) and cmp(u32 at 2 layer 1 eq 3500653828) and cmp(u8 at 16 layer 0 mask 0x0 eq 184))' action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'not (nbyte("abc" at 29 layer 1) and not cmp(u8 at 0 layer 1 mask 0xfe gt 68))' action continue
tc filter add dev d0 ingress protocol ip pref 2 basic match 'cmp(u8 at 12 layer 0 eq 8)' action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'u32(u32 0x0 0x0 at 20)' action drop
tc filter add dev d0 ingress protocol ip pref 2 basic match '((cmp(u8 at 20 layer 0 mask 0x0 eq 116) or not (not cmp(u8 at 2 layer 1 mask 0xff lt 93) and cmp(u32 at 16 layer 1 mask 0xff lt 8)) and not (not cmp(u32 at 9 layer 1 eq 2943386934) and cmp(u16 at 20 layer 1 mask 0xfffc eq 49320) and meta(pkt_type lt 1))) and (not cmp(u32 at 20 layer 1 mask 0xfffffe00 lt 2483290112) and cmp(u16 at 6 layer 1 eq 64) or (cmp(u16 at 2 layer 0 lt 65535) and nbyte("E" at 0 layer 1) or nbyte("bcd" at 0 layer 1))) and not (not nbyte("GET /" at 29 layer 1) or not meta(nf_mark lt 1)))' action continue
tc filter add dev d0 ingress protocol all pref 4 basic match 'not meta(pkt_len shift 3 mask 6 gt 0)' action drop
tc filter add dev d0 ingress protocol all pref 1 basic match '(cmp(u16 at 47 layer 1 mask 0xde69 lt 17921) or not meta(rt_classid eq 0) and not (cmp(u8 at 16 layer 1 mask 0xff lt 190) or not (nbyte("bcd" at 0 layer 1) or cmp(u32 at 24 layer 1 eq 798093509))))' action continue
tc filter add dev d0 ingress protocol ip pref 2 basic match 'meta(nf_mark lt 0)' action drop
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'not (cmp(u16 at 9 layer 1 mask 0xffc0 lt 57920) or meta(priority eq 1))' flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'meta(sk_family eq 2)' action drop
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'cmp(u8 at 12 layer 1 lt 223)' action continue
tc filter add dev d0 ingress protocol ip pref 2 basic match 'not (cmp(u8 at 12 layer 1 mask 0xf0 eq 0) and (nbyte("abc" at 20 layer 1) or u32(u32 0x0 0xff at 12)))' action continue
tc filter add dev d0 ingress protocol all pref 4 basic match 'cmp(u32 at 39 layer 0 mask 0xff lt 40)' action pass
tc filter add dev d0 ingress protocol ip pref 2 basic match '(meta(protocol eq 8) and meta(rt_classid eq 0))' action pipe
tc filter add dev d0 ingress protocol all pref 1 basic match 'nbyte("E" at 40 layer 1)' action drop
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'cmp(u32 at 8 layer 0 mask 0x0 lt 2)' action pipe
tc filter add dev d0 ingress protocol all pref 1 basic match 'cmp(u32 at 6 layer 1 mask 0xffffffff eq 537083910)' action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'not (cmp(u16 at 6 layer 0 mask 0xffff trans eq 512) and meta(rt_classid eq 0))' flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'cmp(u16 at 9 layer 0 trans gt 0)' action drop
tc filter add dev d0 ingress protocol all pref 4 basic match 'not (nbyte("GET /" at 29 layer 1) or meta(sk_family eq 2) and not ((meta(priority eq 0) or cmp(u32 at 12 layer 1 mask 0xffffffff lt 167772673) or meta(vlan mask 0xfff eq 7)) and nbyte("abc" at 28 layer 1)))' action continue
tc filter add dev d0 ingress protocol all pref 4 basic match 'u32(u32 0xff2fcafd 0xffffffff at 8)' action pipe
tc filter add dev d0 ingress protocol all pref 1 basic match 'not ((cmp(u16 at 12 layer 1 mask 0xffff trans eq 60318) and (not cmp(u32 at 9 layer 0 mask 0x0 gt 520) or cmp(u32 at 12 layer 0 eq 134235392) and not cmp(u16 at 0 layer 1 lt 1))) or (meta(pkt_len shift 3 mask 6 gt 0) or not (not cmp(u8 at 16 layer 0 lt 0) and not meta(pkt_len shift 3 mask 6 gt 2) or not cmp(u16 at 6 layer 1 lt 24531)) or not (not cmp(u32 at 16 layer 0 mask 0xff lt 139) and not cmp(u32 at 20 layer 1 mask 0xfffffc00 eq 3473408))) or meta(sk_family eq 2))' action pipe
tc filter add dev d0 ingress protocol all pref 4 basic match 'not (cmp(u32 at 0 layer 1 eq 1953038959) or nbyte("bcd" at 29 layer 1) or not (not cmp(u8 at 20 layer 1 mask 0xa8 eq 128) and nbyte("GET /" at 20 layer 1)))' action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match '(cmp(u16 at 6 layer 1 mask 0xff gt 100) and cmp(u8 at 20 layer 1 mask 0xff eq 101))' action pipe
tc filter add dev d0 ingress protocol all pref 1 basic match 'meta(pkt_len gt 23)' action continue
tc filter add dev d0 ingress protocol all pref 4 basic match '((meta(rt_classid eq 0) or (cmp(u32 at 20 layer 1 mask 0x0 eq 1450358460) and cmp(u8 at 12 layer 0 eq 36))) and meta(vlan eq 8199))' action drop
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'meta(nf_mark lt 0)' action continue
tc filter add dev d0 ingress protocol all pref 1 basic match 'cmp(u16 at 22 layer 1 trans eq 15412)' action pipe
tc filter add dev d0 ingress protocol all pref 1 basic match '(not cmp(u8 at 42 layer 0 lt 160) and ((u32(u32 0xfb 0xff at 0) and cmp(u8 at 6 layer 1 mask 0xda lt 16)) or not (not cmp(u16 at 6 layer 1 lt 17587) or u32(u32 0xce3284e9 0xffffffff at 12))) or cmp(u16 at 20 layer 0 eq 1))' action pipe
tc filter add dev d0 ingress protocol ip pref 2 basic match 'not meta(pkt_len gt 9)' action pipe
tc filter add dev d0 ingress protocol all pref 1 basic match 'nbyte("E" at 20 layer 1)' flowid 1:5
tc filter add dev d0 ingress protocol all pref 4 basic match 'not meta(pkt_len shift 3 mask 6 gt 4)' action pipe
tc filter add dev d0 ingress protocol all pref 1 basic match '((meta(sk_family eq 2) or not cmp(u8 at 12 layer 0 eq 134)) and cmp(u8 at 2 layer 1 gt 109))' action drop
tc filter add dev d0 ingress protocol all pref 1 basic match 'meta(pkt_type lt 0)' action continue
tc filter add dev d0 ingress protocol ip pref 2 basic match 'not ((meta(vlan mask 0xfff eq 5) and meta(vlan mask 0xfff eq 100)) or (not (u32(u32 0x64 0xff at 8) and nbyte("E" at 0 layer 1)) and cmp(u32 at 12 layer 1 mask 0xff eq 2) or nbyte("GET /" at 29 layer 1)))' action pipe
tc filter add dev d0 ingress protocol ip pref 2 basic match '((not (cmp(u32 at 20 layer 1 eq 194774401) and cmp(u8 at 0 layer 0 mask 0xff eq 217)) or nbyte("E" at 0 layer 1)) or cmp(u8 at 0 layer 0 eq 235))' action drop
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'meta(pkt_len shift 3 mask 6 gt 4)' action continue
