tc filter add dev d0 ingress protocol all pref 1 handle 1: u32 divisor 1
tc filter add dev d0 ingress protocol all pref 1 handle 2: u32 divisor 256
tc filter add dev d0 ingress protocol all pref 1 handle 3: u32 divisor 256
tc filter add dev d0 ingress protocol all pref 1 handle 4: u32 divisor 1
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:f2: match u32 0x404a0d5 0x8cb4a0d7 at nexthdr+16 action pipe
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 4:0: match u32 0x0 0x0 at nexthdr+20 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 match u16 0x0 0xff at 20 action continue
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 match u32 0x0 0x0 at -4 flowid 1:5
tc filter add dev d0 ingress protocol ip pref 2 u32 match u8 0x82 0xff at 0 action continue
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 3:a9: match u32 0x686e0000 0xffff0000 at nexthdr+20 match u8 0x80 0x8a at 48 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:9b: match u8 0x0 0x0 at nexthdr+0 action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 4:0: match u32 0x80000 0xfff80000 at 24 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:35: match u32 0x2000000 0xffffffff at -8 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:a4: match u8 0xe0 0xf8 at nexthdr+4 action drop
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:5d: match u32 0x0 0x0 at nexthdr+8 match u8 0x66 0xff at nexthdr+42 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 match u16 0x0 0x0 at 16 flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 match u32 0xba 0xff at -12 match u32 0xc0a80007 0xffffffff at 20 match u32 0x0 0x0 at 16 link 3: hashkey mask 0xff000000 at 16 action continue
tc filter add dev d0 ingress protocol all pref 5 u32 match u32 0x10800 0xfffffffc at 0 link 4: hashkey mask 0xff000000 at 8 offset at 4 mask 0x00ff shift 1 plus 3 eat
tc filter add dev d0 ingress protocol ip pref 2 u32 match u8 0x48 0xff at 9 link 4: offset at 4 mask 0x00ff shift 3 plus 3 eat
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0x0 0x0 at 16 flowid 1:5
tc filter add dev d0 ingress protocol all pref 5 u32 ht 3:c0: match u32 0x5e000005 0xffffffff at -12 match u16 0x0 0x0 at 0 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0xff938000 0xffff8000 at 8 link 3: hashkey mask 0x000000ff at 12 offset plus 40 
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 3:f7: match u32 0x6016e0d0 0xffffffff at nexthdr+4 match u16 0x800 0xffff at -2 match u16 0xa082 0xa4e2 at nexthdr+40 action continue
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 3:69: match u32 0x26f80000 0xffffffff at nexthdr+4 link 3: hashkey mask 0xff000000 at 20 offset at 0 mask 0x0f00 shift 6 eat action pass
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0x0 0xff at 16 link 1: hashkey mask 0x0f000000 at 12 flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 4:0: match u16 0x0 0xff at nexthdr+18 action continue
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 1:0: match u32 0x5a270308 0xffffffff at -4 match u8 0x0 0xff at nexthdr+6 action drop
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 match u8 0x44 0xff at 6 link 3:
tc filter add dev d0 ingress protocol all pref 5 u32 match u32 0x35 0xff at 4 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:4a: match u32 0xcd8b2902 0xcd9ba96e at nexthdr+12 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 ht 4:0: match u8 0x2 0x77 at 12 match u32 0x71b88c97 0xffffffff at -8 link 1: hashkey mask 0xff000000 at 4 offset at 0 mask 0x0f00 shift 6 eat
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0x668c4000 0xffffffff at 4 action pass
tc filter add dev d0 ingress protocol all pref 5 u32 match u32 0x1 0xffffffff at -12 action continue
tc filter add dev d0 ingress protocol ip pref 2 u32 match u16 0x69ea 0xffff at 24 link 3: hashkey mask 0x0f000000 at 16 offset plus 20 action pipe
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 3:56: match u32 0x0 0x0 at 20 action pass
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 2:d: match u32 0x30c00000 0xffe00000 at 40 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:99: match u16 0x5420 0xffff at 22 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0x882342 0xa89bbf43 at -12 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u8 0x0 0x0 at -2 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 match u8 0x45 0xff at 29 match u8 0x0 0x0 at 2 match u32 0x0 0xdf4c4d23 at 16 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0x0 0xff at nexthdr+20 match u16 0x4050 0x6056 at nexthdr+16 match u32 0xc02001 0x15f52d75 at 4 action pass
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 2:b1: match u32 0x8a00c400 0x8a07d5d0 at 36 match u16 0x0 0x0 at 12 match u32 0xf800a86 0xffffffff at 0 action drop
tc filter add dev d0 ingress protocol all pref 5 u32 ht 4:0: match u8 0x2 0xf7 at 12 link 1: hashkey mask 0x000000ff at 0 offset plus 21 
tc filter add dev d0 ingress protocol all pref 1 u32 match u8 0x0 0x0 at 2 match u16 0x100 0x9195 at 52 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:9f: match u32 0x0 0x0 at 20 match u32 0x90800 0x8d79cbf2 at nexthdr+0 match u8 0x0 0xfe at 2 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0x0 0x0 at nexthdr+8 link 4: hashkey mask 0x0f000000 at 12 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0x90 0xff at nexthdr+24 action continue
tc filter add dev d0 ingress protocol ip pref 2 u32 match u16 0x2 0xffff at 22 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:26: match u8 0x0 0xc4 at nexthdr+12 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:c8: match u32 0xc0a80106 0xffffffff at 16 link 1: hashkey mask 0x000000ff at 8 offset at 0 mask 0x0f00 shift 6 eat action continue
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 1:0: match u32 0xfe2939ba 0xffffffff at -12 link 2: hashkey mask 0x0000fff0 at 4 offset plus 4 
tc filter add dev d0 ingress protocol ip pref 2 u32 match u32 0x4b000000 0xff000000 at 4 action drop
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u8 0x0 0xd0 at nexthdr+24 match u32 0x0 0xffffffff at 40 link 1: hashkey mask 0x0000ff00 at 0 offset at 0 mask 0x0f00 shift 6 
tc filter add dev d0 ingress protocol all pref 5 u32 ht 2:bf: match u32 0x0 0x37f1d3b9 at -4 match u16 0xb000 0xfc00 at nexthdr+24 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 ht 4:0: match u8 0x0 0x0 at -14 match u8 0x81 0xff at -2 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:6d: match u32 0x64 0xff at nexthdr+40 match u32 0xfdcc83ed 0xffffffff at nexthdr+8 match u32 0x0 0x0 at 0 action drop
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 1:0: match u32 0x0 0x0 at nexthdr+8 match u32 0x16 0xff at 8 match u8 0x0 0x20 at 6 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:d8: match u16 0xc0a8 0xffff at nexthdr+16 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:2b: match u8 0xae 0xff at 24 match u32 0x0 0x0 at -8 match u16 0x0 0x0 at -14 action continue
tc filter add dev d0 ingress protocol all pref 5 u32 match u16 0x4028 0x793a at 16 link 3: hashkey mask 0x00ff0000 at 0 offset at 6 mask 0x00ff shift 0 plus 3 eat action continue
tc filter add dev d0 ingress protocol ip pref 2 u32 match u8 0x0 0x0 at 12 link 4: hashkey mask 0x0000fff0 at 8 action pass
tc filter add dev d0 ingress protocol all pref 5 u32 ht 3:ea: match u32 0x0 0xff at -8 action pipe
tc filter add dev d0 ingress protocol ip pref 2 u32 match u16 0x0 0x988a at 22 match u32 0x62 0xff at 24 match u16 0x0 0x0 at 42 action continue
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 1:0: match u8 0xc8 0xc9 at nexthdr+22 action pass
