# `ct` belongs to the edges of a device: other qdiscs' filters cannot have it.
ip link add d0 type dummy
tc qdisc add dev d0 root handle 1: prio
tc filter add dev d0 parent 1: pref 1 protocol ip matchall action ct
tc filter add dev d0 parent 1: pref 1 protocol ip matchall action ct clear
tc filter add dev d0 parent 1: pref 1 protocol ip matchall action pass action ct commit
tc actions add action ct commit index 5
tc filter add dev d0 parent 1: pref 1 protocol ip matchall action ct index 5
tc filter add dev d0 parent 1: pref 1 protocol ip matchall action connmark
tc qdisc add dev d0 clsact
tc filter add dev d0 egress pref 1 protocol ip matchall action ct index 5
tc filter add dev d0 ingress pref 1 protocol ip matchall action ct commit index 6
tc qdisc del dev d0 clsact
tc qdisc add dev d0 egress_block 22 clsact
tc filter add block 22 pref 1 protocol ip matchall action ct index 5
tc filter show dev d0 parent 1:
tc filter show block 22 | sed 's/ zone 0//'
tc actions ls action ct | sed 's/ zone 0//'
# The limits of fragments.
sysctl net.ipv4.ipfrag_high_thresh net.ipv4.ipfrag_low_thresh net.ipv6.ip6frag_high_thresh net.ipv6.ip6frag_low_thresh
sysctl net.netfilter.nf_conntrack_frag6_high_thresh net.netfilter.nf_conntrack_frag6_low_thresh net.netfilter.nf_conntrack_frag6_timeout
sysctl -w net.ipv4.ipfrag_high_thresh=3145727
sysctl -w net.ipv4.ipfrag_low_thresh=4194305
sysctl -w net.ipv4.ipfrag_low_thresh=-1
sysctl -w net.ipv4.ipfrag_low_thresh=0
sysctl -w net.ipv4.ipfrag_high_thresh=0
sysctl -w net.ipv6.ip6frag_high_thresh=5000000000
sysctl -w net.netfilter.nf_conntrack_frag6_high_thresh=1
sysctl -w net.netfilter.nf_conntrack_frag6_timeout=7
sysctl -w net.netfilter.nf_conntrack_frag6_timeout=x
sysctl -w net.netfilter.nf_conntrack_frag6_timeout=30000000
sysctl net.ipv4.ipfrag_high_thresh net.ipv4.ipfrag_low_thresh net.ipv6.ip6frag_high_thresh net.netfilter.nf_conntrack_frag6_timeout
