# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# v0's host answers for others: proxy entries of ARP and neighbour discovery, and private VLANs.
sysctl -q -w net.ipv4.ip_forward=1
sysctl -q -w net.ipv4.neigh.v0.proxy_delay=0
sysctl -q -w net.ipv6.neigh.v0.proxy_delay=0
sysctl -q -w net.ipv6.conf.v0.accept_ra=0
ip link add x0 address 02:00:00:00:00:20 type veth peer name x1
ip link set x0 addrgenmode none
ip link set x1 addrgenmode none
ip link set x1 up
ip link set x0 up
ip link set v0 up
ip addr add 10.0.0.1/24 dev v0
ip addr add 10.5.0.1/24 dev x0
pass 4
arp() { python3 "$FRAMES" arp v1 1 020000000009 10.0.0.9 000000000000 "$@"; pass 1; }
# A proxy entry of the device, of any device, and of another one.
arp 10.5.0.7
ip neigh add proxy 10.5.0.7 dev v0
arp 10.5.0.7
arp 10.5.0.8
ip neigh add proxy 10.5.0.8
arp 10.5.0.8
ip neigh add proxy 10.5.0.9 dev x0
arp 10.5.0.9
# An address on the link itself is none.
ip neigh add proxy 10.0.0.77 dev v0
arp 10.0.0.77
ip neigh del proxy 10.5.0.7 dev v0
arp 10.5.0.7
# Private VLANs.
sysctl -q -w net.ipv4.conf.v0.proxy_arp_pvlan=1
arp 10.0.0.78
arp 10.0.0.9
sysctl -q -w net.ipv4.conf.v0.proxy_arp_pvlan=0
sysctl -q -w net.ipv4.conf.all.proxy_arp_pvlan=1
arp 10.0.0.79
# Neighbour discovery.
ns() { python3 "$FRAMES" ns v1 "$@"; pass 1; }
ip addr add fd00::1/64 dev v0 nodad
ip neigh add proxy fd00::77 dev v0
ns fe80::9 ff02::1:ff00:77 fd00::77
sysctl -q -w net.ipv6.conf.v0.proxy_ndp=1
ns fe80::9 ff02::1:ff00:77 fd00::77
sysctl -q -w net.ipv6.conf.v0.forwarding=1
ns fe80::9 ff02::1:ff00:77 fd00::77
ns fe80::9 fd00::1 fd00::77
ns :: ff02::1:ff00:77 fd00::77
ns fe80::9 ff02::1:ff00:78 fd00::78
! ip neigh add proxy fd00::78
ns fe80::9 ff02::1:ff00:78 fd00::78
ip neigh add proxy fd00::79 dev v0 router
ns fe80::9 ff02::1:ff00:79 fd00::79
ip neigh del proxy fd00::77 dev v0
ns fe80::9 ff02::1:ff00:77 fd00::77
