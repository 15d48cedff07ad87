# Resilient groups: buckets, timers, migration.
nh() { ip nexthop "$@" | sed -E 's/(unbalanced_time|idle_time) [0-9.]+/\1 N/g; s/"(unbalanced_time|idle_time)":[0-9.]+/"\1":N/g'; }
ip link set lo up
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link add w0 address 02:00:00:00:00:11 type veth peer name w1 address 02:00:00:00:00:12
ip link set v0 up; ip link set v1 up; ip link set w0 up; ip link set w1 up
[ -n "${WEIR-}" ] || sleep 0.5
ip addr add 10.0.0.1/24 dev v0; ip addr add 10.9.0.1/24 dev w0
ip nexthop add id 1 via 10.0.0.2 dev v0
ip nexthop add id 2 via 10.9.0.2 dev w0
ip nexthop add id 3 via 10.9.0.3 dev w0
ip nexthop add id 4 blackhole
ip nexthop add id 9 group 1/2
ip nexthop bucket list
ip nexthop add id 10 group 1/2 type resilient
ip nexthop add id 10 group 1/2 type resilient buckets 0
ip nexthop add id 10 group 1/4 type resilient buckets 4
ip nexthop add id 10 group 1/99 type resilient buckets 4
ip nexthop add id 10 group 1/2 type mpath buckets 4
ip nexthop add id 10 group 1/2 type strange
ip nexthop add id 10 group 1/2 type resilient buckets 8
ip nexthop add id 11 group 1,3/2 type resilient buckets 8 idle_timer 5 unbalanced_timer 50
ip nexthop add id 12 group 1/2/3 type resilient buckets 7 idle_timer 0
ip nexthop add id 13 group 10 type resilient buckets 8
ip nexthop add id 13 group 10
ip nexthop add id 14 group 4 type resilient buckets 2
nh list
ip -d nexthop get id 11 | sed -E 's/unbalanced_time [0-9.]+/unbalanced_time N/'
ip -j nexthop get id 11 | sed -E 's/"unbalanced_time":[0-9.]+/"unbalanced_time":N/'
nh bucket list
nh bucket list id 10
nh bucket list id 12 nhid 3
nh bucket list dev v0
nh bucket list dev w0
nh bucket list id 9
nh bucket list id 1
nh bucket list id 99
nh bucket get id 10 index 3
nh bucket get id 10 index 8
nh bucket get id 9 index 0
nh bucket get id 10
nh bucket get id 99 index 0
ip -j nexthop bucket get id 10 index 1 | sed -E 's/"idle_time":[0-9.]+/"idle_time":N/'
# Replacing.
ip nexthop replace id 10 group 1/2 type resilient buckets 9
ip nexthop replace id 10 group 1/2
ip nexthop replace id 9 group 1/2 type resilient buckets 8
ip nexthop replace id 10 group 1/2 type resilient buckets 8 idle_timer 7
ip nexthop replace id 10 group 1,3/2 type resilient idle_timer 3 unbalanced_timer 9
nh get id 10
nh bucket list id 10
pass 4
nh bucket list id 10
nh get id 10
ip nexthop replace id 10 group 2/3 type resilient
nh bucket list id 10
pass 9
nh bucket list id 10
ip nexthop replace id 12 group 3 type resilient
nh bucket list id 12
ip nexthop del id 3
nh list
nh bucket list
ip link set v1 down
[ -n "${WEIR-}" ] || sleep 0.5
nh list
nh bucket list
ip nexthop flush
nh list
