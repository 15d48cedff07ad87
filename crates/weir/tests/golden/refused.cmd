# Requests that Linux serves and Weir refuses, with Weir's messages: recorded from Weir itself.
ip link add d0 type dummy
ip link add d1 type dummy
ip link add br0 type bridge nf_call_iptables 1
ip link add bond0 type bond mode balance-tlb
ip link add bond0 type bond mode balance-alb
ip link add team0 type team
ip link add vcan0 type vcan
ip link add link d0 name x0 type macvtap
ip link set d0 xdp off
ip link set d0 vf 0 mac 02:00:00:00:00:03
ip link set d0 protodown on
ip link add link d0 name d0.5 type vlan id 5 gvrp on
ip route add 10.20.0.0/16 dev d0 encap mpls 100
ip stats set dev lo l3_stats on
ip link set d0 arp on
ip tunnel add t0 mode vti remote 10.0.0.2 local 10.0.0.1
ip xfrm state
ip -f mpls route
ip -f mpls link
tc qdisc add dev d0 clsact
