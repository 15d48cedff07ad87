# SPDX-License-Identifier: Apache-2.0 OR MIT
# Invalid filters, chains, blocks and actions: they are refused and nothing of them remains. Its
# output on Linux 6.1 is refusals.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
add() { c tc filter add dev v0 ingress "$@"; }
del() { c tc filter del dev v0 ingress "$@"; }
get() { c tc filter get dev v0 ingress "$@"; }
replace() { c tc filter replace dev v0 ingress "$@"; }
change() { c tc filter change dev v0 ingress "$@"; }
# Prints the state: filters, chains, actions. The number of actions reported at once may differ.
state() {
    c tc filter show dev v0 ingress
    c tc chain show dev v0 ingress
    for kind in gact mirred skbedit vlan police; do
        c tc actions list action $kind | sed '/^total acts/d; s/action order [0-9]*/action order/'
    done
}
ip link add v0 type veth peer name v1
# Loads Linux's modules. A request that loads a module starts over, with the next number.
for action in "mirred egress redirect dev v1" "skbedit mark 1" "vlan pop" "police rate 1mbit burst 1k"; do
    tc actions add action $action && tc actions flush action ${action%% *}
done
add matchall action pass
c tc qdisc add dev v0 clsact
c tc filter add dev v0 parent 1: matchall action pass
c tc filter add dev v0 parent 1:1 matchall action pass
c tc filter add dev v0 parent ffff:7 matchall action pass
c tc filter add dev v0 matchall action pass
c tc filter add dev nosuch ingress matchall action pass
c tc filter add block 7 matchall action pass
c tc filter show block 7
c tc chain add block 7 chain 1
state
# Handles that are in use, malformed, or of other kinds.
add pref 1 protocol ip handle 5 flower dst_ip 192.0.2.1 action pass
add pref 1 protocol ip handle 5 flower dst_ip 192.0.2.2 action pass
add pref 1 protocol ip handle 6 flower dst_ip 192.0.2.1 action pass
add pref 1 protocol ip flower dst_ip 192.0.2.1 action drop
replace pref 1 protocol ip handle 6 flower dst_ip 192.0.2.1 action drop
add pref 1 protocol ipv6 flower action pass
add pref 1 protocol ip matchall action pass
add pref 1 protocol ip nosuch action pass
add pref 9 protocol ip nosuch action pass
change pref 1 protocol ip handle 7 flower dst_ip 192.0.2.3 action pass
change pref 2 protocol ip handle 7 flower dst_ip 192.0.2.3 action pass
del pref 1 protocol ip handle 7 flower
del pref 1 protocol ip handle 5 matchall
del pref 1 protocol ipv6
del pref 2 protocol ip
del protocol ip
del chain 3 pref 1
get pref 1 protocol ip handle 7 flower
get pref 1 protocol ip handle 5 matchall
get pref 2 protocol ip handle 5 flower
get chain 3 pref 1 protocol ip handle 5 flower
get pref 0 protocol ip handle 5 flower
add chain 0xffffffff flower action pass
add chain 0x10000000 flower action pass
add pref 2 protocol all handle 3 matchall action pass
add pref 2 protocol all handle 4 matchall action pass
add pref 2 protocol all handle 3 matchall action pass
state
add pref 3 protocol ip handle 9 fw action pass
add pref 3 protocol ip handle 9 fw action pass
add pref 3 protocol ip handle 8/0xff fw action pass
change pref 3 protocol ip handle 9 fw indev nosuch action pass
add pref 4 protocol ip handle 1 basic action pass
add pref 4 protocol ip handle 1 basic action pass
add pref 4 protocol ip basic match 'meta(nf_mark eq 1) and cmp(u8 at 0 layer 9 eq 1)' action pass
add pref 5 protocol ip handle 2 cgroup action pass
add pref 5 protocol ip handle 1 cgroup action pass
add pref 5 protocol ip handle 1 cgroup action pass
add pref 6 protocol ip flow map key dst baseclass 1:1
add pref 6 protocol ip handle 1 flow map key dst,src baseclass 1:1
add pref 6 protocol ip handle 1 flow map key dst perturb 5 baseclass 1:1
add pref 6 protocol ip handle 1 flow hash keys dst perturb 5 divisor 8 rshift 3
add pref 6 protocol ip handle 1 flow hash keys dst divisor 8
add pref 6 protocol ip handle 1 flow hash keys dst divisor 8
change pref 6 protocol ip handle 1 flow map key src divisor 8
add pref 7 protocol ip route to 300 action pass
add pref 7 protocol ip route to 3 from 4 fromif v0 action pass
add pref 7 protocol ip route to 3 from 4 action pass
add pref 7 protocol ip route to 3 from 4 action pass
add pref 7 protocol ip route from 256 action pass
add pref 8 protocol ip handle 800::801 u32 match u32 0 0 action pass
add pref 8 protocol ip handle 800::801 u32 match u32 0 0 action pass
add pref 8 protocol ip handle 900::801 u32 match u32 0 0 action pass
add pref 8 protocol ip u32 ht 5:: match u32 0 0 action pass
add pref 8 protocol ip u32 link 5: match u32 0 0
add pref 8 protocol ip u32 match u32 0 0 indev nosuch action pass
add pref 8 protocol ip handle 7: u32 divisor 257
add pref 8 protocol ip handle 7: u32 divisor 3
add pref 8 protocol ip handle 7: u32 divisor 4
add pref 8 protocol ip handle 7: u32 divisor 4
add pref 8 protocol ip u32 ht 7:9 match u32 0 0 action pass
add pref 8 protocol ip u32 link 7: match u32 0 0
del pref 8 protocol ip handle 7: u32
del pref 8 protocol ip handle 800: u32
state
# Masks and keys of flower.
add pref 20 protocol ip flower ip_proto tcp dst_port 9-3 action pass
add pref 20 protocol ip flower dst_port 9 action pass
add pref 20 protocol ip flower ip_proto udp tcp_flags 3 action pass
add pref 20 protocol ip flower src_ip 2001:db8::1 action pass
add pref 20 protocol mpls_uc flower mpls lse depth 9 label 1 action pass
add pref 20 protocol ip flower indev nosuch action pass
add pref 20 protocol ip flower ct_state +trk+new+est action pass
add pref 20 protocol ip flower skip_sw action pass
add pref 20 protocol ip flower skip_sw skip_hw action pass
add pref 20 protocol ip matchall skip_sw action pass
add pref 20 protocol ip flower classid 0:0 hw_tc 16 action pass
# Templates and chains.
c tc chain add dev v0 ingress chain 5 protocol ip flower dst_ip 0.0.0.0/24
c tc chain add dev v0 ingress chain 5 protocol ip flower dst_ip 0.0.0.0/24
c tc chain add dev v0 ingress chain 6 protocol ip matchall
c tc chain add dev v0 ingress chain 0x10000000
c tc chain del dev v0 ingress chain 7
c tc chain get dev v0 ingress chain 7
add chain 5 pref 1 protocol ip flower dst_ip 192.0.2.1 action pass
add chain 5 pref 1 protocol ip flower src_ip 192.0.2.0/24 action pass
add chain 5 pref 1 protocol ip matchall action pass
state
# Actions: too many, the index of another kind, twice, invalid controls, and a failure after
# successes.
n=33
many=
while [ $n -gt 0 ]; do many="$many action pass"; n=$((n - 1)); done
add pref 30 matchall $many
add pref 30 matchall ${many# action pass}
del pref 30
c tc actions add $many
c tc actions add ${many# action pass}
c tc actions list action gact | grep -c order
c tc actions flush action gact
c tc actions add action drop index 5
c tc actions add action drop index 5
c tc actions add action pass index 6 action drop index 5 action pass index 7
c tc actions add action pass index 6 action nosuch index 7
c tc actions add action pass index 6 action mirred egress redirect dev nosuch
c tc actions add action pass index 6 action vlan push id 4095
c tc actions add action pass index 6 action skbedit
c tc actions add action gact nosuch
c tc actions add action pass cookie 00112233445566778899aabbccddeeff00
c tc actions add action goto chain 0x10000000
c tc actions add action drop random determ goto chain 3 5
c tc actions get action mirred index 5
c tc actions del action mirred index 5
c tc actions del action gact index 5 action gact index 99
c tc actions del action gact index 99 action gact index 5
c tc actions get action gact index 5
c tc actions get action nosuch index 5
c tc actions flush action nosuch
c tc actions list action nosuch
add pref 31 matchall action mirred index 5
add pref 31 matchall action gact index 98
add pref 31 matchall action drop action vlan push id 4095
add pref 31 matchall action pass index 44 action mirred egress redirect dev nosuch
add pref 31 matchall action drop index 5
c tc actions del action gact index 5
c tc actions flush action gact
c tc actions replace action pass index 5
c tc actions change action goto chain 3 index 5
c tc actions add action goto chain 3 index 8
add pref 32 matchall action goto chain 3 index 9
add pref 33 u32 match u32 0 0 police rate 1mbit burst 1k goto chain 4
add pref 34 u32 match u32 0 0 police burst 1k drop
state
# Blocks.
c tc qdisc add dev v1 ingress_block 0 clsact
c tc qdisc add dev v1 ingress_block 5 egress_block 5 clsact
c tc qdisc add dev v1 root handle 1: prio ingress_block 5
c tc filter add block 5 pref 1 matchall action drop
c tc filter add dev v1 ingress pref 1 matchall action drop
c tc qdisc change dev v1 ingress_block 6 clsact
c tc qdisc replace dev v1 ingress_block 6 clsact
c tc filter show block 5
c tc qdisc del dev v1 clsact
c tc filter show block 5
c tc filter add block 5 pref 1 matchall action drop
c tc filter del dev v0 ingress
state
