! ip link add d0 type veth peer name pd0
ip rule add from 192.0.2.0/24 table 100
ip rule add to 10.0.0.0/8 lookup main prio 50
ip rule add iif d0 fwmark 0x10/0xff table 300 pref 77
ip rule add oif d0 tos 0x10 prohibit
ip rule add from 10.9.0.0/16 unreachable
ip rule add not from 10.8.0.0/16 blackhole
ip rule add goto 32766 pref 10
ip rule add nop pref 11
ip rule add uidrange 100-200 table 5
ip rule add ipproto tcp sport 1000-2000 dport 80 table 6
ip rule add suppress_prefixlength 0 table main
ip rule add suppress_ifgroup 5 table main
ip rule add l3mdev pref 1000
ip rule add realms 3/4 from 10.3.0.0/16 table 9
ip rule add tun_id 7 table 9
ip rule add protocol static table 9
ip -6 rule add from 2001:db8::/32 table 200
ip rule del pref 50
ip rule del from 192.0.2.0/24 table 100
ip rule show
ip -6 rule show
ip rule list table 100
ip rule flush
