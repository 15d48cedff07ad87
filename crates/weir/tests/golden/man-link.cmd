# ip-link(8), option by option, for the kinds that are served.
ip link add link nosuch name a0 type dummy
ip link add name a0 txqueuelen 50 address 02:00:00:00:01:01 broadcast ff:ff:ff:ff:ff:fe mtu 1600 index 40 numtxqueues 2 numrxqueues 2 gso_max_size 30000 gso_max_segs 30 type dummy
ip -d link show dev a0
ip link add dev a1 address 02:00:00:00:01:02 gro_max_size 20000 type dummy
ip -d link show a1
ip link add dev a2 address 02:00:00:00:01:03 gro_max_size 200000 type dummy
ip link add dev a2 address 02:00:00:00:01:03 gso_max_segs 70000 type dummy
ip link add dev a2 txqueuelen -1 type dummy
ip link add dev a2 mtu -5 type dummy
ip link add dev a2 index -5 type dummy
ip link add dev a2 group 12 address 02:00:00:00:01:03 type dummy
ip link show group 12
ip link add dev a2 up address 02:00:00:00:01:04 type dummy
ip link add dev a3 up address 02:00:00:00:01:04 type dummy
ip link show a3
ip link add dev a4 arp off multicast off promisc on allmulticast on address 02:00:00:00:01:05 type dummy
ip link show a4
ip link add dev a5 address 02:00:00:00:01:06 type dummy bogus 1
ip link add dev a5 type
ip link add dev a5
ip link add type veth help
ip link add
ip link set
ip link set a3
ip link set dev a3 down up
ip link show a3
ip link set a3 dynamic on
ip link show a3
ip link set a3 dynamic off
ip link set a3 trailers on
ip link show a3
ip link set a3 trailers off
ip link set a3 trailers maybe
ip link set a3 multicast on allmulticast on promisc on arp off
ip -d link show a3
ip link set a3 allmulticast off promisc off arp on
ip link set a3 gso_max_size 40000 gso_max_segs 7 gro_max_size 1000
ip -d -o link show a3
ip link set a3 gso_max_segs 0
ip link set a3 gso_max_size 0
ip link set a3 gro_max_size 0
ip -d -o link show a3
ip link set a3 protodown on
ip link set a3 protodown_reason 3 on
ip link set dev a3 vf 0 mac 02:00:00:00:00:99
ip link set dev a3 vf 0 vlan 5
ip link set dev a3 xdp off
ip link set dev a3 xdpgeneric off
ip link set dev a3 addrgenmode random
ip -d -o link show a3 | grep -o 'addrgenmode [a-z0-9]*'
ip link set dev a3 addrgenmode stable_secret
ip -d -o link show a3 | grep -o 'addrgenmode [a-z0-9]*'
ip link set dev a3 addrgenmode bogus
ip link set dev a3 link-netnsid 5
ip link set dev a3 vrf nosuch
ip link set dev a3 macaddr flush
ip link set dev a3 type dummy
ip link set dev a3 type veth
ip link set dev a3 type vlan id 4
ip link set dev a3 type nosuch
ip link set dev a3 operstate up
ip link set dev a3 state up
ip link show a3
ip link set dev a3 state lowerlayerdown
ip link set dev a3 state bogus
ip link show a3
ip link set dev a3 mode bogus
ip link set dev a3 alias "$(printf 'x%.0s' $(seq 255))"
ip link show a3 | grep -c xxxx
ip link set dev a3 alias "$(printf 'x%.0s' $(seq 256))"
ip link set dev a3 name a-name-too-long-for-it
ip link set dev a3 name ""
ip link set dev a3 txqueuelen 0
ip link show a3
ip link set dev a3 txqueuelen 4294967295
ip link set dev a3 index 7
ip link set dev a3 address 02:00:00:00:01:99 mtu 1234 txqueuelen 9 alias all group 3 down
ip link show a3
ip link set group 3 mtu 1300
ip link set group 3 address 02:00:00:00:00:01
ip link set group nosuch up
ip link show a3
ip link show up
ip link show type dummy
ip link show type vlan
ip link show nomaster
ip link show master nosuch
ip link show vrf nosuch
ip link show bogus
ip link show dev
ip -br link show type dummy
ip -br -j link show a3
ip -s -j link show a0
ip -s -s -j -p link show a0
ip -s -h link show a0
ip -s -h -iec link show a0
ip -o -s link show a0
ip -o -d link show a1
ip -t -o link show a1
ip -n nosuch link
ip -N link show a1
ip -0 link show a1
ip -f link link show a1
ip -f inet link show a1
ip -4 link show a1
ip -6 link show a1
ip -M link show a1
ip -c=never link show a1
ip -a link show a1
ip link xstats type dummy
ip link xstats type nosuch
ip link property add dev a1
ip link property add dev a1 altname a1
ip link property add dev a1 altname ""
ip link property add dev nosuch altname b
ip link property add dev a1 altname b altname b
ip link show a1
ip link property del dev a1 altname nosuch
ip link property del dev a1 altname b
ip link property
ip link help dummy
ip link del a1 type dummy
ip link del a3 type veth
ip link del
ip link delete dev a3
ip link bogus
ip link replace a0 mtu 1234
ip link show a0
ip link change nosuch mtu 1234
ip link add a0 type dummy
ip link add dev b0 address 02:00:00:00:01:10 type ifb
ip -d link show b0
ip link set b0 mtu 65535
ip link set b0 mtu 65536
ip link set b0 up
ip -d link show b0
ip link add b1 numtxqueues 4 address 02:00:00:00:01:11 type ifb
ip link set b1 address 01:00:00:00:00:00
ip link del b0 type ifb
