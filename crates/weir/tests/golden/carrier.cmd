# A device that loses its carrier drops the packets in its qdisc.
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link set v0 up
ip link set v1 up
sysctl -q -w net.ipv6.conf.v0.disable_ipv6=1
sysctl -q -w net.ipv6.conf.v1.disable_ipv6=1
ip addr add 10.0.0.1/24 dev v0
tc qdisc add dev v0 root handle 1: netem delay 100s
ip neigh add 10.0.0.2 dev v0 nud none
ip neigh replace 10.0.0.9 dev v0 use
pass 1
tc -s qdisc show dev v0
ip link set v1 down
pass 2
tc -s qdisc show dev v0
ip link show dev v0
ip link set v1 up
pass 2
tc -s qdisc show dev v0
ip link add d0 address 02:00:00:00:00:11 type dummy
ip link set d0 up
tc qdisc add dev d0 root handle 1: pfifo
ip link set d0 carrier off
pass 2
tc qdisc show dev d0
ip link show d0
ip link set d0 carrier on
pass 2
tc qdisc show dev d0
ip link add d1 address 02:00:00:00:00:12 type dummy
ip link set d1 carrier off
ip link set d1 up
pass 2
tc qdisc show dev d1
ip link show d1
ip link set d1 carrier on
pass 2
tc qdisc show dev d1
ip link show d1
ip link set d1 carrier off
pass 2
ip link show d1
tc qdisc show dev d1
ip link add v2 address 02:00:00:00:00:03 numtxqueues 2 type veth peer name v3
ip link set v2 txqueuelen 100
ip link set v2 up
pass 2
ip link show v2
tc qdisc show dev v2
tc qdisc add dev v2 root handle 5: mq
tc qdisc show dev v2
ip link set v3 up
pass 2
tc qdisc show dev v2
