# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The flow table of the action `ct`: established connections whose packets pass without the checks of their protocol's
# state machine. Time-outs are rounded up to tens of seconds, long ones to 500.
exec 2>&1
cd "$(dirname "$0")"
c() { echo "+ $*"; "$@" || echo "= $?"; }
tidy() { awk '{
    n = 0
    for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]+$/ && ++n == ENVIRON["AT"])
        $i = $i > 1000 ? int(($i + 250) / 500) * 500 : int(($i + 9) / 10) * 10
    gsub(/ (use|portid)=[0-9]+| progname=conntrack| zone=0|<use>[0-9]*<.use>|<id>[0-9]*<.id>/, "")
    print
}'; }
tracked() { echo "+ conntrack $*"; conntrack "$@" 2>/dev/null | sort | AT=2 tidy; }
list() { tracked -L "$@"; }
shown() { echo "+ /proc/net/nf_conntrack"; sort /proc/net/nf_conntrack | AT=3 tidy; }
send() { echo "+ send $*"; python3 flow-table.py v0 "$@"; sleep 0.2; }
hits() { echo "+ hits"; tc -s filter show dev v1 ingress chain 1 | awk '/ct_state/ { s = $2 } /Sent / { print s, $4 }'; }
ip link add v0 address 02:00:00:00:00:09 type veth peer name v1 address 02:00:00:00:00:10
ip link set v0 up addrgenmode none
ip link set v1 up addrgenmode none
[ -n "$WEIR" ] || ethtool -K v0 tx off >/dev/null
tc qdisc add dev v1 clsact
tc filter add dev v1 ingress pref 1 protocol ip matchall action ct commit pipe action goto chain 1
tc filter add dev v1 ingress chain 1 pref 1 protocol ip flower ct_state +trk+inv action drop
tc filter add dev v1 ingress chain 1 pref 2 protocol ip flower ct_state +trk+new action drop
tc filter add dev v1 ingress chain 1 pref 3 protocol ip flower ct_state +trk+est action drop
c sysctl net.netfilter.nf_flowtable_tcp_timeout net.netfilter.nf_flowtable_udp_timeout
c sysctl -w net.netfilter.nf_flowtable_tcp_timeout=300 net.netfilter.nf_flowtable_udp_timeout=300
events=$(mktemp)
conntrack -E >$events 2>/dev/null & monitor=$!
sleep 0.5
ab="10.1.0.1:1000 10.1.0.2:80"
ba="10.1.0.2:80 10.1.0.1:1000"
# A connection of TCP: the segment that makes it established puts it into the table.
send "tcp $ab S 1000 0 0" "tcp $ba SA 5000 1001 0"
list
shown
send "tcp $ab A 1001 5001 0"
list
shown
list -o xml
list -u ASSURED
list -p tcp --state ESTABLISHED
tracked -G -p tcp -s 10.1.0.1 -d 10.1.0.2 --sport 1000 --dport 80
hits
# Nothing is checked: a segment far ahead, a wrong checksum, impossible flags, a SYN.
send "tcp $ab PA 9001001 5001 100"
send "tcp $ab PA 1001 5001 100 bad"
send "tcp $ba SPA 1001 5001 100"
send "tcp $ab S 77 0 0"
hits
# What the table does not take is checked, but not by windows any more.
send "tcp $ab PA 9001001 5001 100 ttl=1"
hits
send "tcp $ab PA 1001 5001 100 bad ttl=1"
hits
send "tcp $ab PA 1001 5001 100 bad options"
hits
list
# Changes by requests.
tracked -U -p tcp -s 10.1.0.1 -m 5
list
# The end of a connection leaves the table.
send "tcp $ab FA 1001 5001 0"
list
shown
send "tcp $ba FA 5001 1002 0" "tcp $ab A 1002 5002 0"
list
tracked -D -p tcp
# So does a reset, and silence.
c sysctl -w net.netfilter.nf_flowtable_tcp_timeout=20
send "tcp $ab S 1000 0 0" "tcp $ba SA 5000 1001 0" "tcp $ab A 1001 5001 0"
list
sleep 12
send "tcp $ab PA 1001 5001 100"
sleep 12
list
sleep 12
list
shown
send "tcp $ab PA 9001101 5001 100"
hits
list
send "tcp $ab R 1101 0 0"
list
tracked -F
# UDP enters with its first packet.
cd="10.1.0.1:1000 10.1.0.2:53"
dc="10.1.0.2:53 10.1.0.1:1000"
send "udp $cd 10"
list
shown
send "udp $dc 10"
list
shown
sleep 2.5
send "udp $cd 10" "udp $dc 10"
list
hits
send "udp $cd 10 bad"
hits
tracked -F
c sysctl -w net.netfilter.nf_flowtable_udp_timeout=20
send "udp $cd 10"
sleep 22
list
tracked -F
# GRE enters once assured.
send "gre 10.1.0.1 10.1.0.2" "gre 10.1.0.2 10.1.0.1"
list
send "gre 10.1.0.1 10.1.0.2"
list
sleep 35
list
tracked -F
# Counters.
c sysctl -w net.netfilter.nf_conntrack_acct=1
c sysctl -w net.netfilter.nf_flowtable_tcp_timeout=300 net.netfilter.nf_flowtable_udp_timeout=300
send "tcp $ab S 1000 0 0" "tcp $ba SA 5000 1001 0" "tcp $ab A 1001 5001 0" "tcp $ab PA 1001 5001 100" "tcp $ba A 5001 1101 0"
list
c sysctl -w net.netfilter.nf_conntrack_acct=0
# A connection that a request makes.
tracked -I -p tcp -s 10.1.0.1 -d 10.1.0.2 --sport 2000 --dport 80 --state ESTABLISHED -u ASSURED,SEEN_REPLY -t 500
list
send "tcp 10.1.0.1:2000 10.1.0.2:80 A 1 1 0"
list
# An action that does not commit puts them into the table, too. With the last action the table goes.
tc filter del dev v1 ingress pref 1
sleep 2.5
list
shown
tc filter add dev v1 ingress pref 1 protocol ip matchall action ct
list
send "tcp $ab A 1101 5001 0"
list
tc filter del dev v1 ingress pref 1
tc filter add dev v1 ingress pref 1 protocol ip matchall action ct clear
sleep 2.5
list
# A mark that the action sets.
tc filter del dev v1 ingress pref 1
tc actions add action ct index 7
tc filter add dev v1 ingress pref 1 protocol ip matchall action ct commit mark 9
send "tcp $ab A 1101 5001 0"
list
send "tcp $ab A 1101 5001 0"
list
# Another action of the zone keeps the table.
tc filter del dev v1 ingress pref 1
sleep 2.5
list
tc actions change action ct clear index 7
sleep 2.5
list
tc actions del action ct index 7
sleep 2.5
list
tracked -F
# Translated connections.
tc filter add dev v1 ingress pref 1 protocol ip flower ip_proto tcp src_ip 10.1.0.1 action ct commit nat src addr 192.0.2.1 pipe
tc filter add dev v1 ingress pref 2 protocol ip flower ip_proto tcp src_ip 10.1.0.2 action ct nat pipe
send "tcp $ab S 1000 0 0" "tcp 10.1.0.2:80 192.0.2.1:1000 SA 5000 1001 0" "tcp $ab A 1001 5001 0"
list
send "tcp 10.1.0.2:80 192.0.2.1:1000 A 995001 1001 0"
list
kill $monitor; wait $monitor
echo "+ events"
# What a connection of UDP has left in the table depends on when Linux last looked.
AT=2 tidy <$events | sed -E 's/(DESTROY. udp 17) [0-9]+/\1/'
rm $events
