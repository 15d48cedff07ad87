ip link add d0 address 02:00:00:00:00:01 type dummy
tc qdisc
tc qdisc show dev d0
ip link set d0 up
tc qdisc show dev d0
tc qdisc add dev d0 root pfifo
tc qdisc show dev d0
tc -s -d qdisc show dev d0
tc -j -p -s qdisc show dev d0
tc qdisc add dev d0 root pfifo
tc qdisc replace dev d0 root handle 10: bfifo limit 10000
tc qdisc show dev d0
tc qdisc change dev d0 root bfifo limit 20k
tc qdisc show dev d0
tc qdisc change dev d0 root pfifo limit 20
tc qdisc del dev d0 root handle 11:
tc qdisc del dev d0 root
tc qdisc del dev d0 root
tc qdisc show dev d0
tc qdisc add dev d0 handle 1: root prio
tc qdisc show dev d0
tc class show dev d0
tc -s class show dev d0
tc qdisc add dev d0 parent 1:1 handle 11: pfifo limit 5
tc qdisc add dev d0 parent 1:9 handle 12: pfifo limit 5
tc qdisc add dev d0 parent 2:1 handle 12: pfifo limit 5
tc qdisc show dev d0
tc class show dev d0
tc qdisc change dev d0 root prio bands 5
tc qdisc show dev d0
tc qdisc add dev d0 ingress
tc qdisc add dev d0 ingress
tc qdisc add dev d0 clsact
tc qdisc show dev d0
tc qdisc show dev d0 ingress
tc qdisc del dev d0 ingress
tc qdisc add dev d0 clsact
tc qdisc show dev d0
tc qdisc del dev d0 clsact
tc qdisc add dev d0 ingress_block 5 clsact
tc qdisc show dev d0
tc qdisc del dev d0 clsact
tc qdisc add dev d0 parent ffff:fff1 handle ffff: clsact
tc qdisc replace dev d0 clsact
tc qdisc change dev d0 clsact
tc qdisc del dev d0 ingress
tc qdisc add dev d0 root nosuch
tc qdisc add dev nosuch root pfifo
tc qdisc add dev d0 root handle 0: pfifo
tc qdisc add dev d0 root handle 1:5 pfifo
tc qdisc add dev d0 root noqueue
tc qdisc replace dev d0 root noqueue
tc qdisc show dev d0
tc qdisc replace dev d0 root pfifo limit 0
tc qdisc show dev d0
tc qdisc show dev d0
ip link set d0 txqueuelen 7
tc qdisc replace dev d0 root handle 5: pfifo
tc qdisc show dev d0
tc qdisc replace dev d0 root handle 6: bfifo
tc qdisc show dev d0
ip link add v0 address 02:00:00:00:00:03 type veth peer name v1 address 02:00:00:00:00:04
ip link set v0 up
tc qdisc show
ip link set v0 down
tc qdisc show
tc class add dev d0 parent 6: classid 6:1 pfifo
tc class show dev nosuch
tc qdisc get dev d0 root
tc qdisc show invisible
tc qdisc show root
ip link del d0
tc qdisc
