ip link add d0 address 02:00:00:00:00:01 type dummy
ip link set d0 up
tc qdisc add dev d0 root handle 1: htb default 10
tc class add dev d0 parent 1:1 classid 1:1 htb rate 1mbit
tc class add dev d0 parent 1: classid 1:1 htb rate 1mbit
tc class add dev d0 parent 1:1 classid 1:2 htb rate 1mbit
tc class add dev d0 parent 1:1 classid 1:2 htb rate 1mbit
tc class change dev d0 parent 1:1 classid 1:1 htb rate 1mbit
tc class change dev d0 parent 1:2 classid 1:1 htb rate 1mbit
tc class add dev d0 parent 1:9 classid 1:3 htb rate 1mbit
tc class add dev d0 parent 2: classid 2:3 htb rate 1mbit
tc class add dev d0 parent 2:1 classid 1:3 htb rate 1mbit
tc class add dev d0 parent 1:1 classid 2:3 htb rate 1mbit
tc class add dev d0 parent 1:1 classid 1: htb rate 1mbit
tc class change dev d0 parent 1:1 classid 1:8 htb rate 1mbit
tc class add dev d0 parent 1:1 classid 1:4 htb
tc class add dev d0 parent 1:1 classid 1:4 htb rate 0
tc class add dev d0 parent 1:1 classid 1:4 htb rate 0bit ceil 0bit
tc class add dev d0 parent 1:1 classid 1:4 htb rate 1mbit ceil 0
tc class add dev d0 parent 1:1 classid 1:4 htb rate 1bit
tc class add dev d0 parent 1:1 classid 1:4 htb rate 18446744073709551616bit
tc class add dev d0 parent 1:1 classid 1:4 htb rate 99999999999999gbit
tc class add dev d0 parent 1:1 classid 1:4 htb rate -1mbit
tc class add dev d0 parent 1:1 classid 1:4 drr
tc class show dev d0
tc class add dev d0 parent 1:1 classid 1:5 htb rate 1mbit ceil 500kbit
tc class add dev d0 parent 1:1 classid 1:6 htb rate 1mbit quantum 0
tc class add dev d0 parent 1:1 classid 1:7 htb rate 1mbit quantum 1
tc class add dev d0 parent 1:1 classid 1:8 htb rate 1mbit quantum 4294967295
tc class add dev d0 parent 1:1 classid 1:9 htb rate 10gbit
tc class add dev d0 parent 1:1 classid 1:a htb rate 8kbit
tc class add dev d0 parent 1:1 classid 1:b htb rate 1mbit prio 8
tc class add dev d0 parent 1:1 classid 1:c htb rate 1mbit burst 0 cburst 0
tc class add dev d0 parent 1:1 classid 1:d htb rate 1mbit prio -1
tc filter add dev d0 parent 1: protocol ip pref 1 u32 match u32 0 0 flowid 1:2
tc class del dev d0 classid 1:1
tc class del dev d0 classid 1:2
tc class del dev d0 classid 1:99
tc class del dev d0 classid 2:2
tc class del dev d0 parent 1: classid 1:5
tc class show dev d0
tc filter del dev d0 parent 1: pref 1
tc class del dev d0 classid 1:2
tc class show dev d0
tc qdisc add dev d0 parent 1:1 handle 11: pfifo
tc qdisc add dev d0 parent 1:99 handle 11: pfifo
tc qdisc replace dev d0 root handle 1: htb r2q 0
tc qdisc del dev d0 root
tc qdisc add dev d0 root handle 1: htb r2q 0
tc qdisc add dev d0 root handle 1: htb direct_qlen 0
tc qdisc del dev d0 root
