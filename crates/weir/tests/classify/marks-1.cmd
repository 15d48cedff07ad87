tc filter add dev d0 ingress pref 1 protocol ip u32 match ip protocol 17 0xff action skbedit mark 0x11 continue
tc filter add dev d0 ingress pref 2 protocol ip u32 match ip protocol 6 0xff action skbedit mark 0x1f2 continue
tc filter add dev d0 ingress pref 3 protocol ipv6 matchall action skbedit mark 0xf1000002/0xff0000ff continue
tc filter add dev d0 ingress pref 10 protocol all handle 0x11 fw action continue
tc filter add dev d0 ingress pref 10 protocol all handle 0x1f2 fw action continue
tc filter add dev d0 ingress pref 10 protocol all handle 0x2 fw action continue
tc filter add dev d0 ingress pref 11 protocol all handle 0x2/0xf fw action continue
tc filter add dev d0 ingress pref 11 protocol all handle 0x1/0xf fw action continue
tc filter add dev d0 ingress pref 12 protocol ip handle 0x11 fw indev d0 action continue
tc filter add dev d0 ingress pref 13 protocol ip handle 0x11 fw indev d1 action continue
tc filter add dev d0 ingress pref 14 protocol all u32 match mark 0x10 0xf0 action continue
tc filter add dev d0 ingress pref 14 protocol all u32 match mark 0x2 0xf action continue
tc filter add dev d0 ingress pref 14 protocol all u32 match mark 0xf1000000 0xff000000 action continue
tc filter add dev d0 ingress pref 14 protocol all u32 match mark 0 0 action continue
tc filter add dev d0 ingress pref 15 protocol ip route to 0 action continue
tc filter add dev d0 ingress pref 16 protocol ip route to 2 from 3 action continue
tc filter add dev d0 ingress pref 17 protocol ip route fromif d0 action continue
tc filter add dev d0 ingress pref 18 protocol ip basic match 'meta(nf_mark mask 0xff eq 0x11)' action continue
tc qdisc add dev d1 root handle 1: prio bands 4
tc filter add dev d1 parent 1: pref 1 protocol all handle 0x11 fw classid 1:2
tc filter add dev d1 parent 1: pref 1 protocol all handle 0x1f2 fw classid 1:3
tc filter add dev d1 parent 1: pref 2 protocol all u32 match mark 0x2 0xff classid 1:4
tc filter add dev d0 ingress pref 20 protocol all matchall action mirred egress redirect dev d1
