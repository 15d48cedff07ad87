# ip-rule(8), option by option.
ip link add d0 address 02:00:00:00:00:01 type dummy
ip rule add from 10.0.0.0/8 to 20.0.0.0/8 tos 0x8 fwmark 0x5/0xff iif d0 oif d0 pref 100 table 7
ip rule add from 10.0.0.0/8 dsfield 0x4 order 101 lookup main
ip rule add from 10.0.0.0/8 tos 0x5 pref 102 lookup main
ip rule add from 10.0.0.0/8 tos 0xfc pref 102 lookup main
ip rule add from 10.0.0.0/8 tos bogus pref 102 lookup main
ip rule add priority 103 table 1000
ip rule add preference 104 table 4294967295
ip rule add pref 104 table bogus
ip rule add pref bogus table 5
ip rule add pref -1 table 5
ip rule add pref 105 fwmark bogus table 5
ip rule add pref 105 fwmark 7/bogus table 5
ip rule add pref 105 fwmark 7/0 table 5
ip rule add pref 106 fwmark 0/7 table 5
ip rule add pref 107 not fwmark 7 table 5
ip rule add pref 108 ipproto udp table 5
ip rule add pref 109 ipproto 200 table 5
ip rule add pref 110 ipproto bogus table 5
ip rule add pref 110 sport 5 table 5
ip rule add pref 111 sport 5-5 table 5
ip rule add pref 112 sport 7-5 table 5
ip rule add pref 112 sport 0-5 table 5
ip rule add pref 112 dport 0 table 5
ip rule add pref 112 dport 1-65535 table 5
ip rule add pref 113 dport 70000 table 5
ip rule add pref 114 uidrange 5-10 table 5
ip rule add pref 115 uidrange 10-5 table 5
ip rule add pref 115 uidrange 5 table 5
ip rule add pref 116 tun_id 77 table 5
ip rule add pref 118 l3mdev table 5
ip rule add pref 119 nat 1.2.3.4
ip rule add pref 120 goto 119
ip rule add pref 120 goto 120
ip rule add pref 120 goto 121
ip rule add pref 121 nop
ip rule add pref 122 suppress_prefixlength 16 suppress_ifgroup 5 table main
ip rule add pref 123 suppress_ifgroup nosuch table main
ip rule add pref 123 suppress_prefixlength bogus table main
ip rule add pref 124 sup_pl 8 sup_group default table main
ip rule add pref 125 protocol bogus table main
ip rule add pref 125 protocol kernel table main
ip rule add pref 126 protocol 77 table main
ip rule add pref 127 type blackhole
ip rule add pref 128 type unicast table main
ip rule add pref 129 type local
ip rule add pref 130 type multicast table main
ip rule add pref 131 throw
ip rule add pref 132 iif a-name-that-is-too-long table main
ip rule add pref 133 from bogus table main
ip rule add pref 133 bogus
ip rule add pref 134 from default table main
ip rule add pref 135 from any to all table main
ip rule add pref 136 from 10.0.0.1/8 table main
ip rule add pref 137 from 0.0.0.0/8 table main
ip rule add pref 138 from 1.2.3.4 not table main
ip rule add
ip rule add table 9
ip rule add table 9
ip rule
ip -d rule
ip -j rule
ip -o rule
ip -s rule
ip -N rule
ip -h rule
ip rule list all
ip rule list table 5
ip rule list table bogus
ip rule list iif d0
ip rule list oif d0
ip rule list fwmark 7
ip rule list fwmark 0x5/0xff
ip rule list tos 0x8
ip rule list not
ip rule list protocol 77
ip rule list ipproto udp
ip rule list sport 5
ip rule list uidrange 5-10
ip rule list tun_id 77
ip rule list to 20.0.0.0/8
ip rule list pref 121
ip rule list pref 121-
ip rule list bogus
ip rule list protocol kernel
ip rule del pref 108 ipproto tcp
ip rule del ipproto udp
ip rule del sport 5 pref 111
ip rule del dport 1-65535
ip rule del uidrange 5-9
ip rule del uidrange 5-10
ip rule del fwmark 0/7
ip rule del iif d1
ip rule del iif d0
ip rule del goto 120 pref 120
ip rule del goto 119
ip rule del blackhole
ip rule del tun_id 78
ip rule del suppress_ifgroup 5
ip rule del table 9
ip rule del table 9
ip rule del table 9
ip rule del
ip rule del protocol 77
ip rule del from all
ip rule
ip rule save >$tmp/rules
ip rule flush protocol kernel
ip rule flush table 5
ip rule
ip rule flush
ip rule restore <$tmp/rules
ip rule
ip rule del pref 32767
ip rule restore <$tmp/routes
ip rule help
ip rule bogus
ip -6 rule add from 2001:db8::/32 to 2001:db9::/32 tos 0x8 fwmark 5 iif d0 oif d0 pref 100 table 7
ip -6 rule add tos 0x3 pref 101 table 7
ip -6 rule add from 2001:db8::1/32 pref 102 table 7
ip -6 rule add from 10.0.0.0/8 pref 102 table 7
ip -6 rule add pref 103 ipproto ipv6-icmp sport 7 uidrange 0-5 tun_id 9 unreachable
ip -6 rule add pref 104 suppress_prefixlength 64 table main
ip -6 rule add pref 105 goto 200
ip -6 rule add pref 106 table 0
ip -6 rule add pref 108 type multicast table main
ip -6 rule
ip -6 -d -j rule
ip -6 rule list from 2001:db8::/32
ip -6 rule del from 2001:db8::/33
ip -6 rule del from 2001:db8::/32
ip -6 rule del pref 103 prohibit
ip -6 rule del goto 200
ip -6 rule flush table main
ip -6 rule
ip link set d0 name e0
ip rule list iif e0
ip -6 rule list iif d0
ip link del e0
ip -6 rule
