tc filter add dev d0 ingress protocol all pref 1 handle 1: u32 divisor 1
tc filter add dev d0 ingress protocol all pref 1 handle 2: u32 divisor 256
tc filter add dev d0 ingress protocol all pref 1 handle 3: u32 divisor 1
tc filter add dev d0 ingress protocol all pref 1 handle 4: u32 divisor 4
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:e6: match u32 0x0 0x0 at -12 match u32 0x8a980218 0xafbd67f9 at 0 match u8 0x88 0xf8 at -2 action pipe
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 match u32 0x0 0xff at -8 match u8 0x0 0x0 at 2 flowid 1:5
tc filter add dev d0 ingress protocol all pref 5 u32 ht 4:2: match u32 0x0 0x0 at -8 match u8 0x2f 0xff at 9 match u8 0x0 0x0 at nexthdr+24 match u32 0x45100000 0xfffff000 at nexthdr+0 match u16 0x6001 0xffff at 0 match u16 0x0 0xc000 at nexthdr+4 match u32 0x0 0x0 at nexthdr+20 match u32 0xc 0xff at 40 match u32 0x88 0xff at 40 match u8 0x0 0x0 at -8 match u32 0x0 0xff at nexthdr+20 match u32 0x0 0x0 at 24 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:35: match u16 0x1 0xffff at 0 match u32 0x0 0xff at 40 match u8 0x44 0xff at 4 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u8 0x4 0x25 at -2 action drop
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0xc10412 0xecd1345e at 4 match u32 0x3b96d91 0xffffffff at 20 match u8 0x30 0x34 at 6 link 3: hashkey mask 0x0000fff0 at 12 offset at 2 mask 0x00ff shift 1 plus 3 eat
tc filter add dev d0 ingress protocol all pref 1 u32 match u16 0xcc0c 0xfffc at 40 match u8 0x0 0x80 at 18 link 2: hashkey mask 0x000000ff at 8 offset at 0 mask 0x0f00 shift 6 eat action pipe
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 1:0: match u32 0xff06ad9f 0xffffffff at 8 match u32 0x2 0xff at 16 link 1: hashkey mask 0x00ff0000 at 12
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0x0 0x0 at 8 match u32 0x20800 0x2d9b8ebf at -4 link 2: hashkey mask 0x000000ff at 20
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 1:0: match u32 0x0 0x0 at 20 match u32 0x0 0x0 at nexthdr+8 match u32 0x0 0xf0000000 at -8 action drop
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 2:ac: match u32 0x80000000 0xff800000 at nexthdr+4 match u16 0x3f19 0xffff at nexthdr+20 action pass
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 4:3: match u8 0x0 0x0 at -2 match u32 0x7ca00064 0xffffffff at nexthdr+4 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 match u8 0x4 0xff at 20 link 2: offset plus 20 eat action drop
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0x0 0xffffe000 at -12 match u32 0x46000010 0xce33dd70 at nexthdr+0 match u16 0x64 0xff at 6 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 4:3: match u32 0x0 0x0 at -8 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:65: match u8 0x0 0x0 at 40 action pass
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 4:1: match u16 0xedc6 0xffff at nexthdr+4 match u16 0x0 0x0 at 18 match u8 0xee 0xff at nexthdr+24 link 3: hashkey mask 0x0000ff00 at 16 offset plus 20 eat action pass
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 3:0: match u32 0xcf 0xff at nexthdr+20 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 ht 4:1: match u32 0x0 0x0 at 40 action pipe
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 3:0: match u8 0x80 0x9e at 8 match u16 0x0 0x0 at 6 link 2: hashkey mask 0x0f000000 at 20 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u32 0xec 0xff at nexthdr+60 match u16 0x6d7d 0xffff at -14 match u8 0x93 0xff at 40 link 1: hashkey mask 0x0000ff00 at 20 offset at 0 mask 0x0f00 shift 6 eat action pass
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 4:2: match u32 0x0 0x0 at 0 flowid 1:5
tc filter add dev d0 ingress protocol all pref 5 u32 match u16 0x8 0xff at 18 match u32 0x50 0xff at 40 match u8 0x0 0xff at 18 link 2: offset at 0 mask 0x0f00 shift 6 
tc filter add dev d0 ingress protocol all pref 5 u32 ht 3:0: match u16 0x41a3 0xffff at nexthdr+8 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u16 0x2001 0xffff at nexthdr+8 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u8 0x0 0x0 at nexthdr+8 action pass
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 1:0: match u16 0xa000 0xf800 at 42 link 1: hashkey mask 0x0000fff0 at 8 offset at 6 mask 0x00ff shift 0 plus 3 eat
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:e8: match u32 0x0 0x0 at nexthdr+8 match u16 0xae4f 0xffff at nexthdr+20 match u32 0xdf 0xff at 8 action pass
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 3:0: match u32 0x4600003c 0xffffffff at 0 action continue
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 4:2: match u8 0x0 0xff at 18 action pipe
tc filter add dev d0 ingress protocol ip pref 2 u32 match u32 0x94040000 0xffffffff at 20 match u16 0x0 0x9d92 at -8 match u8 0x0 0x0 at -2 link 1: hashkey mask 0x0f000000 at 8 offset at 0 mask 0x0f00 shift 6 
tc filter add dev d0 ingress protocol all pref 5 u32 match u16 0x100 0x3ba7 at -14 match u8 0x48 0xff at 0 match u8 0x0 0xf0 at -8 flowid 1:5
tc filter add dev d0 ingress protocol all pref 5 u32 ht 2:cd: match u32 0xa010001 0xffffffff at 12 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0x0 0x0 at -4 match u16 0x0 0x0 at 8 match u8 0xfe 0xff at 15 match u32 0x3381d8ef 0xffffffff at 40 match u16 0x32 0xffff at 2 match u16 0xff 0xff at 42 match u32 0xc0a80006 0xffffffff at 16 match u8 0x5c 0xff at 22 match u32 0x350050 0xffffffff at 20 match u32 0x20800 0xffffffff at -4 match u16 0x201e 0xffff at 22 match u16 0x0 0xffff at 18 link 3: offset plus 400 action pass
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 match u16 0x2810 0xfff0 at 24 action drop
tc filter add dev d0 ingress protocol all pref 1 u32 ht 4:2: match u16 0x0 0x0 at 24 action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 2:c9: match u16 0xbe5d 0xffff at nexthdr+2 link 3: offset at 4 mask 0x00ff shift 1 plus 3 eat
tc filter add dev d0 ingress protocol all pref 1 u32 ht 4:2: match u16 0x0 0x0 at 20 match u32 0x41002024 0xcb8cb4bf at 20 match u32 0x0 0x0 at 20 match u8 0x0 0xbd at nexthdr+42 match u32 0x6007371c 0xffffffff at 0 match u16 0x2001 0xffff at nexthdr+24 match u32 0x0 0x0 at 0 match u32 0x0 0x0 at nexthdr+40 match u16 0x0 0x0 at -8 match u32 0xa010001 0xffffffff at 12 match u32 0x0 0x6e96f9b8 at -12 match u8 0x0 0x0 at nexthdr+8 flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 1:0: match u32 0x89003a4a 0xcdc9fb5e at 0 action drop
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u32 0xcb5dd810 0xffffffff at nexthdr+40 action pass
tc filter add dev d0 ingress protocol ip pref 2 u32 match u32 0x0 0x0 at 0 match u32 0x0 0x0 at -4 match u8 0xff 0xff at -14 link 1: offset at 2 mask 0x00ff shift 2 plus 3 eat action continue
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 1:0: match u16 0x0 0x0 at 12 action continue
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 match u32 0x1e 0xff at 0 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 match u16 0x0 0x0 at 40 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u32 0x10000000 0xf0000000 at nexthdr+4 match u32 0x0 0x0 at 40 match u32 0x8900b200 0xa960b700 at nexthdr+0 action drop
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u8 0xac 0xff at nexthdr+40 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 match u8 0xc2 0xff at 12 action drop
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0xfc300000 0xfff80000 at 4 match u8 0xd 0xff at 42 match u16 0x2001 0xffff at nexthdr+24 match u16 0x2108 0x25f8 at nexthdr+24 match u8 0x2 0xff at -8 match u32 0x0 0xfc000000 at 4 match u32 0x1 0xff at nexthdr+16 match u32 0xa41f8000 0xffff8000 at nexthdr+40 match u16 0x0 0x0 at -2 match u8 0x0 0x0 at 2 match u8 0x0 0x88 at nexthdr+12 match u8 0x0 0x0 at nexthdr+24 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0x0 0x80000000 at 12 action drop
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 match u16 0x0 0x0 at -14 link 4: hashkey mask 0xff000000 at 12
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 3:0: match u16 0x84af 0xffff at nexthdr+40 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u16 0xdfec 0xfffe at 40 match u16 0xad23 0xffff at nexthdr+20 match u32 0x90 0xff at 20 action continue
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 3:0: match u32 0x75 0xff at 16 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 4:2: match u32 0x54 0xff at 24 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0xd547d019 0xffffffff at nexthdr+40 action drop
tc filter add dev d0 ingress protocol all pref 1 u32 ht 4:0: match u32 0x0 0x0 at nexthdr+0 action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 3:0: match u32 0x60000000 0xf0000000 at nexthdr+0 link 1: offset plus 20 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0x4500001e 0xffffffff at 0 match u32 0xa000000 0xffffff80 at 12 match u32 0x5994a1a1 0xffffffff at nexthdr+16 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u16 0x0 0xe000 at nexthdr+22 match u8 0x80 0xff at nexthdr+24 match u8 0x0 0x0 at nexthdr+8 action pass
tc filter add dev d0 ingress protocol ip pref 2 u32 match u32 0x9492edee 0xffffffff at 20 match u32 0x20000000 0xffc00000 at 24 match u32 0x45000000 0xffffe000 at 0 link 3: offset plus 21 action drop
