# SPDX-License-Identifier: Apache-2.0 OR MIT
# Terse dumps of filters: flower supports them, matchall is skipped, and other kinds end the dump.
# Its output on Linux 6.1 is terse.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
show() { c tc -br filter show dev v0 ingress; }
add() { c tc filter add dev v0 ingress "$@"; }
ip link add v0 type veth peer name v1
c tc qdisc add dev v0 clsact
show
add pref 1 protocol ip flower dst_ip 192.0.2.1 action drop cookie abcd
add pref 1 protocol ip flower dst_ip 192.0.2.2 action drop
show
add pref 2 protocol all matchall action pass
add pref 3 protocol ip flower ip_proto tcp classid 1:2 action skbedit mark 3 pipe action pass
show
c tc -s -br filter show dev v0 ingress
add pref 4 protocol ip basic match 'u32(u32 0 0 at 0)' action pass
add pref 5 protocol ip flower ip_proto udp action pass
show
c tc filter del dev v0 ingress pref 4
add pref 4 handle 1 protocol ip cgroup
show
c tc filter del dev v0 ingress pref 4
add pref 4 handle 1 protocol ip flow map key dst divisor 4 baseclass 1:1
show
c tc filter del dev v0 ingress pref 4
add pref 4 handle 7 protocol ip fw action pass
show
c tc filter del dev v0 ingress pref 4
add pref 4 protocol ip route fromif v0 action pass
show
c tc filter del dev v0 ingress pref 4
add pref 4 protocol ip u32 match u32 0 0 action pass
show
c tc filter del dev v0 ingress pref 4
add chain 3 pref 1 protocol all matchall action pass
add chain 3 pref 2 protocol ip basic action pass
show
c tc -br filter show dev v0 ingress chain 0
c tc -br filter show dev v0 ingress chain 3
c tc -br filter show dev v0 ingress chain 3 pref 1
c tc -br filter show dev v0 ingress protocol ip
