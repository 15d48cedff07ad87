tc filter add dev d0 ingress protocol all pref 1 handle 1: u32 divisor 1
tc filter add dev d0 ingress protocol all pref 1 handle 2: u32 divisor 1
tc filter add dev d0 ingress protocol all pref 1 handle 3: u32 divisor 1
tc filter add dev d0 ingress protocol all pref 1 handle 4: u32 divisor 4
tc filter add dev d0 ingress protocol all pref 5 u32 match u16 0x0 0x0 at 2 match u16 0x200 0xba60 at -8 action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 match u32 0x0 0x0 at 8 action continue
tc filter add dev d0 ingress protocol all pref 5 u32 ht 3:0: match u32 0x0 0x0 at 48 match u8 0x0 0x0 at -2 match u16 0x0 0x0 at 20 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0x45000022 0xffffffff at nexthdr+0 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0xeb2b5693 0xffffffff at 4 link 1: offset plus 20 action pipe
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 4:0: match u32 0x22a8020d 0xe6eacb0f at 36 match u8 0xc 0xc at 4 match u8 0xae 0xff at -8 flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 match u32 0xa294523d 0xffffffff at 8 match u32 0x0 0xff at 4 link 4: hashkey mask 0x000000ff at 16 offset at 0 mask 0x0f00 shift 6 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 match u8 0x0 0x0 at 20 link 1: hashkey mask 0x000000ff at 12 offset plus 4 eat action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u16 0x0 0x0 at 42 match u32 0xffffffff 0xffffffff at -12 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:0: match u8 0x0 0x0 at 8 match u16 0x35f7 0xffff at nexthdr+12 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u8 0x0 0xff at 20 match u32 0x8b966e9c 0xffffffff at 4 match u32 0x0 0xff at nexthdr+20 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0x4000010 0x250f5218 at 20 match u8 0x8 0x8c at 40 flowid 1:5
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 1:0: match u32 0x0 0xff at 40 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:0: match u8 0x0 0x0 at 6 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 match u8 0x68 0xff at -8 match u32 0x1 0xffffffff at 20 match u8 0x0 0x0 at 8 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 match u8 0x0 0xff at 20 match u16 0x3 0xff at 22 match u32 0x0 0x0 at 40 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u32 0x500050 0xfffffff0 at nexthdr+24 action drop
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 2:0: match u32 0x5f800000 0xffc00000 at 16 match u8 0x0 0x0 at 18 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u8 0x0 0xff at nexthdr+18 match u32 0xe7 0xff at nexthdr+24 match u32 0x1010100 0xffffffff at nexthdr+20 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0x20010db8 0xffffffff at 24 link 3: hashkey mask 0xff000000 at 16 offset at 0 mask 0x0f00 shift 6 eat
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 3:0: match u8 0x0 0xfd at -14 action continue
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 3:0: match u8 0x0 0x27 at 6 link 1: hashkey mask 0x0000ff00 at 4 offset at 0 mask 0x0f00 shift 6 
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0x5e000005 0xffffffff at -12 match u32 0x2000000 0xffffffff at -8 match u32 0xa000000 0xffffe000 at 12 flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 3:0: match u32 0x0 0xffffffff at 40 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:0: match u16 0x75 0xff at nexthdr+42 match u32 0x0 0x0 at nexthdr+0 match u32 0xe1 0xff at nexthdr+8 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 ht 2:0: match u16 0x0 0x66fe at 12 action continue
tc filter add dev d0 ingress protocol all pref 5 u32 ht 2:0: match u16 0xf04e 0xffff at -14 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u32 0x8d 0xff at 4 match u16 0x18 0xff at nexthdr+4 link 4:
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 match u32 0x8 0xff at 16 action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u8 0x0 0x80 at nexthdr+6 action pass
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 3:0: match u8 0x0 0x0 at -8 match u32 0x45b80022 0xffffffff at 0 match u32 0x0 0x0 at nexthdr+4 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u16 0x6500 0xff00 at 24 link 3: hashkey mask 0x0000fff0 at 0 offset at 6 mask 0x00ff shift 4 plus 3 eat
tc filter add dev d0 ingress protocol all pref 5 u32 ht 4:0: match u8 0x0 0xff at 42 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0xe8bfce49 0xffffffff at nexthdr+40 link 4: hashkey mask 0x00ff0000 at 16 offset plus 4 eat
tc filter add dev d0 ingress protocol all pref 5 u32 match u8 0xe1 0xff at 2 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0xc0a80000 0xfffff000 at 16 link 1: offset at 0 mask 0x0f00 shift 6 eat action pass
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 2:0: match u8 0x40 0x51 at 24 action pass
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 ht 4:1: match u32 0x56 0xff at 52 match u16 0x1 0xd127 at 8 match u32 0x0 0x0 at nexthdr+16 link 3: hashkey mask 0x00ff0000 at 20 action continue
tc filter add dev d0 ingress protocol all pref 5 u32 match u8 0x0 0xe0 at 30 match u32 0x0 0x0 at 20 match u32 0x20800011 0xb9e8625d at 20 link 2: hashkey mask 0x0000ff00 at 8 offset at 2 mask 0x00ff shift 1 plus 3 eat
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 ht 4:1: match u32 0xccc1b868 0xecc9bafa at 16 match u32 0x2f100492 0x2f54ad92 at nexthdr+12 match u16 0x0 0x0 at nexthdr+20 link 4: offset at 0 mask 0x0f00 shift 6 eat action continue
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 match u16 0x10 0x27d4 at 0 link 3: hashkey mask 0x0000ff00 at 0 offset at 4 mask 0x00ff shift 0 plus 3 eat action drop
tc filter add dev d0 ingress protocol all pref 5 u32 ht 3:0: match u32 0xc0a80005 0xffffffff at 16 flowid 1:5
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 match u32 0xd6 0xff at -4 match u32 0x0 0x0 at 40 match u32 0xb6584a39 0xffffffff at 4 action drop
tc filter add dev d0 ingress protocol all pref 5 u32 ht 1:0: match u32 0x0 0x0 at 0 match u32 0x11183ec 0xffffffff at 8 match u32 0xf0a3b09f 0xffffffff at 4 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 match u32 0x0 0x0 at 16 match u32 0x0 0x0 at 40 match u8 0x42 0x62 at 6 action drop
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u16 0x0 0x96d0 at 42 action pipe
tc filter add dev d0 ingress protocol ip pref 2 u32 ht 3:0: match u32 0x3 0xff at 16 match u16 0x0 0x0 at 12 link 4: offset plus 4 eat
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u32 0x0 0x0 at nexthdr+40 action drop
tc filter add dev d0 ingress protocol ipv6 pref 3 u32 match u16 0x3400 0xffff at 8 match u32 0x2 0xffffffff at 20 link 3: action pipe
tc filter add dev d0 ingress protocol all pref 1 u32 match u8 0x4 0x44 at 9 link 2: offset at 0 mask 0x0f00 shift 6 eat
tc filter add dev d0 ingress protocol all pref 1 u32 ht 3:0: match u32 0x96f7a994 0xffffffff at 40 match u32 0x2316204 0x467b7e0f at 0 action continue
tc filter add dev d0 ingress protocol all pref 1 u32 match u8 0x0 0xff at 18 link 2: hashkey mask 0x000000ff at 4 offset at 0 mask 0x0f00 shift 6 
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u32 0x0 0x0 at 4 flowid 1:5
tc filter add dev d0 ingress protocol all pref 1 u32 ht 1:0: match u16 0xff 0xff at -14 flowid 1:5
tc filter add dev d0 ingress protocol all pref 5 u32 match u32 0x24a5feab 0xffffffff at 4 action drop
tc filter add dev d0 ingress protocol ip pref 2 u32 match u16 0xcc15 0xffff at 8 match u32 0x4500001c 0xffffffff at 4 link 1: hashkey mask 0x000000ff at 12
tc filter add dev d0 ingress protocol all pref 1 u32 ht 4:0: match u32 0xc0a80005 0xffffffff at nexthdr+16 action pass
tc filter add dev d0 ingress protocol all pref 1 u32 ht 4:0: match u8 0x0 0x0 at 0 match u16 0x8000 0x8000 at nexthdr+8 match u16 0x0 0x0 at nexthdr+16 flowid 1:5
tc filter add dev d0 ingress protocol all pref 5 u32 match u8 0x0 0x0 at -2 match u16 0x0 0xffff at 42 match u16 0x0 0x0 at 40 link 2: hashkey mask 0x0000fff0 at 8 offset plus 20 eat
tc filter add dev d0 ingress protocol 802.1q pref 4 u32 match u32 0x3ebdc1c4 0xffffffff at 40 action drop
