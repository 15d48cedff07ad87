# SPDX-License-Identifier: Apache-2.0 OR MIT
# Policy rules of both families.
# Its output on Linux 6.1 is rules.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
settle() { [ -n "$WEIR" ] || sleep 0.5; } # Linux's link state comes late
ip link add v0 type veth peer name v1
for f in -4 -6; do
c ip $f rule
c ip $f -d rule
c ip $f rule add from all lookup 100
c ip $f rule add from all lookup 100
c ip $f rule add fwmark 7 lookup 100 pref 50
c ip $f rule add fwmark 7 lookup 100 pref 50
c ip $f rule add fwmark 7/0xff lookup 1000 pref 51
c ip $f rule add goto 60 pref 55
c ip $f rule add goto 50 pref 55
c ip $f rule add goto 55 pref 55
c ip $f rule add nop pref 60
c ip $f rule
c ip $f rule add blackhole pref 70
c ip $f rule add unreachable pref 71 iif v0
c ip $f rule add prohibit pref 72 oif v1 iif nope
c ip $f rule add not from all lookup 9 tos 8 pref 80
c ip $f rule add tos 9 lookup 9 pref 81
c ip $f rule add tos 0x80 lookup 9 pref 82
c ip $f rule add iif zz oif v0 ipproto tcp dport 80-90 sport 7 lookup main suppress_prefixlength 0 pref 90
c ip $f rule add ipproto tcp dport 90-80 lookup main pref 91
c ip $f rule add lookup main suppress_ifgroup 4 pref 92
c ip $f rule add lookup 55 protocol static pref 93
c ip $f rule
c ip $f -d rule
c ip $f -j rule
c ip $f rule show table 100
c ip $f rule show fwmark 7
c ip $f rule del pref 60
c ip $f rule
c ip $f rule add nop pref 60
c ip $f rule add nop pref 60
c ip $f rule del fwmark 9
c ip $f rule del fwmark 7
c ip $f rule del prohibit
c ip $f rule del lookup 55
c ip $f rule del lookup 55
c ip $f rule del from 1.2.3.4
c ip $f rule
ip link del v0
c ip $f rule
ip link add v0 type veth peer name v1
c ip $f rule
ip link set v0 name zz
c ip $f rule
ip link set zz name v0
c ip $f rule del pref 0
c ip $f rule flush
c ip $f rule
c ip $f rule add from all lookup main
c ip $f rule del pref 32766
done
c ip rule add from 10.0.0.0/8 to 20.0.0.0/7 lookup 7
c ip rule add from 10.1.0.0/8 lookup 7 pref 3
c ip -6 rule add from 2001:db8::/32 to 2001::1 lookup 7
c ip rule
c ip -6 rule
c ip rule del from 10.0.0.0/8
c ip rule
c ip rule show from 10.0.0.0/8
