tc filter add dev d0 ingress protocol ip pref 2 basic match 'not meta(pkt_len gt 32)' action continue
tc filter add dev d0 ingress protocol all pref 1 basic match 'cmp(u32 at 14 layer 0 eq 1157627948)' action continue
tc filter add dev d0 ingress protocol all pref 4 basic match 'cmp(u8 at 8 layer 1 gt 64)' flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'not meta(nf_mark lt 1)' flowid 1:5
tc filter add dev d0 ingress protocol ip pref 2 basic match 'not (meta(pkt_len lt 11) and nbyte("bcd" at 20 layer 1) and not cmp(u8 at 22 layer 1 eq 0))' action pass
tc filter add dev d0 ingress protocol all pref 4 basic match 'not nbyte("GET /" at 40 layer 1)' action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match '(nbyte("E" at 29 layer 1) or meta(sk_family eq 2))' action continue
tc filter add dev d0 ingress protocol all pref 1 basic match 'not cmp(u16 at 2 layer 1 gt 2048)' action continue
tc filter add dev d0 ingress protocol all pref 1 basic match '(not ((not meta(vlan eq 5) or meta(pkt_len shift 3 mask 6 gt 4)) and cmp(u8 at 9 layer 0 mask 0xff eq 152)) and not (not cmp(u16 at 12 layer 0 mask 0x6363 gt 0) and not (meta(pkt_type lt 1) or meta(vlan eq 8199) or nbyte("GET /" at 28 layer 1)) and not (cmp(u32 at 20 layer 1 mask 0x521b18a9 eq 1775744) or cmp(u8 at 39 layer 1 mask 0xf8 gt 0))))' action pass
tc filter add dev d0 ingress protocol all pref 4 basic match 'not (not ((u32(u32 0x50510000 0xd85328b6 at 4) and nbyte("E" at 29 layer 1)) or cmp(u8 at 9 layer 1 lt 1) or not (meta(priority eq 1) and meta(priority eq 1) and cmp(u32 at 8 layer 1 mask 0xffffffff eq 2559639634))) and cmp(u8 at 12 layer 0 gt 8))' action drop
tc filter add dev d0 ingress protocol ip pref 2 basic match '(not (nbyte("GET /" at 20 layer 1) or not (not cmp(u32 at 8 layer 1 mask 0xff eq 0) and meta(vlan eq 8199))) and cmp(u32 at 8 layer 1 lt 3953240531) or meta(pkt_type lt 1))' action pass
tc filter add dev d0 ingress protocol all pref 4 basic match 'not ((meta(protocol eq 1544) or not cmp(u8 at 49 layer 0 mask 0xc3 gt 0) and (cmp(u8 at 27 layer 1 eq 151) and nbyte("bcd" at 40 layer 1))) or not ((nbyte("E" at 29 layer 1) and not nbyte("E" at 29 layer 1)) and u32(u32 0x65db0064 0xffffffff at 4) or meta(priority eq 1)))' action pipe
tc filter add dev d0 ingress protocol all pref 4 basic match 'not (u32(u32 0x0 0xff at 0) or u32(u32 0x0 0x0 at 16) and (nbyte("bcd" at 29 layer 1) or nbyte("abc" at 29 layer 1)))' action continue
tc filter add dev d0 ingress protocol ip pref 2 basic match 'meta(sk_family eq 2)' action continue
tc filter add dev d0 ingress protocol all pref 1 basic match '(u32(u32 0x60187f71 0xffffffff at 0) or u32(u32 0x2 0xffffffff at 20))' action pass
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'nbyte("abc" at 20 layer 1)' flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'not ((not (meta(vlan mask 0xfff eq 7) or cmp(u8 at 6 layer 1 eq 0)) or not (cmp(u8 at 8 layer 1 eq 203) and meta(vlan eq 5)) and (not u32(u32 0x0 0xff at 4) or not meta(priority eq 0))) or cmp(u8 at 6 layer 0 gt 2) and not (not cmp(u8 at 2 layer 1 eq 255) and (cmp(u16 at 8 layer 1 eq 51110) or nbyte("bcd" at 40 layer 1) and meta(pkt_len eq 54))))' action pass
tc filter add dev d0 ingress protocol ip pref 2 basic match 'u32(u32 0x0 0x0 at 20)' flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'not ((cmp(u32 at 12 layer 1 eq 0) and not nbyte("bcd" at 40 layer 1)) or u32(u32 0xc0a80006 0xfffffffe at 16))' action drop
tc filter add dev d0 ingress protocol all pref 1 basic match '(u32(u32 0x40100000 0xfff00000 at 8) or cmp(u16 at 12 layer 1 eq 36649) or (meta(priority eq 1) or (meta(protocol eq 56710) and cmp(u8 at 40 layer 0 lt 111)) or meta(vlan mask 0xfff eq 100)))' action continue
tc filter add dev d0 ingress protocol all pref 4 basic match '(meta(pkt_len shift 3 mask 6 gt 4) and cmp(u32 at 28 layer 1 mask 0x947aa92 eq 16842752))' action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'meta(nf_mark lt 1)' action pass
tc filter add dev d0 ingress protocol ip pref 2 basic match 'not cmp(u8 at 9 layer 1 mask 0x0 gt 1)' action drop
tc filter add dev d0 ingress protocol all pref 4 basic match 'u32(u32 0x13880050 0xffffffff at 20)' flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 basic match 'not (not cmp(u16 at 6 layer 0 mask 0xff trans eq 0) or meta(sk_family eq 2))' action pass
tc filter add dev d0 ingress protocol all pref 4 basic match 'not (meta(protocol eq 129) and meta(pkt_type lt 2))' action drop
tc filter add dev d0 ingress protocol ip pref 2 basic match '(nbyte("abc" at 40 layer 1) and not cmp(u16 at 9 layer 1 mask 0xffff eq 12076))' action pipe
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'cmp(u32 at 8 layer 1 eq 17943439)' flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 basic match 'not (meta(priority eq 0) or nbyte("bcd" at 0 layer 1))' action drop
tc filter add dev d0 ingress protocol all pref 1 basic match '(cmp(u16 at 2 layer 0 mask 0xff00 trans lt 65280) or meta(vlan eq 8199))' flowid 1:5
tc filter add dev d0 ingress protocol all pref 4 basic match 'nbyte("bcd" at 28 layer 1)' flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'cmp(u32 at 2 layer 1 mask 0xff lt 24)' action continue
tc filter add dev d0 ingress protocol all pref 1 basic match 'not cmp(u32 at 12 layer 0 mask 0xff eq 16)' action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'cmp(u8 at 20 layer 1 eq 148)' flowid 1:5
tc filter add dev d0 ingress protocol ip pref 2 basic match 'not (cmp(u16 at 16 layer 1 mask 0xff trans eq 168) or meta(vlan mask 0xfff eq 100) or not cmp(u8 at 0 layer 1 eq 69))' action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'not ((cmp(u16 at 2 layer 1 mask 0x0 lt 30) and not (not u32(u32 0x0 0xffffc000 at 20) and meta(vlan eq 5)) or (not meta(pkt_len gt 23) and u32(u32 0xdc06210 0xcdc9fb5e at 20))) and u32(u32 0x0 0x0 at 4) or (not (cmp(u16 at 22 layer 0 mask 0xffff lt 65327) and meta(nf_mark lt 1) or u32(u32 0x2000000 0xff800000 at 8)) or cmp(u16 at 12 layer 1 eq 2560)))' flowid 1:5
tc filter add dev d0 ingress protocol ip pref 2 basic match 'not (((u32(u32 0xcd 0xff at 12) and cmp(u32 at 16 layer 1 trans gt 3232235781) and meta(priority eq 1)) or meta(pkt_len eq 31) or not meta(nf_mark lt 1)) and meta(protocol eq 8))' action continue
tc filter add dev d0 ingress protocol ip pref 2 basic match 'not nbyte("GET /" at 40 layer 1)' action pipe
tc filter add dev d0 ingress protocol ipv6 pref 3 basic match 'not (nbyte("abc" at 28 layer 1) or meta(rt_classid eq 0))' action continue
tc filter add dev d0 ingress protocol all pref 4 basic match 'cmp(u32 at 0 layer 1 gt 1158676524)' action pipe
