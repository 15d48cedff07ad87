sysctl net.ipv4.ip_forward
sysctl -w net.ipv4.ip_forward=1
cat /proc/sys/net/ipv4/ip_forward
echo 0 >/proc/sys/net/ipv4/ip_forward
sysctl -n net.ipv4.ip_forward
sysctl -w net.ipv4.nosuch=1
sysctl net.nosuch
cat /proc/sys/net/ipv4/nosuch
echo 1 >/proc/sys/net/ipv4/nosuch
sysctl -w net.ipv4.ip_forward=abc
echo abc >/proc/sys/net/ipv4/ip_forward
echo 99999999999999999999 >/proc/sys/net/ipv4/ip_forward
sysctl net.ipv4.ip_forward
ip link add d0 type dummy
sysctl net.ipv4.conf.d0.rp_filter net.ipv4.conf.d0.forwarding net.ipv6.conf.d0.forwarding
sysctl -w net.ipv4.conf.all.forwarding=1
sysctl net.ipv4.conf.d0.forwarding net.ipv4.conf.default.forwarding net.ipv4.ip_forward
sysctl -w net.ipv4.conf.d0.rp_filter=2 net.ipv4.conf.d0.arp_ignore=1
sysctl net.ipv4.conf.d0.rp_filter net.ipv4.conf.d0.arp_ignore
sysctl -w net.ipv6.conf.all.forwarding=1
sysctl net.ipv6.conf.d0.forwarding
sysctl net.ipv4.ip_default_ttl
sysctl -w net.ipv4.ip_default_ttl=0
sysctl -w net.ipv4.ip_default_ttl=256
sysctl -w net.ipv4.ip_default_ttl=10
sysctl net.ipv4.ip_default_ttl
sysctl net.ipv4.icmp_ratelimit net.ipv4.icmp_ratemask net.ipv4.icmp_echo_ignore_all net.ipv4.icmp_echo_ignore_broadcasts
sysctl net.ipv4.neigh.d0.gc_stale_time net.ipv4.neigh.d0.base_reachable_time_ms net.ipv4.neigh.d0.retrans_time_ms net.ipv4.neigh.d0.ucast_solicit
sysctl -w net.ipv4.neigh.d0.base_reachable_time_ms=5000
sysctl net.ipv4.neigh.d0.base_reachable_time net.ipv4.neigh.d0.base_reachable_time_ms
sysctl net.ipv4.ip_local_port_range
sysctl -w net.ipv4.ip_local_port_range="2000 3000"
sysctl net.ipv4.ip_local_port_range
sysctl -w net.ipv4.ip_local_port_range="3000 2000"
sysctl net.ipv6.conf.all.disable_ipv6 net.ipv6.conf.d0.hop_limit net.ipv6.conf.d0.mtu net.ipv6.conf.d0.accept_ra net.ipv6.conf.d0.accept_dad
sysctl net.core.somaxconn
sysctl net.ipv4.conf.nosuch.rp_filter
ls /proc/sys/net | grep -v -e unix -e netfilter -e nf_conntrack -e vrf
ls /proc/sys/net/ipv4/conf
ls /proc/sys/net/ipv4/conf/d0
ls /proc/sys/net/ipv6/conf
ls /proc/sys/net/ipv4/neigh | grep -v default
sysctl -w net.ipv4.tcp_syncookies=abc
sysctl -w net.ipv4.tcp_rmem='1 2'
stat -c %A /proc/sys/net/ipv4/ip_forward
ip link set d0 name d1
sysctl net.ipv4.conf.d0.rp_filter
sysctl net.ipv4.conf.d1.rp_filter
ip link add d0.7 link d1 type vlan id 7
sysctl net.ipv4.conf.d0/7.rp_filter
cat /proc/sys/net/ipv4/conf/d0.7/rp_filter
ip netns add one
ip netns exec one sysctl net.ipv4.ip_default_ttl
ip netns exec one sysctl -w net.ipv4.ip_default_ttl=33
sysctl net.ipv4.ip_default_ttl
ip netns exec one sysctl net.ipv4.ip_default_ttl
sysctl -a 2>/dev/null | grep -c '^net.ipv4.conf.d1'
sysctl -q -w net.ipv4.ip_forward=0
printf 'net.ipv4.ip_forward = 1\nnet.ipv4.conf.all.rp_filter = 1\n' >$tmp/s; sysctl -p $tmp/s
test -w /proc/sys/net/ipv4/ip_forward && echo writable
test -e /proc/sys/net/ipv4/nosuch || echo none
dd if=/proc/sys/net/ipv4/ip_forward bs=1 count=1 2>/dev/null | od -c
printf 1 | dd of=/proc/sys/net/ipv4/conf/d1/log_martians 2>/dev/null; cat /proc/sys/net/ipv4/conf/d1/log_martians
ip link del d1
ls /proc/sys/net/ipv4/conf
