! ip link add d0 type veth peer name pd0
! ip link set d0 up
ip neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev d0
ip neigh add 192.0.2.10 lladdr 02:00:00:00:00:0a dev d0 nud reachable
ip neigh add 192.0.2.11 dev d0 nud none managed
ip neigh add 2001:db8::9 lladdr 02:00:00:00:00:19 dev d0 nud stale router
ip neigh change 192.0.2.9 lladdr 02:00:00:00:00:99 dev d0
ip neigh replace 192.0.2.12 lladdr 02:00:00:00:00:0c dev d0 nud permanent extern_learn
ip neigh add proxy 192.0.2.50 dev d0
ip neigh del 192.0.2.9 dev d0
ip neigh del proxy 192.0.2.50 dev d0
ip neigh show
ip neigh show dev d0 nud permanent
ip -6 neigh show proxy
ip neigh get 192.0.2.10 dev d0
bridge fdb add 02:00:00:00:00:77 dev d0 dst 192.0.2.7 vni 5
ip netns list-id
ip netns list-id target-nsid 5
ip link set d0 netns /proc/self/ns/net
