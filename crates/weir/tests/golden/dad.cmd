# Duplicate address detection, disabled and enabled.
# `settle` waits for Linux's workqueue.
settle() { [ -n "${WEIR-}" ] || sleep 0.3; }
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
sysctl net.ipv6.conf.all.accept_dad net.ipv6.conf.default.accept_dad net.ipv6.conf.v0.accept_dad
sysctl -w net.ipv6.conf.v0.accept_dad=0
ip link set v1 up
ip link set v0 up
settle
ip -6 addr show dev v0
ip addr add fd00::1/64 dev v0
settle
ip -6 addr show dev v0
ip -6 route show table all dev v0
ip addr add fd00::2/64 dev v1
ip -6 addr show dev v1 | grep fd00::2
sysctl -w net.ipv6.conf.v1.accept_dad=0
ip -6 addr show dev v1 | grep fd00::2
ip addr add fd00::3/64 dev v1
settle
ip -6 addr show dev v1 | grep fd00::3
pass 4
ip -6 addr show dev v1
ip link set v0 down
ip addr add fd00::9/64 dev v0
settle
ip -6 addr show dev v0
ip link set v0 up
settle
ip -6 addr show dev v0
ip link set v0 down
ip link set v1 down
ip link set v0 up
settle
ip addr add fd00::7/64 dev v0
settle
ip -6 addr show dev v0
ip link set v1 up
settle
ip -6 addr show dev v0
sysctl -w net.ipv6.conf.v1.accept_dad=1
sysctl -w net.ipv6.conf.all.accept_dad=1
sysctl -w net.ipv6.conf.v0.accept_dad=0
ip addr add fd00::77/64 dev v0
ip -6 addr show dev v0 | grep fd00::77
sysctl -w net.ipv6.conf.v0.dad_transmits=0
pass 4
ip addr add fd00::78/64 dev v0
pass 4
ip -6 addr show dev v0
# The initial settings of devices.
ip link add d0 type dummy
ip link set lo up
sysctl -a 2>/dev/null | grep -e '^net.ipv4.conf' -e '^net.ipv6.conf.*dad' -e tempaddr | grep -v optimistic | sort
sysctl net.ipv4.tcp_plb_enabled net.ipv6.conf.all.force_forwarding
