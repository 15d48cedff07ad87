# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The SNMP counters of a router that receives the frames of counters.py: the changes that each group of frames makes in
# /proc/net/snmp, netstat, snmp6 and dev_snmp6. The output on Linux 6.1 is counters.txt beside it; record makes it.
exec 2>&1
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ip link set lo up
ip link add in0 address 02:00:00:00:00:01 type veth peer name p0
ip link add out0 address 02:00:00:00:01:01 mtu 1280 type dummy
# A frame that leaves in0 ends at p0, in another namespace.
ip netns add far
ip link set p0 netns far
ip netns exec far sysctl -qw net.ipv6.conf.all.disable_ipv6=1
ip -n far link set p0 up
sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.in0.accept_dad=0 net.ipv6.conf.out0.accept_dad=0 \
    net.ipv6.conf.all.forwarding=1 net.ipv4.ip_forward=1 net.ipv4.icmp_ratemask=0 net.ipv4.conf.all.rp_filter=0 \
    net.ipv4.conf.in0.rp_filter=0 net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.in0.send_redirects=0 \
    net.ipv6.icmp.ratelimit=0
ip link set in0 up
ip link set out0 up
ip addr add 10.0.0.1/24 brd 10.0.0.255 dev in0
ip addr add 10.1.0.1/24 dev out0
ip addr add fd00::1/64 dev in0
ip addr add fd01::1/64 dev out0
for to in 10.0.0.2 fd00::2 fe80::2; do ip neigh replace "$to" lladdr 02:00:00:00:00:02 dev in0 nud permanent; done
for to in 10.1.0.2 fd01::2; do ip neigh replace "$to" lladdr 02:00:00:00:01:02 dev out0 nud permanent; done
ip route add unreachable 10.8.0.0/16
ip route add prohibit 10.7.0.0/16
ip route add blackhole 10.6.0.0/16
ip -6 route add unreachable fd08::/16
ip -6 route add prohibit fd07::/16
ip -6 route add blackhole fd06::/16
# Prints the counters that changed since the last call, with the differences: "Ip.InReceives 5", "Ip6InReceives 5",
# "in0.Ip6InReceives 5".
changes() {
    awk -v old="$work/counters" '
        function show(name, value) {
            if (value != before[name] + 0 && !quiet) print name, value - before[name]
            print name, value >(old ".new")
        }
        BEGIN { quiet = 1; while ((getline line <old) > 0) { quiet = 0; split(line, part); before[part[1]] = part[2] } }
        /:/ {
            if ($1 == title) { for (i = 2; i <= NF; i++) show(substr(title, 1, length(title) - 1) "." name[i], $i); title = "" }
            else { title = $1; split($0, name) }
            next
        }
        { device = FILENAME; if (!sub(".*dev_snmp6/", "", device)) device = ""; else device = device "."; show(device $1, $2) }
    ' /proc/net/snmp /proc/net/netstat /proc/net/snmp6 /proc/net/dev_snmp6/lo /proc/net/dev_snmp6/in0 /proc/net/dev_snmp6/out0
    mv "$work/counters.new" "$work/counters"
}
if [ -n "${WEIR-}" ]; then
    python3 "$here/counters.py" pcap "$work"
else
    mkfifo "$work/groups" "$work/sent"
    ip netns exec far python3 "$here/counters.py" send p0 <"$work/groups" >"$work/sent" &
    exec 3>"$work/groups" 4<"$work/sent"
fi
# The reports of joined groups, which Linux sends and Weir does not, are over after this.
sleep 4
changes
frames() {
    echo "+ $*"
    if [ -n "${WEIR-}" ]; then
        "$WEIR" inject --receive in0 "$work/$1.pcap" >/dev/null
    else
        echo "$1" >&3
        read -r _ <&4
    fi
    sleep "${2-1}"
    changes
}
for group in forward fragments-out too-big ttl headers options no-route unreachable prohibit blackhole martians udp udplite tcp icmp \
    icmp-errors protocols broadcast other-host reassembly overlap; do
    frames "$group"
done
sysctl -qw net.ipv4.ipfrag_time=1
frames incomplete 2
sysctl -qw net.ipv4.conf.in0.rp_filter=1
frames spoofed
sysctl -qw net.ipv4.conf.in0.rp_filter=0 net.ipv4.conf.in0.arp_filter=1
frames arp
sysctl -qw net.ipv4.icmp_ratemask=6168 net.ipv4.icmp_ratelimit=1000
sleep 8
frames limited
sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv4.ip_forward=0
frames forward
sysctl -qw net.ipv4.icmp_ratemask=0
for group in forward6 too-big6 hops6 headers6 routing6 no-route6 refused6 link-local6 udp6 tcp6 icmp6 icmp6-errors neighbour6 protocols6 \
    reassembly6 overlap6 fragments6; do
    frames "$group"
done
sysctl -qw net.ipv6.ip6frag_time=1
frames incomplete6 2
sysctl -qw net.ipv6.icmp.ratelimit=1000
sleep 8
frames limited6
sysctl -qw net.ipv6.icmp.ratelimit=0 net.ipv6.conf.all.forwarding=0
sleep 3
changes >/dev/null
frames forward6
sysctl -qw net.ipv6.conf.in0.disable_ipv6=1
frames forward6
