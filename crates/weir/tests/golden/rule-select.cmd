# Rules by tunnel key and by the sender's uid.
ip rule add tun_id 7 lookup 100
ip rule add pref 50 tun_id 0x100000001 lookup 101
ip rule add uidrange 0-100 lookup 102
ip rule add pref 60 uidrange 5-5 lookup 103
ip rule add pref 61 uidrange 7-6 lookup 103
ip rule add pref 61 uidrange 0-4294967295 lookup 103
ip rule add pref 61 uidrange 4294967295-4294967295 lookup 103
ip rule add pref 62 not tun_id 7 lookup 104
ip rule add pref 62 not tun_id 7 lookup 104
ip rule add pref 63 tun_id 9 uidrange 1-2 fwmark 5 sport 7-8 ipproto tcp lookup 105
ip rule add pref 63 tun_id 9 uidrange 1-3 fwmark 5 sport 7-8 ipproto tcp lookup 105
ip rule show
ip -j rule show
ip -d rule show pref 63
ip rule del tun_id 8
ip rule del pref 50 tun_id 0x100000001
ip rule del uidrange 5-6
ip rule del uidrange 5-5
ip rule show
ip -6 rule add tun_id 7 uidrange 1-2 lookup 100
ip -6 rule show
ip -6 rule del tun_id 7
ip -6 rule show
ip rule flush
ip rule add pref 0 lookup local
ip rule add pref 32766 lookup main
ip link add d0 type dummy
ip addr add 10.0.0.1/24 dev d0
ip link set d0 up
ip route add 10.9.0.0/16 dev d0
ip route add 10.9.0.0/16 via 10.0.0.2 table 100
ip route add 10.9.0.0/16 via 10.0.0.3 table 101
ip rule add pref 10 uidrange 5-9 lookup 100
ip rule add pref 11 tun_id 3 lookup 101
ip route get 10.9.0.1
ip route get 10.9.0.1 uid 5
ip route get 10.9.0.1 uid 10
ip rule add pref 9 uidrange 0-0 lookup 101
ip route get 10.9.0.1
ip route get 10.9.0.1 uid 9
sysctl -q -w net.ipv4.ip_forward=1
ip link add d1 type dummy
ip addr add 10.5.0.1/24 dev d1
ip link set d1 up
ip route get 10.9.0.1 from 10.5.0.2 iif d1
ip route get 10.9.0.1 from 10.5.0.2 iif d1 uid 7
ip rule del pref 9
ip rule add pref 9 not tun_id 3 lookup 101
ip route get 10.9.0.1 from 10.5.0.2 iif d1
ip rule add pref 8 uidrange 0-0 prohibit
ip route get 10.9.0.1 from 10.5.0.2 iif d1
