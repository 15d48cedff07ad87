# SPDX-License-Identifier: Apache-2.0 OR MIT
# net.ipv4.conf.default.* written later changes the devices that have had no IPv4 address and whose own setting nobody
# has written. Its output on Linux 6.1 is default-conf.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
r() { echo "$1: $(for d in all default lo d0 d1 d2 d3; do cat /proc/sys/net/ipv4/conf/$d/$1 | tr '\n' ' '; done)"; }
set_() { echo "+ $1.$2 = $3"; echo $3 >/proc/sys/net/ipv4/conf/$1/$2; }
for d in d0 d1 d2 d3; do ip link add $d type dummy; done
ip link set lo up
# d1 has an address, d2 had one, d3 has an IPv6 address alone.
ip addr add 10.0.1.1/24 dev d1
ip addr add 10.0.2.1/24 dev d2
ip addr del 10.0.2.1/24 dev d2
sysctl -qw net.ipv6.conf.d3.disable_ipv6=0
ip addr add 2001:db8::1/64 dev d3
names="accept_local accept_redirects accept_source_route arp_accept arp_announce arp_evict_nocarrier arp_filter arp_ignore
arp_notify bc_forwarding disable_policy disable_xfrm drop_gratuitous_arp drop_unicast_in_l2_multicast force_igmp_version
forwarding igmpv2_unsolicited_report_interval igmpv3_unsolicited_report_interval ignore_routes_with_linkdown log_martians
medium_id promote_secondaries proxy_arp proxy_arp_pvlan route_localnet rp_filter secure_redirects
send_redirects shared_media src_valid_mark tag"
echo "+ default"
for n in $names; do
    before=$(cat /proc/sys/net/ipv4/conf/default/$n)
    case $before in 0) new=1 ;; 1) new=0 ;; *) new=77 ;; esac
    echo $new >/proc/sys/net/ipv4/conf/default/$n
    r $n
done
echo "+ a device made now"
ip link add d4 type dummy
for n in $names; do cat /proc/sys/net/ipv4/conf/d4/$n; done | tr '\n' ' '
echo
# One that was written, if with the same value.
set_ d0 rp_filter 1
set_ d0 arp_ignore $(cat /proc/sys/net/ipv4/conf/d0/arp_ignore)
set_ default rp_filter 2
set_ default arp_ignore 3
set_ default arp_announce 2
for n in rp_filter arp_ignore arp_announce; do r $n; done
# A value for all changes no device.
set_ all arp_announce 1
set_ all arp_filter 1
for n in arp_announce arp_filter; do r $n; done
# A request for an address that fails.
c ip addr add 10.0.9.1/33 dev d0
set_ default log_martians 0
r log_martians
c ip addr del 10.0.9.1/24 dev d0
set_ default log_martians 1
r log_martians
c ip addr add 224.0.0.1/24 dev d0 autojoin
set_ default log_martians 0
r log_martians
# In another namespace a device begins again.
ip netns add default-conf
ip link set d1 netns default-conf
ip netns exec default-conf sh -c 'echo 1 >/proc/sys/net/ipv4/conf/default/shared_media
cat /proc/sys/net/ipv4/conf/d1/shared_media
echo 0 >/proc/sys/net/ipv4/conf/default/shared_media
cat /proc/sys/net/ipv4/conf/d1/shared_media'
ip netns del default-conf
# Up and down, and a name.
ip link set d3 up
ip link set d3 down
ip link set d3 name d9
ip link set d9 name d3
ip link add d1 type dummy
set_ default tag 9
r tag
# What listeners hear.
file=$(mktemp)
ip monitor netconf >$file &
sleep 1
set_ default rp_filter 0
set_ default proxy_arp 0
set_ default forwarding 0
set_ d3 rp_filter 1
sleep 1
kill $!
wait
cat $file
rm $file
