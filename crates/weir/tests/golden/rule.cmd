ip rule
ip -6 rule
ip rule add from 10.0.0.0/8 table 100
ip rule add to 10.1.0.0/16 lookup 101 priority 50
ip rule add iif lo fwmark 5 lookup 102
ip rule add fwmark 0x10/0xf0 lookup 103 pref 200
ip rule add iif nosuch lookup main
ip rule add oif nosuch lookup main pref 7
ip rule add tos 0x10 lookup 100
ip rule add blackhole from 10.9.0.0/16
ip rule add unreachable from 10.10.0.0/16
ip rule add prohibit from 10.11.0.0/16 pref 11
ip rule add goto 32766 from 10.12.0.0/16 pref 12
ip rule add goto 40000 from 10.13.0.0/16 pref 13
ip rule add nop pref 14
ip rule add ipproto tcp sport 10-20 dport 80 lookup 100 pref 16
ip rule add suppress_prefixlength 0 lookup main pref 17
ip rule add suppress_ifgroup 3 lookup main pref 18
ip rule add not from 10.14.0.0/16 lookup 100 pref 19
ip rule add protocol static from 10.15.0.0/16 lookup 100 pref 20
ip rule
ip -d rule
ip -j -p rule
ip rule show table 100
ip rule show pref 50
ip rule show from 10.0.0.0/8
ip rule show iif lo
ip rule add to 10.1.0.0/16 lookup 101 priority 50
ip rule add pref 50 lookup main
ip rule del pref 999
ip rule del from 10.0.0.0/8 table 7
ip rule del from 10.0.0.0/8
ip rule del pref 11
ip rule add from 10.0.0.0/33 lookup 100
ip rule add goto 5 pref 6
ip rule add from all lookup 0
ip rule
ip -6 rule add from 2001:db8::/32 lookup 100
ip -6 rule add to 2001:db8::/32 lookup 101 pref 5
ip -6 rule add blackhole fwmark 7
ip -6 rule
ip -6 -j rule
ip -6 rule flush
ip -6 rule
ip -6 rule del pref 32766
ip -6 rule
ip rule flush
ip rule
ip rule del pref 0
ip rule save | wc -c
ip link add d0 type dummy
ip link set d0 up
ip addr add 10.0.0.1/24 dev d0
ip rule add from 10.5.0.0/16 lookup 100
ip rule add fwmark 9 lookup 101
ip route add default dev d0 table 100
ip route add blackhole default table 101
ip rule add lookup main
ip route get 1.1.1.1 mark 9
ip route get 1.1.1.1
