# tc-actions(8) and the manual pages of the actions, option by option.
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add d1 address 02:00:00:00:00:02 type dummy
timeless() { sed -e 's/ installed [0-9]* sec used [0-9]* sec//' -e 's/,"installed":[0-9]*,"last_used":[0-9]*//'; }
a() { tc actions add action "$@" && tc -s -d actions list action $1 | timeless && tc actions flush action $1; }
j() { tc actions add action "$@" && tc -s -d -j actions list action $1 | timeless && tc actions flush action $1; }
a gact drop
a gact pass random netrand drop 5 index 7
a gact pass random determ pipe 20000
a gact pass random bogus drop 5
a gact bogus
a gact goto chain
a gact jump
a gact goto chain 5
a gact jump 5 index 3
a gact drop cookie a1b2
a gact drop cookie a1b
a gact drop cookie 0123456789abcdef0123456789abcdef01
a gact drop index bogus
a gact drop hw_stats immediate
a gact drop hw_stats bogus
a gact drop skip_hw
a gact drop skip_sw
a gact drop no_percpu
a mirred egress mirror dev d1
a mirred egress redirect dev d1 pipe
a mirred ingress mirror index 5 dev d1
a mirred ingress redirect dev d1
a mirred egress redirect dev nosuch
a mirred egress redirect
a mirred egress bogus dev d1
a mirred egress mirror dev d1 drop
a mirred egress redirect dev d1 goto chain 5
j mirred egress mirror dev d1
a police rate 1mbit burst 10k
a police rate 1mbit burst 10k/8 mtu 2000 peakrate 2mbit avrate 500kbit overhead 14 linklayer atm
a police rate 1mbit burst 10k conform-exceed drop/pass
a police rate 1mbit burst 10k conform-exceed bogus
a police rate 1mbit burst 10k conform-exceed pipe/continue index 5
a police rate 1mbit burst 10k reclassify
a police pkts_rate 100 pkts_burst 20
a police pkts_rate 100
a police rate 1mbit burst 10k pkts_rate 100 pkts_burst 20
a police rate 1mbit
a police burst 10k
a police rate bogus burst 10k
a police mtu 1000
a police avrate 1mbit
a police rate 1mbit burst 10k peakrate 2mbit
j police rate 1mbit burst 10k conform-exceed drop
a vlan pop
a vlan push id 5
a vlan push id 5 protocol 802.1ad priority 3 pipe
a vlan push id 4096
a vlan push priority 3
a vlan push id 5 protocol ip
a vlan push id 5 priority 8
a vlan modify id 7 priority 2
a vlan modify
a vlan pop_eth
a vlan push_eth dst_mac 02:00:00:00:00:05 src_mac 02:00:00:00:00:06
a vlan push_eth
a vlan bogus
j vlan push id 5
a pedit munge ip ttl set 5
a pedit ex munge ip ttl add 255 munge ip dst set 1.2.3.4 munge tcp dport set 80
a pedit ex munge eth dst set 02:00:00:00:00:09 munge ip6 src set 2001:db8::1
a pedit munge offset 12 u32 set 5 retain 0xff
a pedit munge offset 0 u8 at 0 offmask 0x0f shift 2 clear
a pedit munge offset 13 u16 set 5
a pedit munge offset 1 u8 invert
a pedit munge offset 3 u8 preserve
a pedit munge ip bogus set 5
a pedit munge tcp dport set 80
a pedit munge offset 12 u32 set 5 index 9 continue
a pedit ex munge ip dscp set 5
a pedit ex munge ip tos set 0x10 retain 0xfc
a pedit
j pedit ex munge ip ttl set 5
a csum ip4h
a csum ip4h icmp igmp tcp udp udplite sctp pipe
a csum ip4h and tcp
a csum bogus
a csum
j csum ip4h udp
a skbedit priority 1:5
a skbedit mark 5/0xff queue_mapping 3 ptype host
a skbedit inheritdsfield
a skbedit ptype bogus
a skbedit ptype otherhost index 4 drop
a skbedit queue_mapping bogus
a skbedit queue_mapping skbhash 2 6
a skbedit
j skbedit mark 5
a skbmod set dmac 02:00:00:00:00:09
a skbmod set smac 02:00:00:00:00:09 set etype 0x800 pipe
a skbmod swap mac
a skbmod ecn
a skbmod set dmac bogus
a skbmod
j skbmod swap mac
a nat ingress 10.0.0.0/8 20.0.0.0
a nat egress 10.0.0.1/32 20.0.0.1 pipe
a nat ingress any 20.0.0.0
a nat bogus 10.0.0.0/8 20.0.0.0
a nat ingress 10.0.0.0/8 bogus
a nat ingress
j nat ingress 10.0.0.0/8 20.0.0.0
a mpls push label 5 tc 3 ttl 64 bos 1
a mpls push protocol mpls_mc label 5
a mpls push
a mpls push label 1048576
a mpls push label 5 protocol ip
a mpls pop protocol ip
a mpls pop
a mpls modify label 6 ttl 3
a mpls modify
a mpls dec_ttl
a mpls dec_ttl label 5
a mpls mac_push label 5
a mpls bogus
j mpls push label 5
a tunnel_key set src_ip 1.1.1.1 dst_ip 2.2.2.2 id 5
a tunnel_key set src_ip 1.1.1.1 dst_ip 2.2.2.2 id 5 dst_port 4789 tos 4 ttl 9 csum
a tunnel_key set src_ip 1.1.1.1 dst_ip 2.2.2.2 nocsum nofrag
a tunnel_key set src_ip 2001:db8::1 dst_ip 2001:db8::2 id 7
a tunnel_key set src_ip 1.1.1.1 dst_ip 2.2.2.2 id 5 geneve_opts 0102:80:00880022
a tunnel_key set src_ip 1.1.1.1 dst_ip 2.2.2.2 id 5 vxlan_opts 7
a tunnel_key set src_ip 1.1.1.1 dst_ip 2.2.2.2 id 5 erspan_opts 1:5:0:0
a tunnel_key set dst_ip 2.2.2.2
a tunnel_key set src_ip 1.1.1.1 dst_ip 2001:db8::2
a tunnel_key set src_ip bogus
a tunnel_key unset
a tunnel_key release
a tunnel_key bogus
j tunnel_key set src_ip 1.1.1.1 dst_ip 2.2.2.2 id 5
a sample rate 10 group 5
a sample rate 10 group 5 trunc 64 pipe
a sample rate 0 group 5
a sample rate 10
a sample group 5
a sample rate 10 group 5 bogus
j sample rate 10 group 5
a simple sdata hello
a simple sdata "hello world" index 5 drop
a simple
a simple sdata
j simple sdata hello
a ife encode use mark
a ife encode allow prio allow tcindex dst 02:00:00:00:00:09 src 02:00:00:00:00:08 type 0xfefe
a ife encode use mark 7 use prio 5
a ife decode
a ife decode reclassify
a ife encode use bogus
a ife encode type bogus
a ife bogus
j ife encode use mark 7
tc actions add action drop index 5 action pass index 6 action mirred egress mirror dev d1 index 7
tc -s actions list action gact | timeless
tc -o actions list action gact
tc -p -j actions get action gact index 5
tc actions get action gact index 5 action mirred index 7
tc actions get action gact index 5 action gact index 99
tc actions get action gact
tc actions get
tc actions del action gact index 5 action gact index 99
tc actions list action gact
tc actions change action gact pass index 5
tc actions change action police rate 1mbit burst 10k index 9
tc actions replace action police rate 1mbit burst 10k index 9
tc actions replace action police rate 2mbit burst 20k index 9
tc actions list action police
tc actions del action police index 9
tc actions del action police index 9
tc actions del action police
tc actions flush action police
tc actions flush action bogus
tc actions flush
tc actions list
tc actions list action bogus
tc actions ls action gact since 0
tc actions ls action gact since bogus
tc actions bogus
tc actions help
tc actions add
tc actions add action
tc actions add action gact
tc actions add action nosuch
tc actions add drop
ip link del d1
tc actions list action mirred
tc actions flush action mirred
tc actions flush action gact
