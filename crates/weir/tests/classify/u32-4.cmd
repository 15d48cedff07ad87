tc filter add dev d0 ingress protocol all pref 1 handle 1: u32 divisor 1
tc filter add dev d0 ingress protocol all pref 1 handle 2: u32 divisor 4
tc filter add dev d0 ingress protocol all pref 1 handle 3: u32 divisor 1
tc filter add dev d0 ingress protocol all pref 1 handle 4: u32 divisor 16
tc filter add dev d0 ingress protocol ip pref 2 u32 match u8 0x4 0xff at 2 link 1: offset at 4 mask 0x00ff shift 1 plus 3 eat action continue
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 4:b: match u16 0x7a 0xff at -8 match u32 0x11521121 0x995253fd at nexthdr+20 match u16 0x0 0x0 at 4 match u32 0x40000000 0xf0000000 at 40 match u32 0x3a973000 0xffffffff at nexthdr+4 match u16 0x9400 0xfc00 at 20 match u8 0xe0 0xf0 at 20 match u16 0x0 0xf800 at nexthdr+24 match u32 0x7404040 0x877c606f at nexthdr+12 match u32 0x1010101 0xffffffff at nexthdr+28 match u32 0x40947898 0xc5b67999 at nexthdr+12 match u32 0x6040002 0xffffffff at 4 action drop
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u8 0x0 0x80 at 18 match u32 0x0 0x0 at 8 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0x0 0x0 at 4 action drop
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 3:0: match u8 0x39 0xff at nexthdr+0 link 1: hashkey mask 0x00ff0000 at 0 offset at 0 mask 0x0f00 shift 6 eat action continue
tc filter add dev d0 ingress protocol ip pref 2 u32 match u32 0x0 0x0 at 4 match u32 0x8000000 0xf8000000 at 20 match u32 0x0 0x0 at 20 action pass
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 match u8 0x2 0xff at -8 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 ht 4:1: match u8 0x2 0xff at -8 match u16 0x49a0 0xffe0 at 8 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:1: match u16 0xa4a 0xffff at 20 match u8 0x0 0x0 at 6 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u8 0x0 0x91 at -8 match u32 0x0 0x0 at 8 action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 1:0: match u32 0x97a92003 0xffffffff at 4 match u16 0x0 0x0 at -8 match u16 0x0 0x0 at nexthdr+20 action pass
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 1:0: match u32 0x302406 0x81f1a426 at 8 action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 4:9: match u32 0x0 0x0 at nexthdr+0 match u32 0x8840cc2c 0xffffffff at 16 link 3: hashkey mask 0x0000fff0 at 12 offset at 0 mask 0x0f00 shift 6 flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 1:0: match u32 0xd5 0xff at 20 match u32 0xe890f855 0xffffffff at 12 link 1: hashkey mask 0x0000fff0 at 4 offset plus 21 
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 1:0: match u8 0x6 0xff at 9 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 match u8 0x0 0xff at 22 match u16 0x1e 0xff at 0 match u32 0x46081386 0x572ad3d6 at 4 link 1: hashkey mask 0x000000ff at 0 offset at 4 mask 0x00ff shift 4 plus 3 eat
tc filter add dev d0 ingress protocol all pref 1 u32 ht 4:2: match u32 0xfd77cd71 0xffffffff at 12 action pass
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 1:0: match u32 0x0 0x0 at -12 link 1: hashkey mask 0x00ff0000 at 4 offset at 2 mask 0x00ff shift 2 plus 3 eat
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u32 0x88d5025b 0xffffffff at 12 action pipe
tc filter add dev d0 ingress protocol ip pref 2 u32 match u32 0x0 0x0 at 40 match u32 0x100 0xe50831d9 at 12 match u32 0x0 0x5dafc73 at 16 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0x0 0x0 at 20 match u16 0x44c3 0x64d3 at 22 link 2: offset plus 400 
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u32 0x20800 0xfffffff8 at -4 action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 4:1: match u8 0x45 0xff at nexthdr+0 match u8 0x0 0xff at 20 link 1: hashkey mask 0x000000ff at 8 action pipe
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 1:0: match u32 0x40 0xff at nexthdr+4 action pipe
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 match u32 0x41 0xff at 8 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u8 0x1 0xff at -14 flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 4:e: match u16 0xe5 0xff at nexthdr+22 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0x4000016 0xffffffff at 20 match u32 0x0 0x0 at 16 action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 match u32 0xbe 0xff at 0 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0x20010db8 0xffffffff at 24 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 match u8 0x0 0x0 at 42 match u16 0xf9a4 0xffff at -8 match u32 0x0 0xff at 20 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:3: match u8 0x0 0x0 at nexthdr+42 flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 4:f: match u8 0xff 0xff at -14 flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 match u16 0x800 0xfc00 at 2 match u8 0x20 0xff at 18 match u32 0x1 0xffffffff at -12 action drop
tc filter add dev d0 ingress protocol all pref 1 u32 match u16 0x0 0x0 at 40 match u16 0x9eb 0x19ef at 40 link 1:
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 3:0: match u32 0x40000000 0xc0000000 at nexthdr+0 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u16 0x0 0x0 at 6 link 2: hashkey mask 0x0000ff00 at 16 offset at 0 mask 0x0f00 shift 6 
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0x30 0xff at 16 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0x3000000 0xffffffff at 20 link 1: offset plus 400 eat
tc filter add dev d0 ingress protocol all pref 1 u32 match u8 0x60 0xeb at 24 match u32 0x80000000 0x80000000 at 16 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u32 0x0 0x0 at -12 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:1: match u32 0x0 0x0 at 0 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0x0 0x0 at 8 action continue
tc filter add dev d0 ingress protocol all pref 5 u32 ht 3:0: match u32 0x0 0x0 at -8 action drop
tc filter add dev d0 ingress protocol all pref 5 u32 match u8 0xd0 0xff at 0 match u16 0xae00 0xff00 at 8 link 2: hashkey mask 0x00ff0000 at 16 offset at 0 mask 0x0f00 shift 6 
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:2: match u8 0xe5 0xff at 55 flowid 1:5
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 match u32 0x0 0xff at -4 link 4: hashkey mask 0x00ff0000 at 4 offset plus 20 eat
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:3: match u32 0xd5cc8a6d 0xffffffff at 16 match u32 0x51738ac0 0xffffffff at nexthdr+16 match u16 0xa 0xff at 24 flowid 1:5
tc filter add dev d0 ingress protocol ip pref 2 u32 match u8 0x8 0xff at -2 match u8 0x20 0xff at 42 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u32 0x0 0x0 at 24 match u32 0x2000000 0xffffffff at -8 match u32 0x0 0x0 at nexthdr+16 action pass
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 1:0: match u32 0x0 0x0 at -4 match u32 0x0 0x0 at nexthdr+4 action drop
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 3:0: match u16 0x0 0x0 at nexthdr+2 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u32 0xb8 0xff at nexthdr+8 action drop
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0x28420000 0x6cc27bb1 at 4 match u8 0x0 0x80 at 4 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 4:6: match u8 0x0 0x0 at nexthdr+24 match u32 0xe0000 0xffffffff at 24 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:1: match u32 0x82800000 0xffc00000 at nexthdr+20 action drop
tc filter add dev d0 ingress protocol all pref 5 u32 ht 2:2: match u16 0xca3a 0xffff at 6 action pipe
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 4:0: match u8 0x0 0x0 at -8 match u16 0x0 0xffff at 42 match u16 0x50 0xffff at nexthdr+42 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 ht 4:8: match u8 0x1 0xff at 9 match u8 0x0 0x0 at nexthdr+8 flowid 1:5
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 3:0: match u16 0x0 0x0 at 16 match u16 0x9f 0xff at 8 match u32 0x0 0x0 at -4 action drop
