ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link
ip -d link show v0
ip link set v0 up
ip link show v0
ip link show v1
ip link set v1 up
pass 1
ip link
ip link set v0 down
pass 1
ip link
ip link set v0 mtu 9000
ip link show v1
ip link set v0 mtu 65536
ip link add v0 type veth peer name v9
ip link add v8 type veth peer name v1
ip link show v8
ip link add v2 address 02:00:00:00:00:03 mtu 1400 type veth peer name v3 address 02:00:00:00:00:04 mtu 1300 txqueuelen 3
ip link show v2
ip link show v3
ip link del v1
ip link show v0
ip -br link
ip netns add other
ip netns add third
ip link add v4 address 02:00:00:00:00:05 type veth peer name v5 address 02:00:00:00:00:06 netns other
ip link show v4
ip -n other link
ip -n other -d link show v5
ip link set v4 netns third
ip -n third link
ip -n other link
ip -n other link set v5 netns third
ip -n third link
ip -n other link add v4 type dummy
ip -n third link set v4 netns other
ip -n third link set v4 netns other name v44
ip -n other -br link | sed 's/[0-9a-f:]\{17\}//'
ip netns del third
ip -n other -br link | sed 's/[0-9a-f:]\{17\}//'
ip link add v6 index 50 address 02:00:00:00:00:07 type veth peer name v7 index 60 address 02:00:00:00:00:08
ip -br link
ip link add v8 index 70 type veth peer name v9 index 70
ip -br link
ip link add va type veth peer netns nosuch
ip link set v6 netns nosuch
ip link set lo netns other
ip link del v6 type veth
ip link del v6
# A peer that the request does not describe.
ip link add w0 mtu 1400 txqueuelen 7 address 02:00:00:00:00:0e broadcast 02:00:00:00:00:0f type veth
ip link show w0 | head -1
ip link show veth0 | head -1
ip link show veth0 | sed -n 's/.*brd/brd/p'
ip link del w0
