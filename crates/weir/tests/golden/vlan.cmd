ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add link d0 name d0.5 type vlan id 5
ip link show d0.5
ip -d link show d0.5
ip -j -d -p link show d0.5
ip link add link d0 d0.5 type vlan id 6
ip link add link d0 d0.05 type vlan id 5
ip link add link d0 name ad5 type vlan protocol 802.1ad id 5
ip -d link show ad5
ip link add link d0 name none type vlan
ip link add link d0 name big type vlan id 4095
ip link add link d0 name big type vlan id 4096
ip link add link d0 name zero type vlan id 0
ip -d link show zero
ip link add link nosuch name big type vlan id 6
ip link add name big type vlan id 6
ip link set d0.5 up
ip link set d0 up
ip link set d0.5 up
pass 1
ip link show d0
ip link show d0.5
ip link set d0 down
pass 1
ip link show d0
ip link show d0.5
ip link set d0.5 type vlan ingress-qos-map 1:2 3:4
ip link set d0.5 type vlan egress-qos-map 2:1
ip -d link show d0.5
ip link set d0.5 type vlan id 7
ip link set d0.5 type vlan reorder_hdr off
ip -d link show d0.5
ip link set d0.5 type vlan loose_binding on
ip -d link show d0.5
ip link add link d0.5 name q type vlan id 9
ip -d link show q
ip link set d0.5 mtu 1501
ip link set d0.5 mtu 1400
ip link set d0 mtu 1300
ip link show d0.5
ip link set d0 address 02:00:00:00:00:07
ip link show d0.5
ip link show ad5
ip netns add other
ip link set d0.5 netns other
ip -n other -d link show d0.5
ip link
ip link del d0
ip link
ip -n other link
