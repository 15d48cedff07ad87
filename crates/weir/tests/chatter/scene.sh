# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The life of v0, whose frames are compared: it comes up, has joined and left groups with both
# versions of MLD and all of IGMP, and goes down. `pass SECONDS` lets time pass.
ip link set v0 up
pass 16
ip addr add 2001:db8::1:1/64 dev v0 nodad
pass 3
ip addr del 2001:db8::1:1/64 dev v0
pass 3
sysctl -q -w net.ipv6.conf.v0.forwarding=1
pass 3
sysctl -q -w net.ipv6.conf.v0.forwarding=0
pass 3
sysctl -q -w net.ipv6.conf.v0.force_mld_version=1
sysctl -q -w net.ipv6.conf.v0.mldv1_unsolicited_report_interval=1000
ip addr add 2001:db8::2:2/64 dev v0 nodad
pass 2
ip addr del 2001:db8::2:2/64 dev v0
pass 2
ip addr add 239.1.1.1/32 dev v0 autojoin
pass 3
ip addr add 10.0.0.1/24 dev v0
ip addr add 239.1.1.2/32 dev v0 autojoin
pass 3
ip addr add 224.0.0.99/32 dev v0 autojoin
pass 3
ip addr del 239.1.1.1/32 dev v0
pass 3
ip addr del 224.0.0.99/32 dev v0
pass 3
sysctl -q -w net.ipv4.igmp_link_local_mcast_reports=0
ip addr add 224.0.0.98/32 dev v0 autojoin
pass 2
sysctl -q -w net.ipv4.conf.v0.igmpv2_unsolicited_report_interval=1000
sysctl -q -w net.ipv4.conf.v0.force_igmp_version=2
ip addr add 239.1.1.3/32 dev v0 autojoin
pass 3
ip addr del 239.1.1.3/32 dev v0
pass 1
sysctl -q -w net.ipv4.conf.v0.force_igmp_version=1
ip addr add 239.1.1.4/32 dev v0 autojoin
pass 3
ip addr del 239.1.1.4/32 dev v0
pass 1
sysctl -q -w net.ipv4.conf.v0.force_igmp_version=0
sysctl -q -w net.ipv6.conf.v0.force_mld_version=0
ip link set v0 down
pass 1
ip link set v0 up
pass 6
