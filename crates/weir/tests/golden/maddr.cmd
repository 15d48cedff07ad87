# Multicast memberships of devices, and lo in `ip addr save`.
ip maddr show
ip link add d0 address 02:00:00:00:00:01 type dummy
ip maddr show dev d0
ip link set d0 up
ip maddr show dev d0
ip -4 maddr show
ip -6 maddr show
ip -j maddr show dev d0
ip -s maddr show dev d0
ip -o maddr show dev d0
ip -0 maddr show dev d0
ip -f link maddr show dev d0
ip addr add 10.0.0.1/24 dev d0
ip addr add 2001:db8::1/64 dev d0
ip maddr show dev d0
ip addr add 2001:db8:1::1/64 dev d0 nodad
ip addr add 2001:db8:2::2/64 dev d0 nodad
ip maddr show dev d0
ip addr del 2001:db8:1::1/64 dev d0
ip maddr show dev d0
ip addr del 2001:db8:2::2/64 dev d0
ip maddr show dev d0
ip maddr show dev nosuch
ip maddr bogus
ip link set lo up
ip maddr show dev lo
ip addr save >$tmp/save
ip addr showdump <$tmp/save
ip -4 addr save >$tmp/save4
ip addr showdump <$tmp/save4
ip addr flush dev lo
ip addr restore <$tmp/save4
ip addr show dev lo
ip addr save dev d0 >$tmp/save
ip addr showdump <$tmp/save
ip addr restore <$tmp/save
