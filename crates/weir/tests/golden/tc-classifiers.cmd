# fw, flow, cgroup, route
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add d1 address 02:00:00:00:00:02 type dummy
tc qdisc add dev d0 clsact
tc actions add action gact pass index 99
tc actions del action gact index 99
tc filter add dev d0 ingress protocol all pref 1 fw
tc filter add dev d0 ingress protocol all pref 1 handle 5 fw classid 1:5
tc filter add dev d0 ingress protocol all pref 1 handle 6 fw classid 1:6 action drop
tc filter add dev d0 ingress protocol all pref 1 handle 6 fw classid 1:7 action drop
tc filter add dev d0 ingress protocol all pref 1 handle 7 fw indev d1 action pass
tc filter add dev d0 ingress protocol all pref 1 handle 8 fw indev nosuch action pass
tc filter add dev d0 ingress protocol all pref 1 handle 9/0xff fw action pass
tc filter add dev d0 ingress protocol all pref 1 handle 0x106 fw action pass
tc filter add dev d0 ingress protocol all pref 1 handle 0x10006 fw
tc filter add dev d0 ingress protocol all pref 1 handle 0 fw action pass
tc filter add dev d0 ingress protocol all pref 1 fw action pass
tc filter add dev d0 ingress protocol all pref 2 handle 0x10/0xff fw action pass
tc filter add dev d0 ingress protocol all pref 2 handle 0x11/0xfff fw action pass
tc filter add dev d0 ingress protocol all pref 2 handle 0x11 fw action pass
tc filter add dev d0 ingress protocol all pref 2 handle 0x12/0xff fw police rate 1mbit burst 10k drop
tc filter show dev d0 ingress
pass 3
tc -s filter show dev d0 ingress
tc -s -j filter show dev d0 ingress
tc filter replace dev d0 ingress protocol all pref 1 handle 6 fw classid 1:9
tc filter change dev d0 ingress protocol all pref 1 handle 7 fw action drop
tc filter change dev d0 ingress protocol all pref 1 handle 77 fw action drop
tc filter get dev d0 ingress protocol all pref 1 handle 7 fw
tc filter get dev d0 ingress protocol all pref 1 handle 77 fw
tc filter show dev d0 ingress pref 1
tc filter del dev d0 ingress protocol all pref 1 handle 6 fw
tc filter del dev d0 ingress protocol all pref 1 handle 6 fw
tc filter del dev d0 ingress pref 1
tc filter del dev d0 ingress protocol all pref 2 handle 0x10 fw
tc filter del dev d0 ingress protocol all pref 2 handle 0x12 fw
tc filter show dev d0 ingress
tc qdisc add dev d1 ingress_block 5 clsact
tc filter add block 5 protocol all pref 1 fw
tc filter add block 5 protocol all pref 1 handle 4 fw action pass
tc filter show block 5
tc filter add dev d0 ingress protocol ip pref 10 flow map key dst
tc filter add dev d0 ingress protocol ip pref 10 handle 1 flow map key dst rshift 8 addend 5 divisor 16 baseclass 1:4
tc filter add dev d0 ingress protocol ip pref 10 handle 1 flow map key dst
tc filter add dev d0 ingress protocol ip pref 10 handle 2 flow hash keys src,dst,proto,proto-src,proto-dst divisor 1024 perturb 10
tc filter add dev d0 ingress protocol ip pref 10 handle 3 flow map key src and 0xff xor 0x5 or 0x10
tc filter add dev d0 ingress protocol ip pref 10 handle 4 flow map key mark match 'meta(priority eq 6)' action drop
tc filter add dev d0 ingress protocol ip pref 10 handle 5 flow map key iif perturb 5
tc filter add dev d0 ingress protocol ip pref 10 handle 5 flow map keys src,dst
tc filter add dev d0 ingress protocol ip pref 10 handle 5 flow map key src rshift 32
tc filter add dev d0 ingress protocol ip pref 10 handle 5 flow map key src baseclass 1:0
tc filter add dev d0 ingress protocol ip pref 10 handle 5 flow hash keys nfct,nfct-src,nfct-dst,nfct-proto-src,nfct-proto-dst,rt-classid,sk-uid,sk-gid,vlan-tag,rxhash,priority,mark,iif baseclass 1:8
tc filter add dev d0 ingress protocol ip pref 10 handle 6 flow map key dst addend -192.168.0.0 divisor 256
tc filter add dev d0 ingress protocol ip pref 10 handle 7 flow map key rxhash police rate 1mbit burst 10k drop
tc filter add dev d0 ingress protocol ip pref 10 handle 8 flow
tc filter show dev d0 ingress
pass 3
tc -s filter show dev d0 ingress
tc -j filter show dev d0 ingress
tc filter change dev d0 ingress protocol ip pref 10 handle 1 flow map key src addend 7
tc filter change dev d0 ingress protocol ip pref 10 handle 2 flow map key src
tc filter change dev d0 ingress protocol ip pref 10 handle 2 flow divisor 5
tc filter change dev d0 ingress protocol ip pref 10 handle 3 flow hash keys src,dst perturb 60
tc filter change dev d0 ingress protocol ip pref 10 handle 99 flow map key src
tc filter show dev d0 ingress
tc filter add block 5 protocol ip pref 10 handle 1 flow map key dst
tc filter add block 5 protocol ip pref 10 handle 1 flow map key dst baseclass 1:1
tc filter show block 5
tc filter del dev d0 ingress protocol ip pref 10 handle 1 flow
tc filter del dev d0 ingress protocol ip pref 10 handle 1 flow
tc filter del dev d0 ingress
tc filter add dev d0 egress protocol ip pref 1 cgroup
tc filter add dev d0 egress protocol ip pref 1 handle 1 cgroup
tc filter add dev d0 egress protocol ip pref 1 handle 1 cgroup action drop
tc filter add dev d0 egress protocol ip pref 1 handle 2 cgroup action drop
tc filter add dev d0 egress protocol ip pref 2 handle 7: cgroup match 'meta(priority eq 6)' action drop
tc filter add dev d0 egress protocol ip pref 3 handle 8 cgroup police rate 1mbit burst 10k drop
tc filter change dev d0 egress protocol ip pref 1 handle 1 cgroup action pass
tc filter replace dev d0 egress protocol ip pref 1 handle 1 cgroup action pass
tc filter show dev d0 egress
pass 3
tc -s filter show dev d0 egress
tc -j filter show dev d0 egress
tc filter get dev d0 egress protocol ip pref 1 handle 1 cgroup
tc filter del dev d0 egress protocol ip pref 1 handle 1 cgroup
tc filter del dev d0 egress protocol ip pref 1
tc filter show dev d0 egress
tc filter del dev d0 egress
tc filter add dev d0 egress protocol ip pref 1 route
tc filter add dev d0 egress protocol ip pref 1 route to 5 classid 1:5
tc filter add dev d0 egress protocol ip pref 1 route from 6 classid 1:6
tc filter add dev d0 egress protocol ip pref 1 route from 6 to 5 classid 1:7
tc filter add dev d0 egress protocol ip pref 1 route fromif d1 classid 1:8
tc filter add dev d0 egress protocol ip pref 1 route fromif nosuch classid 1:8
tc filter add dev d0 egress protocol ip pref 1 route fromif d1 to 5 classid 1:9 action pass
tc filter add dev d0 egress protocol ip pref 1 route fromif d1 from 5 classid 1:9 action pass
tc filter add dev d0 egress protocol ip pref 1 route to 300 classid 1:5
tc filter add dev d0 egress protocol ip pref 1 route to 0 classid 1:5
tc filter add dev d0 egress protocol ip pref 1 route from 0 to 0 classid 1:5
tc filter add dev d0 egress protocol ip pref 1 route classid 1:5
tc filter add dev d0 egress protocol ip pref 1 handle 0x5 route to 5 classid 1:5
tc filter add dev d0 egress protocol ip pref 1 handle 0xffff0105 route to 5 classid 1:15
tc filter add dev d0 egress protocol ip pref 1 route to 9 police rate 1mbit burst 10k drop
tc filter show dev d0 egress
pass 3
tc -s filter show dev d0 egress
tc -j filter show dev d0 egress
tc filter replace dev d0 egress protocol ip pref 1 handle 0xffff0005 route to 5 classid 1:25
tc filter replace dev d0 egress protocol ip pref 1 handle 0xffff0005 route to 6 classid 1:25
tc filter show dev d0 egress
tc filter get dev d0 egress protocol ip pref 1 handle 0xffff0006 route
tc filter get dev d0 egress protocol ip pref 1 handle 0xffff0007 route
tc filter del dev d0 egress protocol ip pref 1 handle 0xffff0006 route
tc filter del dev d0 egress protocol ip pref 1 handle 0xffff0006 route
tc filter show dev d0 egress
tc qdisc del dev d0 clsact
ip link del d0
ip link del d1
