# ip-address(8), option by option.
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add d1 address 02:00:00:00:00:02 type dummy
ip link set d0 addrgenmode none up
ip link set d1 addrgenmode none
ip addr add 10.0.0.1 dev d0
ip addr add local 10.0.0.2/24 dev d0
ip addr add 10.0.1.1/24 peer 10.0.2.1/24 dev d0
ip addr add 10.0.1.1 peer 10.0.2.1/24 dev d0
ip addr add 10.0.3.1/24 broadcast - dev d0
ip addr add 10.0.4.1/24 broadcast 10.0.4.77 dev d0
ip addr add 10.0.4.2/24 broadcast bogus dev d0
ip addr add 10.0.5.1/24 scope host dev d0
ip addr add 10.0.5.2/24 scope 200 dev d0
ip addr add 10.0.5.3/24 scope bogus dev d0
ip addr add 10.0.6.1/24 label d0:0123456789abcde dev d0
ip addr add 10.0.6.1/24 label d0:x dev d0 metric 10 valid_lft forever preferred_lft 0
ip addr add 10.0.7.1/24 dev d0 valid_lft forever preferred_lft forever
ip addr add 10.0.8.1/24 dev d0 preferred_lft 50
ip addr add 10.0.9.1/24 dev d0 valid_lft bogus
ip addr add 10.0.9.1/24 dev d0 home
ip addr add 10.0.10.1/24 dev d0 nodad
ip addr add 10.0.11.1/24 dev d0 mngtmpaddr
ip addr add 10.0.12.1/24 dev d0 optimistic
ip addr add 10.0.13.1/24 dev d0 autojoin
ip addr add 10.0.14.1/24 dev d0 proto kernel_lo
ip addr add 10.0.15.1/24 dev d0 proto 77
ip addr add bogus dev d0
ip addr add 10.0.16.1/24 dev d0 bogus
ip addr add dev d0
ip addr add 10.0.17.1/0 dev d1
ip addr add 10.0.18.1/255.255.255.0 dev d1
ip addr add 10.0.19/24 dev d1
ip addr
ip -j addr show dev d0
ip -j -p -d addr show dev d1
ip -d addr show d0
ip -s addr show d1
ip -o addr
ip -br addr
ip -br -4 addr show d0
ip -4 -o addr show d0
ip -N -4 addr show d0
ip addr show permanent
ip addr show -permanent
ip addr show dynamic
ip addr show -dynamic dev d0
ip addr show secondary
ip addr show -secondary dev d0
ip addr show -primary
ip addr show deprecated
ip addr show -deprecated dev d0
ip addr show tentative
ip addr show dadfailed
ip addr show temporary
ip addr show home
ip addr show nodad
ip addr show mngtmpaddr
ip addr show noprefixroute
ip addr show autojoin
ip addr show to 10.0.0.0/22
ip addr show to 10.0.4.1
ip addr show to bogus
ip addr show label d0:x
ip addr show label 'd*'
ip addr show scope host
ip addr show scope 200
ip addr show proto 77
ip addr show type dummy
ip addr show type veth
ip addr show up
ip addr show group default
ip addr show master nosuch
ip addr show nomaster
ip addr show dev nosuch
ip addr show bogus
ip addr show dev
ip addr del 10.0.0.1 dev d0
ip addr del 10.0.0.2/32 dev d0
ip addr del 10.0.0.2/24
ip addr del 10.0.0.2/24 dev nosuch
ip addr del 10.0.0.2/24 dev d1
ip addr del 10.0.1.1 peer 10.0.9.9/24 dev d0
ip addr del 10.0.1.1 peer 10.0.2.1/24 dev d0
ip addr del bogus dev d0
ip addr change 10.0.4.1/24 dev d0 broadcast 10.0.4.78 valid_lft 1000 preferred_lft 900
ip addr change 10.0.7.1/24 dev d0 valid_lft 1000 preferred_lft 2000
ip addr change 10.0.7.1/24 dev d0 metric 999 proto 9 scope link
ip addr change 10.0.99.1/24 dev d0
ip addr replace 10.0.6.1/24 label d0:y dev d0
ip -4 addr show dev d0
ip route show dev d0
ip addr flush dev d0 scope 200
ip addr flush dev d0 to 10.0.4.0/24
ip addr flush dev d0 label d0:y
ip addr flush dev d0 dynamic
ip -s addr flush dev d0 deprecated
ip -4 addr show dev d0
ip -s -s addr flush dev d0
ip addr flush dev nosuch
ip addr flush
ip addr flush to 10.0.17.0/24
ip addr show
ip addr help
ip addr bogus
ip -6 addr add 2001:db8::1/64 dev d0
ip -6 addr add 2001:db8::2/64 dev d0 nodad
ip -6 addr add 2001:db8::3/64 dev d0 optimistic
ip -6 addr add 2001:db8::4/64 dev d0 nodad home
ip -6 addr add 2001:db8::5/64 dev d0 nodad noprefixroute
ip -6 addr add 2001:db8::6/64 dev d0 nodad valid_lft 100 preferred_lft 0
ip -6 addr add 2001:db8::7/64 dev d0 nodad valid_lft 100 preferred_lft 200
ip -6 addr add 2001:db8::8/64 dev d0 nodad valid_lft 0
ip -6 addr add 2001:db8::9 peer 2001:db8:9::1/64 dev d0 nodad
ip -6 addr add 2001:db8::a/128 dev d0 nodad scope link
ip -6 addr add 2001:db8::b/64 dev d0 nodad label d0:x
ip -6 addr add 2001:db8::c/64 dev d0 nodad broadcast 2001:db8::ff
ip -6 addr add 2001:db8::d/64 dev d0 nodad anycast 2001:db8::ff
ip -6 addr add 2001:db8::e/64 dev d0 nodad metric 77
ip -6 addr add 2001:db8::f/64 dev d0 nodad proto 7
ip -6 addr add 2001:db8::f/64 dev d0 nodad
ip -6 addr add 2001:db8::f/63 dev d0 nodad
ip -6 addr add 2001:db8::10/129 dev d0
ip -6 addr add 2001:db8::11/65 dev d0 nodad mngtmpaddr
ip -6 addr add ff02::5/64 dev d0
ip -6 addr add ::1/128 dev d0 nodad
ip -6 addr add ::/128 dev d0
ip -6 addr add fe80::5/64 dev d0 nodad
ip -6 addr add 2002:a00:1::1/48 dev d0 nodad
ip -6 addr add ::10.0.0.1/96 dev d0 nodad
ip -6 addr add fec0::1/64 dev d0 nodad
ip -6 addr show dev d0
ip -6 -j addr show dev d0
ip -6 -d -o addr show dev d0
ip -6 addr show dev d0 scope site
ip -6 addr show dev d0 scope link
ip -6 addr show dev d0 dynamic
ip -6 addr show dev d0 -deprecated
ip -6 addr show dev d0 to 2001:db8::/124
ip -6 route show dev d0
ip -6 route show table local dev d0
ip -6 addr change 2001:db8::6/64 dev d0 valid_lft forever preferred_lft forever
ip -6 addr change 2001:db8::5/64 dev d0
ip -6 addr change 2001:db8::e/64 dev d0 metric 78
ip -6 addr change 2001:db8::77/64 dev d0 nodad
ip -6 addr replace 2001:db8::4/64 dev d0 nodad
ip -6 addr show dev d0
ip -6 route show dev d0
ip -6 addr del 2001:db8::99/64 dev d0
ip -6 addr del 2001:db8::4/65 dev d0
ip -6 addr del 2001:db8::4 dev d0
ip -6 addr del 2001:db8::2/64 dev d0
ip -6 addr flush dev d0 scope site
ip -6 addr flush dev d0 scope global
ip -6 addr show dev d0
ip -6 route show table all dev d0
