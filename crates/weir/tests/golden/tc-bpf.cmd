# Classifier bpf with classic programs.
ip link add d0 type dummy; tc qdisc add dev d0 clsact; tc qdisc add dev d0 root handle 1: htb; tc class add dev d0 parent 1: classid 1:1 htb rate 1mbit
tc filter add dev d0 ingress protocol ip pref 5 bpf bytecode '4,40 0 0 12,21 0 1 2048,6 0 0 262144,6 0 0 0' classid 1:1 action drop
tc filter add dev d0 ingress protocol ip pref 5 bpf bytecode '1,6 0 0 4294967295' classid 1:1
tc filter add dev d0 ingress protocol ip pref 5 handle 0x20 bpf bytecode '1,6 0 0 0' direct-action
tc filter add dev d0 ingress protocol ip pref 5 bpf bytecode '2,0 0 0 2,22 0 0 0' da skip_hw
tc filter add dev d0 parent 1: protocol ip pref 6 bpf bytecode '1,6 0 0 4294967295' flowid 1:1 police rate 1mbit burst 10k drop
tc filter show dev d0 ingress
tc filter show dev d0 parent 1:
pass 1; tc -s -d filter show dev d0 ingress
tc -j filter show dev d0 ingress
tc filter get dev d0 ingress protocol ip pref 5 handle 2 bpf
tc filter replace dev d0 ingress protocol ip pref 5 handle 2 bpf bytecode '2,40 0 0 14,22 0 0 0'
tc filter change dev d0 ingress protocol ip pref 5 handle 1 bpf bytecode '1,6 0 0 7' action pass
tc filter replace dev d0 ingress protocol ip pref 5 handle 0x21 bpf bytecode '1,6 0 0 9'
tc filter show dev d0 ingress
tc filter del dev d0 ingress protocol ip pref 5 handle 2 bpf
tc filter del dev d0 ingress protocol ip pref 5 handle 2 bpf
tc filter add dev d0 ingress protocol ip pref 5 bpf bytecode '1,6 0 0 5'
tc filter show dev d0 ingress | grep -c handle
tc filter add dev d0 ingress protocol ip pref 7 bpf bytecode '4,40 0 0 12,31 0 1 2048,6 0 0 262144,6 0 0 0'
tc filter add dev d0 ingress protocol ip pref 7 bpf bytecode '1,40 0 0 12'
tc filter add dev d0 ingress protocol ip pref 7 bpf bytecode '2,21 0 1 0,6 0 0 0'
tc filter add dev d0 ingress protocol ip pref 7 bpf bytecode '2,5 0 0 1,6 0 0 0'
tc filter add dev d0 ingress protocol ip pref 7 bpf bytecode '2,96 0 0 3,22 0 0 0'
tc filter add dev d0 ingress protocol ip pref 7 bpf bytecode '2,96 0 0 16,22 0 0 0'
tc filter add dev d0 ingress protocol ip pref 7 bpf bytecode '4,21 0 1 0,2 0 0 3,96 0 0 3,22 0 0 0'
tc filter add dev d0 ingress protocol ip pref 7 bpf bytecode '2,52 0 0 0,6 0 0 0'
tc filter add dev d0 ingress protocol ip pref 7 bpf bytecode '2,100 0 0 32,6 0 0 0'
tc filter add dev d0 ingress protocol ip pref 7 bpf bytecode '2,40 0 0 4294963266,6 0 0 0'
tc filter add dev d0 ingress protocol ip pref 7 bpf bytecode '1,6 0 0 1' skip_sw
tc filter add dev d0 ingress protocol ip pref 7 bpf bytecode '1,6 0 0 1' skip_sw skip_hw
tc filter add dev d0 ingress protocol ip pref 7 bpf
tc filter show dev d0 ingress pref 7
ip link del d0
