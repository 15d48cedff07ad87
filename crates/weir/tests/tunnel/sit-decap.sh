# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: u0 ipouter
# out: out0
# Packets for sit devices. A packet without a link-layer header leaves by out0 as it is.
# show: for d in s1 s2 sit0; do echo $d; ip -s -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
a() { n=$1; shift; ip link add $n type "$@"; ip link set $n up; tc qdisc add dev $n clsact; }
a s1 sit remote 192.0.2.2 local 192.0.2.1 mode any
a s2 sit remote 192.0.2.3 mode ip6ip
ip link set sit0 up
tc qdisc add dev sit0 clsact
for d in s1 s2 sit0; do tc filter add dev $d ingress protocol all prio 9 matchall $(redirect out0); done
