# ip-netns(8), option by option, and links that move.
ip netns help
ip netns bogus
ip netns list
ip netns add
ip netns add n1 extra
ip netns add n2
ip netns add n3
ip netns show | sort
ip -j netns list | tr , '\n' | sort | head -1
ip netns list-id
ip netns set n2
ip netns set n2 bogus
ip netns set nosuch 5
ip netns set n2 -1
ip netns set n2 100
ip netns set n2 101
ip netns set n3 100
ip netns set n3 auto
ip netns list-id
ip -j netns list-id
ip netns list-id nsid 100
ip netns list-id nsid 7
ip netns list-id nsid bogus
ip netns list-id target-nsid 100
ip netns list-id target-nsid 9
ip netns list-id bogus
ip netns list | sort
ip -n n2 netns set n3 7
ip -n n2 netns list-id
ip netns list-id target-nsid 100
ip netns list-id target-nsid 100 nsid 7
ip netns identify
ip netns identify 999999
ip netns identify bogus
ip netns pids
ip netns exec
ip netns exec n2
ip netns exec n2 false
ip netns exec n2 /nosuchprogram
ip netns exec nosuch true
ip -all netns exec true
ip netns attach
ip netns attach n4
ip netns attach n4 999999
ip netns attach n2 $$
ip netns delete
ip netns delete nosuch
ip link add a0 address 02:00:00:00:00:01 type dummy
ip link set a0 netns nosuch
ip link set a0 netns 999999
ip link set a0 netns n2
ip link show a0
ip -n n2 link show a0
ip -n n2 link set a0 netns n3 name b0
ip -n n3 link show b0
ip -n n2 link add c0 netns n3 address 02:00:00:00:00:02 type dummy
ip -n n3 link show c0
ip -n n2 netns list-id
ip link add d0 netns n2 address 02:00:00:00:00:03 type veth peer name d1 netns n3 address 02:00:00:00:00:04
ip -n n2 link show d0
ip -n n3 link show d1
ip -n n2 -d -j link show d0
ip -n n3 netns list-id
ip netns list-id
ip -n n2 link set d0 alias there address 02:00:00:00:00:05 netns n3
ip -n n3 link show type veth
ip -n n3 link set d0 netns n2 index 70
ip -n n2 link show d0
ip link add e0 link-netns n2 address 02:00:00:00:00:06 type dummy
ip link add e1 link-netnsid 100 address 02:00:00:00:00:07 type dummy
ip link add e2 link-netnsid 55 address 02:00:00:00:00:07 type dummy
ip link show type dummy
ip -n n2 link add p0 address 02:00:00:00:00:08 type dummy
ip link add link p0 link-netns n2 name p0.5 type vlan id 5
ip link add link p0 link-netnsid 100 name p0.6 type vlan id 6
ip -d link show type vlan
ip -n n2 link add link p0 name p0.7 netns n3 type vlan id 7
ip -n n3 -d link show type vlan
ip -n n3 link set p0.7 netns n2
ip -n n2 -d link show type vlan
ip link show netns n2
ip -n n2 link del p0
ip -n n3 addr show lo
ip -n n3 -br link
ip -n n2 link property add dev d0 altname dd
ip -n n3 link property add dev d1 altname dd
ip -n n2 link set d0 netns n3
ip -n n2 link show d0
ip netns delete n2
ip netns list | sort
ip -n n3 -br link
ip netns list-id
ip netns add n2
ip netns set n2 auto
ip netns list-id
ip netns delete n3
ip link show
ip -all netns delete
ip netns list
