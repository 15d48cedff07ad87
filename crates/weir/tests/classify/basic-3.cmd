tc filter add dev d0 ingress protocol ip pref 2 basic match 'not cmp(u16 at 20 layer 0 lt 61503)' flowid 1:5
tc filter add dev d0 ingress protocol ip pref 2 basic match 'not (nbyte("bcd" at 0 layer 1) and ((not meta(vlan eq 8199) or cmp(u16 at 16 layer 1 gt 0)) or cmp(u32 at 36 layer 0 mask 0xffffffff lt 257) or not (not u32(u32 0x42387017 0x4b3c74f7 at 4) and meta(rt_classid eq 0))))' action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'meta(nf_mark lt 0)' action pipe
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'cmp(u16 at 12 layer 0 gt 33024)' flowid 1:5
tc filter add dev d0 ingress protocol all pref 4 basic match 'not (cmp(u16 at 20 layer 1 mask 0xffff gt 257) and cmp(u8 at 6 layer 1 mask 0xf0 lt 32))' action continue
tc filter add dev d0 ingress protocol ip pref 2 basic match '(not (nbyte("bcd" at 28 layer 1) and cmp(u32 at 12 layer 1 lt 167838212) or cmp(u16 at 16 layer 0 lt 59)) and not cmp(u8 at 9 layer 0 eq 0))' action pipe
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'not (u32(u32 0x8a7db600 0xffffff80 at 0) and not (not (cmp(u8 at 6 layer 0 mask 0xc0 lt 0) and u32(u32 0x1183c186 0xffffffff at 8)) and not (cmp(u16 at 16 layer 1 mask 0xa855 lt 32772) or nbyte("GET /" at 0 layer 1))))' flowid 1:5
tc filter add dev d0 ingress protocol all pref 4 basic match 'cmp(u16 at 16 layer 1 mask 0x24a6 trans eq 0)' action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'not ((nbyte("bcd" at 0 layer 1) and cmp(u32 at 0 layer 1 eq 1174405180) and meta(pkt_len lt 89)) and meta(rt_classid eq 0) and u32(u32 0x94040000 0xffffffff at 20))' flowid 1:5
tc filter add dev d0 ingress protocol all pref 4 basic match 'nbyte("bcd" at 40 layer 1)' action drop
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'cmp(u32 at 12 layer 1 mask 0x44a1c8d7 eq 77643776)' action continue
tc filter add dev d0 ingress protocol ip pref 2 basic match 'not (nbyte("GET /" at 29 layer 1) and meta(vlan mask 0xfff eq 5) or (meta(protocol eq 56710) or not cmp(u8 at 20 layer 1 mask 0xc2 lt 128) and not (not cmp(u16 at 16 layer 0 gt 56) and cmp(u32 at 9 layer 0 mask 0x0 eq 520))))' action pipe
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'u32(u32 0x0 0x0 at 12)' action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match '((not (meta(pkt_type eq 2) or meta(pkt_len shift 3 mask 6 gt 4) or not meta(nf_mark lt 0)) or not meta(vlan eq 5) or not (cmp(u8 at 20 layer 0 eq 0) and cmp(u32 at 22 layer 0 trans eq 1705536) and meta(nf_mark lt 0))) or not u32(u32 0x180000 0x4dfd897c at 4))' action continue
tc filter add dev d0 ingress protocol all pref 1 basic match 'cmp(u16 at 22 layer 1 trans lt 1)' action drop
tc filter add dev d0 ingress protocol ip pref 2 basic match 'not ((cmp(u8 at 6 layer 1 mask 0xc0 eq 0) or not (u32(u32 0x1d930893 0x3dd70ed3 at 0) or nbyte("abc" at 28 layer 1))) or cmp(u16 at 12 layer 1 mask 0xffff trans eq 57067) and cmp(u32 at 12 layer 1 mask 0xa89bbf43 lt 134283266))' action pass
tc filter add dev d0 ingress protocol all pref 4 basic match 'not nbyte("bcd" at 20 layer 1)' action pipe
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'not cmp(u16 at 8 layer 1 lt 16401)' action pass
tc filter add dev d0 ingress protocol ip pref 2 basic match 'not (cmp(u32 at 2 layer 1 mask 0xdf4c4d23 gt 134218752) or ((cmp(u32 at 2 layer 1 trans gt 433251910) and cmp(u32 at 16 layer 1 mask 0xff eq 63)) or not cmp(u8 at 20 layer 1 gt 1)))' action continue
tc filter add dev d0 ingress protocol ip pref 2 basic match 'not (meta(protocol eq 129) or not ((u32(u32 0x4500001e 0xffffffff at 0) or meta(pkt_len shift 3 mask 6 gt 2)) and not (cmp(u32 at 9 layer 0 mask 0xfffff000 trans lt 0) or meta(sk_family eq 2))))' action continue
tc filter add dev d0 ingress protocol ip pref 2 basic match '((not (not meta(vlan mask 0xfff eq 5) or not cmp(u16 at 0 layer 1 eq 24623)) or not (u32(u32 0x905120c5 0xffffffff at 20) or not meta(pkt_len lt 65))) or (meta(rt_classid eq 0) or cmp(u32 at 16 layer 1 mask 0x8cbc49dc gt 79432088)))' action pipe
tc filter add dev d0 ingress protocol all pref 4 basic match 'meta(pkt_type eq 3)' action pass
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match '(cmp(u8 at 9 layer 1 eq 117) and meta(sk_family eq 2))' flowid 1:5
tc filter add dev d0 ingress protocol ip pref 2 basic match 'u32(u32 0x2d184ce5 0xffffffff at 20)' flowid 1:5
tc filter add dev d0 ingress protocol ip pref 2 basic match 'cmp(u32 at 22 layer 1 mask 0xffffffff trans eq 5267782)' action drop
tc filter add dev d0 ingress protocol all pref 4 basic match '(((not cmp(u16 at 2 layer 1 gt 30) or nbyte("bcd" at 29 layer 1)) or meta(pkt_len lt 25)) and not ((meta(pkt_len shift 3 mask 6 gt 4) and cmp(u16 at 32 layer 1 gt 41697)) and cmp(u32 at 8 layer 1 lt 19884975)) or not (not cmp(u8 at 16 layer 1 mask 0xff eq 0) and not u32(u32 0x0 0xff800000 at 20) or not (meta(pkt_len gt 74) or not cmp(u8 at 16 layer 1 eq 160) and cmp(u32 at 2 layer 1 trans eq 3308552))))' action pipe
tc filter add dev d0 ingress protocol all pref 4 basic match 'meta(pkt_len lt 55)' action continue
tc filter add dev d0 ingress protocol all pref 4 basic match 'cmp(u32 at 16 layer 1 trans eq 3232235778)' action drop
tc filter add dev d0 ingress protocol ip pref 2 basic match 'meta(vlan eq 8199)' action pipe
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'not (meta(vlan eq 5) or cmp(u32 at 8 layer 1 eq 536939960) or (not (cmp(u16 at 0 layer 1 eq 28890) and meta(priority eq 0)) or not nbyte("GET /" at 28 layer 1)))' action continue
tc filter add dev d0 ingress protocol all pref 4 basic match 'cmp(u32 at 12 layer 1 mask 0xffc00000 lt 167772160)' action continue
tc filter add dev d0 ingress protocol all pref 1 basic match 'meta(nf_mark lt 1)' action continue
tc filter add dev d0 ingress protocol all pref 4 basic match 'not (not ((meta(nf_mark lt 1) or not cmp(u32 at 3 layer 1 gt 865627738)) and meta(pkt_type eq 3) or cmp(u16 at 22 layer 1 mask 0x0 trans eq 0)) or not cmp(u8 at 0 layer 1 lt 249))' action pipe
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'u32(u32 0xc2908 0x80eb909 at 4)' action pass
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'not ((not (meta(protocol eq 8) or cmp(u8 at 2 layer 1 eq 0)) and not (cmp(u32 at 12 layer 1 mask 0x397e6fc1 trans eq 807291137) and cmp(u16 at 2 layer 1 mask 0xfff8 gt 7488)) or cmp(u32 at 48 layer 1 eq 2517795478)) and not ((nbyte("E" at 0 layer 1) and u32(u32 0x0 0x0 at 0)) and cmp(u8 at 22 layer 1 mask 0x9c gt 144) and (cmp(u16 at 0 layer 0 eq 10940) and cmp(u32 at 22 layer 0 gt 2904486128) or not cmp(u16 at 9 layer 1 mask 0x0 lt 4387))))' action drop
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'not (not u32(u32 0xb8 0xff at 8) and not cmp(u32 at 16 layer 1 mask 0xffffffff eq 3232235522))' action continue
tc filter add dev d0 ingress protocol all pref 4 basic match 'not (not nbyte("GET /" at 29 layer 1) and (cmp(u8 at 2 layer 1 gt 0) and u32(u32 0xea1d4000 0xfffffc00 at 4) or (not nbyte("E" at 28 layer 1) or cmp(u8 at 8 layer 0 mask 0xf8 eq 0))) or cmp(u8 at 9 layer 0 mask 0xff eq 0))' action continue
tc filter add dev d0 ingress protocol all pref 1 basic match 'u32(u32 0x22a05 0x86a32bad at 8)' flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 basic match '(meta(priority eq 0) or not (not (nbyte("abc" at 29 layer 1) or not nbyte("E" at 0 layer 1)) or not cmp(u16 at 2 layer 1 lt 4902)))' action pipe
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'u32(u32 0x0 0xffffffff at 16)' action pipe
