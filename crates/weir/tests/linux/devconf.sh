# SPDX-License-Identifier: Apache-2.0 OR MIT
# net.core.devconf_inherit_init_net: the settings with which a new namespace begins. It runs in the initial
# namespace, which record sees to. Its output on Linux 6.1 is devconf.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
files='
ipv4/conf/all/rp_filter ipv4/conf/default/rp_filter ipv4/conf/lo/rp_filter
ipv4/ip_forward ipv4/conf/default/forwarding ipv4/conf/lo/forwarding ipv4/conf/default/arp_ignore
ipv4/conf/all/bootp_relay ipv4/conf/default/bootp_relay
ipv4/conf/all/accept_source_route ipv4/conf/default/accept_source_route
ipv6/conf/all/hop_limit ipv6/conf/default/hop_limit ipv6/conf/lo/hop_limit
ipv6/conf/all/forwarding ipv6/conf/default/forwarding ipv6/conf/lo/forwarding
ipv6/conf/all/disable_ipv6 ipv6/conf/default/disable_ipv6 ipv6/conf/lo/disable_ipv6 ipv6/conf/default/autoconf
ipv6/conf/all/ndisc_notify ipv6/conf/default/ndisc_notify ipv6/conf/all/accept_dad ipv6/conf/default/accept_dad'
# Shows the files of a namespace.
show() {
    echo "+ show $1"
    ip netns exec "$1" sh -c 'cd /proc/sys/net; for file; do echo "$file $(cat $file)"; done' - $files
    ip netns exec "$1" cat /proc/sys/net/ipv6/conf/default/stable_secret
}
make() {
    c ip netns add "$1"
    show "$1"
}
mode() { c sysctl -w net.core.devconf_inherit_init_net="$1"; }
c sysctl net.core.devconf_inherit_init_net
mode 4
mode -1
mode x
mode 3
mode 0
c ip netns add before
make plain
for pair in ipv4.conf.all.rp_filter=2 ipv4.conf.default.rp_filter=1 ipv4.ip_forward=1 ipv4.conf.all.bootp_relay=1 \
    ipv4.conf.default.arp_ignore=1 ipv6.conf.all.hop_limit=33 ipv6.conf.default.hop_limit=44 ipv6.conf.all.forwarding=1 \
    ipv6.conf.all.disable_ipv6=1 ipv6.conf.default.autoconf=0 ipv6.conf.default.ndisc_notify=1 \
    ipv6.conf.default.stable_secret=::1; do
    c sysctl -w "net.$pair"
done
# It was made before, and is used for the first time.
show before
for mode in 0 1 2 3; do
    mode "$mode"
    make "mode$mode"
    # Another creator than the initial namespace.
    echo "+ from before"
    ip netns exec before unshare -n sh -c 'cd /proc/sys/net; for file; do echo "$file $(cat $file)"; done' - $files
done
c ip netns exec mode3 sysctl -w net.ipv4.conf.default.rp_filter=0 net.ipv6.conf.default.hop_limit=55
echo "+ from mode3"
ip netns exec mode3 unshare -n sh -c 'cd /proc/sys/net; for file; do echo "$file $(cat $file)"; done' - $files
# Devices of a new namespace take them from its default, and packets obey them.
mode 0
c ip netns add router
c ip -n router link add v0 type veth peer v1
c ip netns exec router sysctl net.ipv4.conf.v0.rp_filter net.ipv4.conf.v0.forwarding net.ipv6.conf.v0.hop_limit
c ip -n router -4 netconf show dev v0
c ip -n router -4 netconf show dev default
c ip netns exec router sysctl net.core.devconf_inherit_init_net
