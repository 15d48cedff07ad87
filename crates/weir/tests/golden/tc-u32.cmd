ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add d1 address 02:00:00:00:00:02 type dummy
tc qdisc add dev d0 clsact
tc actions add action gact pass index 99
tc actions del action gact index 99
tc actions add action police rate 1mbit burst 10k index 99 2>/dev/null
tc actions del action police index 99
tc filter add dev d0 ingress protocol ip u32 match ip dst 1.2.3.4
tc filter show dev d0 ingress
tc filter add dev d0 ingress protocol ip pref 10 u32 match ip src 10.0.0.0/8 match ip protocol 6 0xff match tcp dst 80 0xffff classid 1:2 action drop
tc filter add dev d0 ingress protocol ip pref 10 handle ::5 u32 match u32 0x0a000001 0xffffffff at 12 action pass
tc filter add dev d0 ingress protocol ip pref 10 handle 801::5 u32 match u32 0x0a000001 0xffffffff at 12 action pass
tc filter add dev d0 ingress protocol ip pref 10 handle 800::6 u32 match u32 0 0 action pass
tc filter show dev d0 ingress
pass 3
tc -s filter show dev d0 ingress
tc -s -d filter show dev d0 ingress
tc filter get dev d0 ingress protocol ip pref 10 handle 801::5 u32
tc filter get dev d0 ingress protocol ip pref 10 handle 801::6 u32
tc filter get dev d0 ingress protocol ip pref 10 handle 801: u32
tc filter get dev d0 ingress protocol ip pref 10 handle fff: u32
tc filter add dev d0 ingress protocol ip pref 10 handle 1: u32 divisor 256
tc filter add dev d0 ingress protocol ip pref 10 handle 1: u32 divisor 256
tc filter add dev d0 ingress protocol ip pref 10 handle 2: u32 divisor 3
tc filter add dev d0 ingress protocol ip pref 10 handle 2: u32 divisor 512
tc filter add dev d0 ingress protocol ip pref 10 handle 2:1:0 u32 divisor 4
tc filter add dev d0 ingress protocol ip pref 10 handle 2:: u32 divisor 1
tc filter add dev d0 ingress protocol ip pref 10 u32 divisor 8
tc filter replace dev d0 ingress protocol ip pref 10 handle 1: u32 divisor 128
tc filter add dev d0 ingress protocol ip pref 10 u32 ht 1:5: match ip dst 10.0.0.5 action drop
tc filter add dev d0 ingress protocol ip pref 10 u32 ht 1:5: match ip dst 10.0.0.6 action pass
tc filter add dev d0 ingress protocol ip pref 10 handle 1:5:3 u32 ht 1:5: match ip dst 10.0.0.7 action pass
tc filter add dev d0 ingress protocol ip pref 10 handle 1:5:3 u32 ht 1:5: match ip dst 10.0.0.7 action pass
tc filter add dev d0 ingress protocol ip pref 10 handle 1:6:3 u32 ht 1:5: match ip dst 10.0.0.7 action pass
tc filter add dev d0 ingress protocol ip pref 10 handle 2::3 u32 ht 1:5: match ip dst 10.0.0.7 action pass
tc filter add dev d0 ingress protocol ip pref 10 u32 ht 9:5: match ip dst 10.0.0.7 action pass
tc filter add dev d0 ingress protocol ip pref 10 u32 ht 2:1: match ip dst 10.0.0.7 action pass
tc filter add dev d0 ingress protocol ip pref 10 u32 ht 1: sample ip dst 10.0.0.9 match ip dst 10.0.0.9 flowid 1:9
tc filter add dev d0 ingress protocol ip pref 10 u32 ht 1: sample tcp dst 80 0xff match tcp dst 80 0xffff flowid 1:9
tc filter add dev d0 ingress protocol ip pref 10 u32 link 1: hashkey mask 0x000000ff at 16 match ip dst 10.0.0.0/24
tc filter add dev d0 ingress protocol ip pref 10 u32 link 2: offset at 0 mask 0x0f00 shift 6 plus 0 eat match ip protocol 17 0xff
tc filter add dev d0 ingress protocol ip pref 10 u32 link 2: offset plus 20 match ip protocol 6 0xff
tc filter add dev d0 ingress protocol ip pref 10 u32 ht 2: match tcp dst 22 0xffff at nexthdr+0 action drop
tc filter add dev d0 ingress protocol ip pref 10 u32 ht 2: match u16 53 0xffff at nexthdr+2 action drop
tc filter add dev d0 ingress protocol ip pref 10 u32 link 7: match u32 0 0
tc filter add dev d0 ingress protocol ip pref 10 u32 link 800: match u32 0 0
tc filter add dev d0 ingress protocol ip pref 10 u32 link 1:5: match u32 0 0
tc filter add dev d0 ingress protocol ip pref 10 u32 link 1::5 match u32 0 0
tc filter show dev d0 ingress
pass 3
tc -s filter show dev d0 ingress pref 10
tc filter add dev d0 ingress protocol all pref 20 u32 match mark 5 0xff action pass
tc filter add dev d0 ingress protocol ipv6 pref 30 u32 match ip6 dst 2001:db8::/32 match ip6 protocol 58 0xff match ip6 flowlabel 5 0xff action pass
tc filter add dev d0 ingress protocol ip pref 40 u32 match ip tos 0x10 0xff match ip dport 80 0xffff match ip sport 81 0xffff match ip ihl 5 0xf match ip nofrag match ip firstfrag match ip df match ip mf match ip icmp_type 8 0xff match ip icmp_code 0 0xff action pass
tc filter add dev d0 ingress protocol ip pref 40 u32 match ether src 02:00:00:00:00:01 match ether dst 02:00:00:00:00:02 action pass
tc filter add dev d0 ingress protocol ip pref 40 u32 match u8 0x40 0xf0 at -14 match u16 0x40 0xf0 at 6 action pass
tc filter add dev d0 ingress protocol ip pref 40 u32 match u32 0 0 indev d1 action pass
tc filter add dev d0 ingress protocol ip pref 40 u32 match u32 0 0 indev nosuch action pass
tc filter add dev d0 ingress protocol ip pref 40 u32 match u32 0 0 skip_hw action pass
tc filter add dev d0 ingress protocol ip pref 40 u32 match u32 0 0 skip_sw action pass
tc filter add dev d0 ingress protocol ip pref 40 u32 match u32 0 0 skip_sw skip_hw action pass
tc filter add dev d0 ingress protocol ip pref 40 handle 5: u32 divisor 16 skip_sw
tc filter add dev d0 ingress protocol ip pref 50 u32 match u32 0 0 police rate 1mbit burst 10k drop flowid 1:1
tc filter add dev d0 ingress protocol ip pref 50 u32 match u32 0 0 police rate 1mbit burst 10k conform-exceed drop/pass flowid 1:1
tc filter add dev d0 ingress protocol ip pref 50 u32 match u32 0 0 police index 77
tc filter add dev d0 ingress protocol ip pref 50 u32 match u32 0 0 action police rate 1mbit burst 10k drop
tc filter show dev d0 ingress
pass 3
tc -s filter show dev d0 ingress pref 50
tc -j -s filter show dev d0 ingress pref 50
tc -s actions list action police
tc -s -d filter show dev d0 ingress pref 40
tc -j -p filter show dev d0 ingress pref 40
tc -j -p -s filter show dev d0 ingress pref 20
tc filter add dev d0 ingress protocol ip pref 60 u32
tc filter show dev d0 ingress pref 60
tc filter add dev d0 ingress protocol ip pref 60 handle 5: u32
tc filter add dev d0 ingress protocol ip pref 60 u32 classid 1:1
tc filter add dev d0 ingress protocol ip pref 61 u32 classid 1:1
tc filter show dev d0 ingress pref 61
tc filter replace dev d0 ingress protocol ip pref 10 handle 800::800 u32 match u32 0 0 classid 1:7 action drop
tc filter replace dev d0 ingress protocol ip pref 10 handle 801::800 u32 match u32 0 0 classid 1:7 action drop
tc filter change dev d0 ingress protocol ip pref 10 handle 801::800 u32 match u32 0 0 classid 1:8 action pass
tc filter change dev d0 ingress protocol ip pref 10 handle 801::888 u32 match u32 0 0 classid 1:8 action pass
tc filter change dev d0 ingress protocol ip pref 10 handle 801::800 u32 match u32 0 0 link 2: action pass
tc filter change dev d0 ingress protocol ip pref 10 handle 801::800 u32 match u32 0 0 link 0: action pass
tc filter change dev d0 ingress protocol ip pref 10 handle 801::800 u32 skip_hw match u32 0 0
tc filter change dev d0 ingress protocol ip pref 10 handle 801: u32 match u32 0 0
tc filter show dev d0 ingress pref 10
tc filter del dev d0 ingress protocol ip pref 10 handle 1: u32
tc filter del dev d0 ingress protocol ip pref 10 handle 801: u32
tc filter del dev d0 ingress protocol ip pref 10 handle 801::800 u32
tc filter del dev d0 ingress protocol ip pref 10 handle 801::800 u32
tc filter del dev d0 ingress protocol ip pref 10 handle 802: u32
tc filter del dev d0 ingress protocol ip pref 10 handle 1:5:3 u32
tc filter add dev d0 egress protocol ip pref 10 u32 match u32 0 0 action pass
tc filter add dev d0 ingress chain 5 protocol ip pref 10 u32 match u32 0 0 action pass
tc filter show dev d0 egress
tc filter show dev d0 ingress chain 5
tc chain show dev d0 ingress
tc filter del dev d0 ingress protocol ip pref 10
tc filter show dev d0 ingress
tc filter show dev d0 egress
tc filter del dev d0 egress
tc filter show dev d0 egress
tc filter add dev d0 egress protocol ip u32 match u32 0 0 action pass
tc filter add dev d0 egress protocol ip u32 match u32 0 0 action pass
tc filter show dev d0 egress
tc filter del dev d0 ingress
tc filter show dev d0 ingress
tc filter show dev d0 egress
tc qdisc del dev d0 clsact
tc qdisc add dev d0 root handle 1: prio
tc filter add dev d0 parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.1 flowid 1:1
tc filter add dev d0 parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.2 flowid 1:2
tc filter add dev d0 parent 1: protocol ip prio 2 handle 3: u32 divisor 2
tc filter add dev d0 parent 1: protocol ip prio 2 u32 ht 800: match ip dst 10.0.0.3 flowid 1:3
tc filter show dev d0 parent 1:
tc filter del dev d0 parent 1: prio 1
tc filter show dev d0 parent 1:
tc filter del dev d0 parent 1: prio 2 handle 800::802 u32
tc filter del dev d0 parent 1: protocol ip prio 2 handle 800::802 u32
tc filter show dev d0 parent 1:
tc qdisc del dev d0 root
tc qdisc add dev d0 ingress_block 7 egress_block 7 clsact
tc qdisc add dev d1 ingress_block 7 egress_block 8 clsact
tc filter add block 7 protocol ip u32 match u32 0 0 action pass
tc filter add block 8 protocol ip u32 match u32 0 0 action pass
tc filter add block 7 protocol ip u32 match u32 0 0 action pass
tc filter show block 7
tc filter show block 8
tc filter del block 7 pref 49152
tc filter show block 7
ip link del d0
ip link del d1
