# The packets that hosts send of themselves make neighbour entries of the groups they go to.
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link set d0 up
pass 2
ip neigh show nud all
ip neigh show nud noarp
ip -s neigh show nud noarp dev d0
ip -4 neigh show nud all
ip -j neigh show nud all dev d0
ip neigh show nud all dev lo
ip neigh get ff02::1 dev d0
ip neigh get ff02::2 dev d0
ip neigh del ff02::2 dev d0
ip neigh show nud all dev d0
ip link set d0 down
ip -6 neigh show nud all
ip link set d0 up
pass 2
ip -6 neigh show nud all dev d0
ip neigh flush nud noarp
ip -6 neigh show nud all dev d0
# A device without multicast has no all-routers group to report.
sysctl -w net.ipv6.conf.d0.forwarding=1
pass 2
ip -6 neigh show nud all dev d0 | sort
ip link add v0 address 02:00:00:00:00:10 type veth peer name v1 address 02:00:00:00:00:11
ip link set v0 up
ip link set v1 up
pass 3
ip -6 neigh show nud all dev v0 | sort
ip neigh show nud all dev v1 | sort
cat /proc/net/igmp6 | cut -c6-
# A router asks no routers.
ip link add w0 address 02:00:00:00:00:20 type veth peer name w1 address 02:00:00:00:00:21
sysctl -w net.ipv6.conf.w0.forwarding=1
sysctl -w net.ipv6.conf.w1.accept_ra=0
ip link set w0 up
ip link set w1 up
pass 3
ip neigh show nud all dev w0 | sort
ip neigh show nud all dev w1 | sort
ip link add x0 address 02:00:00:00:00:30 type veth peer name x1 address 02:00:00:00:00:31
sysctl -w net.ipv6.conf.x0.forwarding=1
sysctl -w net.ipv6.conf.x0.accept_ra=2
sysctl -w net.ipv6.conf.x1.router_solicitations=0
ip link set x0 up
ip link set x1 up
pass 3
ip neigh show nud all dev x0 | sort
ip neigh show nud all dev x1 | sort
# MLDv1 reports go to the groups themselves.
ip link add y0 address 02:00:00:00:00:40 type veth peer name y1 address 02:00:00:00:00:41
sysctl -w net.ipv6.conf.y0.force_mld_version=1
sysctl -w net.ipv6.conf.y0.mldv1_unsolicited_report_interval=500
ip link set y0 up
ip link set y1 up
ip addr add 2001:db8::1:1/64 dev y0 nodad
pass 3
ip neigh show nud all dev y0 | sort
cat /proc/net/igmp6 | grep y0 | cut -c6-
sysctl -w net.ipv6.conf.y0.forwarding=1
pass 1
ip neigh show nud all dev y0 | sort
cat /proc/net/igmp6 | grep y0 | cut -c6-
sysctl -w net.ipv6.conf.y0.forwarding=0
ip addr del 2001:db8::1:1/64 dev y0
pass 1
ip neigh show nud all dev y0 | sort
cat /proc/net/igmp6 | grep y0 | cut -c6-
sysctl -w net.ipv6.conf.y0.force_mld_version=3
sysctl -w net.ipv4.conf.y0.force_igmp_version=2
cat /proc/net/igmp
sysctl -w net.ipv4.conf.all.force_igmp_version=1
cat /proc/net/igmp
