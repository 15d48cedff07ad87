# Between unicast and multicast probes, listeners are asked (`ip monitor` prints "miss").
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link set d0 arp on
sysctl -qw net.ipv6.conf.all.disable_ipv6=1
ip link set d0 up
ip addr add 10.0.0.1/24 dev d0
sysctl -w net.ipv4.neigh.d0.app_solicit=2
sysctl -w net.ipv4.neigh.d0.mcast_solicit=1
asked() { ip -s -s link show d0 | awk '/TX/ { getline; print $2; exit }'; }
heard() { sleep 1; kill $!; sed "s/ref [0-9] //" $tmp/neigh | sort | uniq -c; }
ip -s monitor neigh >$tmp/neigh & sleep 1
ip neigh add 10.0.0.5 dev d0 use
pass 5
ip -s neigh show dev d0 | sed "s/ref [0-9] //"
asked
heard
# A stale neighbour.
ip -s monitor neigh >$tmp/neigh & sleep 1
sysctl -w net.ipv4.neigh.d0.delay_first_probe_time=1
ip neigh add 10.0.0.6 lladdr 02:00:00:00:00:06 dev d0 nud stale
ip neigh replace 10.0.0.6 dev d0 use
pass 8
ip -s neigh show dev d0 to 10.0.0.6 | sed "s/ref [0-9] //"
asked
heard
# Only listeners are asked.
ip -s monitor neigh >$tmp/neigh & sleep 1
sysctl -w net.ipv4.neigh.d0.mcast_solicit=0
ip neigh add 10.0.0.7 dev d0 use
ip neigh show dev d0 to 10.0.0.7 nud all
pass 4
ip neigh show dev d0 to 10.0.0.7 nud all
asked
sysctl -w net.ipv4.neigh.d0.app_solicit=0
ip neigh add 10.0.0.8 dev d0 use
ip neigh show dev d0 to 10.0.0.8 nud all
heard
# A listener answers.
sysctl -w net.ipv4.neigh.d0.app_solicit=3
ip neigh add 10.0.0.9 dev d0 use
ip neigh replace 10.0.0.9 lladdr 02:00:00:00:00:09 nud reachable dev d0
pass 4
ip neigh show dev d0 to 10.0.0.9
sysctl -qw net.ipv6.conf.all.disable_ipv6=0
sysctl -qw net.ipv6.conf.d0.accept_dad=0
ip addr add fd00::1/64 dev d0 nodad
sysctl -w net.ipv6.neigh.d0.app_solicit=1
pass 4
ip -s monitor neigh >$tmp/neigh & sleep 1
ip neigh add fd00::5 dev d0 use
pass 6
ip -6 neigh show dev d0 to fd00::5 nud all
heard | grep fd00
ip ntable show dev d0 | grep -o "ucast_probes.*"
