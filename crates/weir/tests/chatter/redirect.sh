# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# v0's host is a router that tells senders of better first hops. FRAMES sends packets by v1.
sysctl -q -w net.ipv6.conf.v0.disable_ipv6=1
sysctl -q -w net.ipv4.ip_forward=1
sysctl -q -w net.ipv4.conf.all.rp_filter=0
sysctl -q -w net.ipv4.conf.v0.rp_filter=0
ip link set v0 up
ip addr add 10.0.0.1/24 dev v0
ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev v0
ip neigh add 10.0.0.3 lladdr 02:00:00:00:00:03 dev v0
ip neigh add 10.0.0.4 lladdr 02:00:00:00:00:04 dev v0
ip route add 10.9.0.0/16 via 10.0.0.2 dev v0
ip route add 10.8.0.0/16 via 10.0.0.4 dev v0
pass 1
# After 20.48 s without one, the time between redirects begins anew.
udp() { python3 "$FRAMES" udp v1 "$@"; pass 22; }
udp 10.0.0.3 10.9.0.1
udp 10.0.0.3 10.9.0.2
udp 10.0.0.3 10.9.0.3
# To a neighbour of the sender.
udp 10.0.0.4 10.0.0.3
# From another network, and from behind another router.
udp 10.8.0.1 10.9.0.1
udp 10.7.0.1 10.9.0.1
sysctl -q -w net.ipv4.conf.all.send_redirects=0
sysctl -q -w net.ipv4.conf.v0.send_redirects=0
udp 10.0.0.3 10.9.0.4
sysctl -q -w net.ipv4.conf.v0.send_redirects=1
sysctl -q -w net.ipv4.conf.all.shared_media=0
sysctl -q -w net.ipv4.conf.v0.shared_media=0
udp 10.0.0.3 10.9.0.5
ip addr add 10.1.0.1/24 dev v0
ip neigh add 10.1.0.2 lladdr 02:00:00:00:00:12 dev v0
udp 10.1.0.2 10.9.0.5
sysctl -q -w net.ipv4.conf.v0.shared_media=1
udp 10.1.0.2 10.9.0.5
