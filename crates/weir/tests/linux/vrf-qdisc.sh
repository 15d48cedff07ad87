# SPDX-License-Identifier: Apache-2.0 OR MIT
# What the host sends by the ports of a VRF, as the VRF sees it: its observers, its counters, and its qdisc, if it has one.
# Its output on Linux 6.1 is vrf-qdisc.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
settle() { [ -n "$WEIR" ] || sleep 0.5; } # Linux's link state comes late
received() { sed -n 's/.*\([0-9] received\).*/\1/p'; }
show() {
    tc -s qdisc show dev red | sed -n 's/^ Sent/ sent/p'
    ip -s link show red | awk '/RX:|TX:/ { d = $1; getline; print " " d, $1, "bytes", $2, "packets", $4, "dropped" }'
    nstat -asz IpOutRequests IpOutNoRoutes IpFragCreates 2>&1 | awk '/^Ip/ { print " " $1, $2 }'
}
p() { echo "+ ping $*"; ping -n -c 1 -W 1 "$@" 2>/dev/null | received; show; }
sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0
sysctl -qw net.ipv6.conf.default.accept_ra=0 net.ipv6.conf.default.router_solicitations=0
ip netns add r
ip -n r link set lo up; ip link set lo up
ip link add red address 02:00:00:00:00:10 type vrf table 10
ip link set red up
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02 netns r
ip link set v0 master red
ip addr add 10.0.0.1/24 dev v0
ip link set v0 up
ip -n r addr add 10.0.0.2/24 dev v1
ip -n r addr add 10.9.9.9/32 dev lo
ip -n r link set v1 up
ip -6 addr add fd00::1/64 dev v0
ip netns exec r ip -6 addr add fd00::2/64 dev v1
ip route add 10.9.9.0/24 via 10.0.0.2 vrf red
settle
everything() {
    tcpdump -Z root -Un -w "$F" -i red 'icmp or (icmp6 and (ip6[40] = 128 or ip6[40] = 129)) or ip6[6] = 44' 2>"$F.log" &
    dump=$!
    until grep -q listening "$F.log"; do sleep 0.1; done
    p -I red 10.0.0.2
    p -I red 10.9.9.9
    p -I red fd00::2
    echo '+ ping from the other side'; ip netns exec r ping -n -c 1 -W 1 10.0.0.1 | received; show
    p -I red 10.0.0.1
    p -b -I red 255.255.255.255
    p -I v0 10.0.0.255 -b
    p -I v0 224.0.0.1
    p -6 -I v0 fe80::1234
    p -I v0 10.0.0.2
    p -s 3000 -I red 10.0.0.2
    p -s 3000 -I red fd00::2
    p -I red 10.77.0.1
    sleep 1; kill $dump; wait $dump
    tcpdump -Z root -entr "$F" 2>/dev/null | sed 's/, id [0-9]*,/,/'
}
F=$(mktemp)
everything
c tc qdisc add dev red root handle 1: pfifo
everything
echo '+ a qdisc that drops'
c tc qdisc replace dev red root handle 2: netem loss 100%
p -I red 10.0.0.2
p -I red fd00::2
tc -s qdisc show dev red | sed -n 's/^ Sent/ sent/p'
c tc qdisc del dev red root
p -I red 10.0.0.2
echo '+ packets of tunnels'
c tc qdisc add dev red root handle 3: pfifo
c ip link add t4 type ipip local 10.0.0.1 remote 10.0.0.2 dev red
c ip link add t6 type ip6tnl mode ip6ip6 local fd00::1 remote fd00::2 dev red
ip link set t4 up; ip link set t6 up
ip addr add 10.50.0.1/24 dev t4
ip -6 addr add fd50::1/64 dev t6
settle
p -I t4 10.50.0.2
p -I t6 fd50::2
rm -f "$F" "$F.log"
