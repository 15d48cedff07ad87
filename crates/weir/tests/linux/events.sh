# SPDX-License-Identifier: Apache-2.0 OR MIT
# The notifications of links, settings and namespace ids, and their order; ids of namespaces; the
# type of service of a looked-up route; neighbours removed by a new broadcast address; defaults of
# settings. Its output on Linux 6.1 is events.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
heard=$(mktemp)
# Reads commands from standard input, then prints the notifications they caused. `ip monitor` looks
# up the names of some links when it prints; a `sleep` gives it time before they go.
hear() {
    ip monitor netconf nsid link >"$heard" 2>&1 &
    sleep 0.3
    while read -r line; do
        echo "+ $line"
        eval "$line"
    done
    sleep 0.2
    kill $!
    # Keeps the shell from reporting the end.
    wait $! 2>/dev/null
    cat "$heard"
}
ip netns add a
ip netns add b
ip link add v0 address 02:00:00:00:00:10 type veth peer name v1 address 02:00:00:00:00:11
for dev in v0 v1; do
    ip link set $dev addrgenmode none
    ip link set $dev up
done
ip link add link v0 name v0.5 type vlan id 5
sleep 1.2
hear <<'EOT'
ip link add d0 address 02:00:00:00:00:01 type dummy
sleep 0.2
ip link set d0 netns a
ip link add d2 netns b address 02:00:00:00:00:02 type dummy
ip link add x0 address 02:00:00:00:00:03 type veth peer name x1 netns b
sysctl -qw net.ipv4.conf.v0.forwarding=1
sysctl -qw net.ipv6.conf.v0.forwarding=1
ip link set v0.5 mtu 60
ip link set v0 mtu 1000
ip link set v0 mtu 1500
ip link set v0.5 mtu 1500
ip link set v0 mtu 1400 txqlen 50 address 02:00:00:00:00:20 alias abc group 7
sleep 0.2
ip link del x0
ip link del v0
EOT
ip link add d3 address 02:00:00:00:00:04 type dummy
hear <<'EOT'
ip link set d3 name d4 mtu 1300 address 02:00:00:00:00:05
ip link set d4 netns b name d5
EOT
c ip netns list-id
c ip netns set a 5
c ip netns set b 6
c ip -n a netns list-id
c ip -n b netns list-id
c ip -n b -br link
ip link add v0 type veth peer name v1
ip link set v0 addrgenmode none
ip link set v1 addrgenmode none
ip link set v0 up
ip link set v1 up
ip addr add 10.0.0.1/24 dev v0
c ip route get 10.0.0.7 tos 0x10
c ip route add 10.9.0.0/16 tos 0x10 via 10.0.0.9
c ip route get 10.9.0.7 tos 0x10
c ip route get 10.9.0.7 tos 0x10 fibmatch
c ip route get 10.9.0.7
ip neigh add 10.7.0.255 dev v0 nud incomplete
ip neigh add 10.7.0.3 dev v0 nud failed
ip neigh add 10.7.0.4 dev v0 nud failed
ip neigh add 10.8.0.255 lladdr 02:00:00:00:00:06 dev v0 nud permanent
c ip addr add 10.7.0.1/24 brd 10.7.0.3 dev v0
c ip addr add 10.8.0.1/24 brd + dev v0
ip -4 neigh show nud all dev v0 | sort
# A rule compares the six bits of the traffic class that are not used for congestion.
ip addr add 2001:db8::1/64 dev v0 nodad
c ip -6 rule add tos 0x10 prohibit
for tos in 0 0x10 0x11 0x12 0x13 0x14; do
    c ip -6 route get 2001:db8::2 tos $tos 2>&1 | sed 's/ pref medium.*//; s/ metric 256//'
done
for name in core.somaxconn ipv4.ip_default_ttl ipv4.tcp_limit_output_bytes ipv6.route.gc_thresh \
    ipv4.ip_local_port_range; do
    c sysctl net.$name
done
rm -f "$heard"
ip netns del a
ip netns del b
