! ip link add d0 type veth peer name pd0
! ip link set d0 up
! ip link add d1 type veth peer name pd1
! tc qdisc add dev d0 clsact
tc actions add action drop index 5
tc actions add action pass random determ drop 10 index 6
tc actions add action gact reclassify random netrand pipe 5
tc actions add action gact goto chain 3 cookie c0ffee no_percpu
tc actions add action pass hw_stats disabled
tc actions add action mirred egress redirect dev d1 index 1
tc actions add action mirred ingress mirror dev d1 pipe
tc actions add action drop action pass action gact pipe
tc actions replace action pass index 5
tc actions change action continue index 5
tc actions add action skbedit priority 1:2 queue_mapping 3 mark 7/0xff ptype host
tc actions add action vlan push id 100 protocol 802.1ad priority 3
tc actions add action vlan pop pipe
tc actions add action vlan push_eth dst_mac 02:00:00:00:00:01 src_mac 02:00:00:00:00:02
tc actions add action tunnel_key set src_ip 192.0.2.1 dst_ip 192.0.2.2 id 42 dst_port 4789 ttl 64 tos 4 csum geneve_opts 0102:80:00112233
tc actions add action tunnel_key unset
tc actions add action pedit munge ip ttl set 5 munge offset 0 u8 set 0x10 retain 0xf0
tc actions add action pedit ex munge eth dst set 02:00:00:00:00:09 munge ip ttl dec munge tcp dport set 80
tc actions add action csum ip and tcp
tc actions add action police rate 1mbit burst 20k mtu 2000 conform-exceed drop/pipe
tc actions add action police pkts_rate 100 pkts_burst 10 index 3
tc actions add action nat egress 192.0.2.0/24 198.51.100.0
tc actions add action ct zone 5 commit mark 0x1/0xff nat src addr 192.0.2.1-192.0.2.9 port 1000-2000
tc actions add action ct clear
tc actions add action mpls push protocol mpls_uc label 100 tc 1 ttl 64 bos 1
tc actions add action sample rate 100 group 5 trunc 64
tc actions add action skbmod set dmac 02:00:00:00:00:07 swap mac
tc actions add action connmark zone 3
tc actions add action ctinfo dscp 0xfc000000 0x01000000 zone 2
tc actions add action simple sdata "hello"
tc actions add action ife encode allow mark dst 02:00:00:00:00:05
tc actions add action gate clockid CLOCK_TAI sched-entry open 200000000ns -1 8000000b
tc actions ls action gact
tc -s actions list action mirred
tc -br actions list action gact
tc actions list action gact since 5000
tc actions get action gact index 5
tc actions del action gact index 5
tc actions del action gact index 5 action mirred index 1
tc actions flush action gact
tc filter add dev d0 ingress protocol ip flower src_ip 10.0.0.0/8 ip_proto udp action tunnel_key set src_ip 192.0.2.1 dst_ip 192.0.2.2 id 42 dst_port 4789 action mirred egress redirect dev d1 action drop
