# The first line loads the modules before a monitor starts. `mark` waits where a monitor looks up names that
# change or disappear next.
ip link add d0 type dummy; tc qdisc add dev d0 clsact; tc filter add dev d0 ingress flower action drop; ip link del d0
ip monitor all >$tmp/all 2>&1 & monitor=$!; ip monitor link >$tmp/link 2>&1 & link=$!; tc monitor >$tmp/tc 2>&1 & tcm=$!; mark 65534
ip link add d0 address 02:00:00:00:00:01 type dummy; ip link set d0 up; sleep 0.2
ip addr add 10.0.0.1/24 dev d0; ip addr add 2001:db8::1/64 dev d0 nodad; sleep 0.2
ip route add 10.1.0.0/16 via 10.0.0.2; ip -6 route add 2001:db8:1::/48 via 2001:db8::2; sleep 0.2
ip rule add from 10.2.0.0/16 lookup 100; ip rule del from 10.2.0.0/16; sleep 0.2
ip neigh add 10.0.0.3 lladdr 02:00:00:00:00:03 dev d0; ip neigh del 10.0.0.3 dev d0; sleep 0.2
tc qdisc add dev d0 clsact; tc filter add dev d0 ingress protocol ip pref 5 flower dst_ip 10.0.0.0/8 action drop; tc filter del dev d0 ingress pref 5 protocol ip flower; tc qdisc del dev d0 clsact; tc qdisc add dev d0 root handle 1: pfifo; tc qdisc change dev d0 root handle 1: pfifo limit 5; tc qdisc del dev d0 root; sleep 0.2; mark 65532
tc actions add action pass index 9; tc actions del action gact index 9; sleep 0.2
ip netns add one; ip netns set one 4; mark 65533; ip netns del one; sleep 0.2
ip addr del 10.0.0.1/24 dev d0; ip link set d0 down; ip link set d0 name d9; ip link del d9; sleep 0.5; mark 65535
kill $monitor $link $tcm; wait $monitor $link $tcm; unmarked $tmp/link
unmarked $tmp/tc
unmarked $tmp/all | grep -v -e NETCONF -e 'NEIGH.*ff02'
