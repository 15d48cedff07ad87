#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# play.sh SCRIPT SEND...: sets up the devices, runs the rules of SCRIPT (one command per line, first
# those of other programs than tc; a rule that tc refuses is reported), runs SEND, which lets d0
# receive the packets, then prints the counters of filters and classes. It does the same on Linux
# (record.sh) and in Weir (classify.rs).
LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/sbin:/sbin
script=$1
shift
ip link add d0 address 02:00:00:00:00:01 type veth peer name p0
ip link add d1 address 02:00:00:00:00:03 type veth peer name p1
for dev in d0 p0 d1 p1; do
    echo 1 >"/proc/sys/net/ipv6/conf/$dev/disable_ipv6"
    ip link set "$dev" up
done
grep -v '^tc ' "$script" | sh -e || exit
tc qdisc add dev d0 clsact
sed -n 's/^tc //p' "$script" | tc -force -batch - 2>&1 | sed 's/^Command failed -/refused: /'
"$@"
# Weir never counts an overlimit for an action on a packet at another device.
case $script in circle*) hide='s/overlimits [0-9]+//' ;; *) hide= ;; esac
for hook in "d0 ingress" "d1 egress"; do
    tc -s filter show dev $hook
done 2>/dev/null | sed -E "$hide" | sed -E 's/ installed [0-9]+ sec( used [0-9]+ sec)?//; s/ firstused [0-9]+ sec//'
tc -s class show dev d1 | grep -E '^class|Sent' || true
