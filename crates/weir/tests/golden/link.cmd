ip link
ip -d link show lo
ip link add d0 type dummy
ip link set d0 address 02:00:00:00:00:01
ip link show d0
ip -d link show d0
ip -br link
ip -o link show d0
ip -s link show d0
ip -s -s link show d0
ip -j link show d0
ip -j -d -p link show d0
ip link set d0 up
ip link show d0
ip link set d0 down
ip link show d0
ip link set d0 mtu 1400
ip link set d0 txqueuelen 77
ip link set d0 alias first
ip link set d0 group 7
ip link show d0
ip link show group 7
ip link show group 8
ip link set group 7 up
ip link show group 7
ip link set d0 group default
ip link set d0 alias ""
ip link set d0 promisc on
ip link show d0
ip -d link show d0
ip link set d0 promisc off
ip link set d0 allmulticast on
ip link show d0
ip link set d0 allmulticast off
ip link set d0 multicast on
ip link set d0 multicast off
ip link set d0 arp off
ip link show d0
ip link set d0 arp on
ip link show d0
ip link set d0 mtu 10
ip link set d0 mtu 67
ip link set d0 mtu 68
ip link set d0 mtu 0
ip link show d0
ip link set d0 address 01:00:00:00:00:01
ip link set d0 address 00:00:00:00:00:00
ip link set d0 address 02:00:00
ip link set d0 address 02:00:00:00:00:02 broadcast ff:ff:ff:ff:ff:fe
ip link show d0
ip link set d0 down
ip link set d0 name d1
ip link show d0
ip link show d1
ip link set d1 up
ip link set d1 name d2
ip link show d2
ip link show d1
ip link set d1 down
ip link set d1 name lo
ip link set d1 name a/b
ip link set d1 name .
ip link set lo name loop
ip link set loop name lo
ip link set lo up
ip link show lo
ip link set lo mtu 1500
ip link show lo
ip link set lo address 00:00:00:00:00:01
ip link set lo down
ip link del lo
ip link add lo type dummy
ip link add d1 type dummy
ip link add d%d type dummy
ip link show d0 | sed 's/ether [0-9a-f:]*/ether X/'
ip link add type dummy
ip -br link show type dummy | sed 's/[0-9a-f:]\{17\}//'
ip link show type ifb
ip link show up
ip link del d1
ip link del d1
ip link show d1
ip link set nosuch up
ip link show nosuch
ip link add x0 type nosuchkind
ip link add x0 address 02:00:00:00:00:09 mtu 2000 txqueuelen 5 type dummy
ip link show x0
ip link add x1 address 03:00:00:00:00:09 type dummy
ip link add x1 mtu 20 type dummy
ip link add x2 numtxqueues 4 numrxqueues 3 type dummy
ip link add x3 numtxqueues 100000 type dummy
ip link add averyverylongname type dummy
ip link set x0 nomaster
ip link set x0 master nosuch
ip link set x0 carrier off
ip link set x0 up
ip link set x0 carrier off
ip link show x0
ip link set x0 carrier on
ip link show x0
ip link set x0 mode dormant
ip link show x0
ip link set x0 state dormant
ip link show x0
ip link set x0 mode default
ip link set x0 protodown on
ip link set x0 addrgenmode none
ip -d link show x0
ip link set x0 addrgenmode eui64
ip link set x0 gso_max_size 5000
ip link set x0 gso_max_segs 100
ip -d link show x0
ip link set x0 gso_max_size 5000000
ip link change x0 mtu 1300
ip link replace x0 mtu 1301 type dummy
ip link show x0
ip link replace x9 address 02:00:00:00:00:19 mtu 1301 type dummy
ip link show x9
ip link del group 0
ip link del group 9
ip link set x9 group 9
ip link del group 9
ip link show x9
# The loopback device has an Ethernet address too.
ip link set lo address 00:00:00:00:00:00
ip link set lo address ff:ff:ff:ff:ff:ff
ip link set lo address 01:00:5e:00:00:01
