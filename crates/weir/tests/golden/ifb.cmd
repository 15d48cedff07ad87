ip link add ifb7 address 02:00:00:00:00:01 type ifb
ip -d link show ifb7
ip link set ifb7 mtu 100
ip link set ifb7 mtu 70000
ip link del ifb7
ip link
