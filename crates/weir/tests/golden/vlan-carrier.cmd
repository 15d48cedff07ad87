# A VLAN has the carrier and the state of its lower device.
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link set v0 up
ip link set v1 up
ip link add link v0 name v0.5 type vlan id 5
ip link set v0.5 up
ip addr add 10.0.0.1/24 dev v0.5
tc qdisc add dev v0.5 root handle 1: pfifo
ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:12 dev v0.5
ip neigh add 10.0.0.3 lladdr 02:00:00:00:00:12 dev v0.5 nud stale
pass 2
ip -d link show v0.5
ip -d -s -s link show v0.5 | grep -A1 -o "tso_max_size [0-9]*"
ip route show table all dev v0.5
ip link set v1 down
pass 2
ip link show v0
ip link show v0.5
ip route show table all dev v0.5
ip neigh show nud all dev v0.5 | grep -v ff02
tc qdisc show dev v0.5
ip link set v1 up
pass 2
ip link show v0.5
ip route show table all dev v0.5
tc qdisc show dev v0.5
ip link add d0 address 02:00:00:00:00:11 type dummy
ip link add link d0 name d0.5 type vlan id 5
ip link set d0 up
ip link set d0.5 up
pass 2
ip link show d0.5
ip link set d0 carrier off
pass 2
ip link show d0
ip link show d0.5
ip link add link d0 name d0.6 type vlan id 6
ip link set d0.6 up
pass 2
ip link show d0.6
ip link set d0 carrier on
pass 2
ip link show d0.5
ip link show d0.6
ip link set d0 state testing
pass 2
ip link show d0
ip link show d0.5
ip link set d0 down
pass 2
ip link show d0
ip link show d0.5
ip link set d0 up
pass 2
ip link show d0
ip link show d0.5
