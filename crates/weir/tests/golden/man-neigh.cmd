# ip-neighbour(8), ip-ntable(8), ip-netconf(8), ip-addrlabel(8), ip-token(8), option by option.
sysctl -qw net.ipv6.conf.all.disable_ipv6=1
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link add d0 address 02:00:00:00:00:03 type dummy
ip link set v0 up
ip link set v1 up
ip link set d0 up
pass 1
sysctl -qw net.ipv6.conf.all.disable_ipv6=0
ip addr add 10.0.0.1/24 dev v0
ip addr add 10.0.1.1/24 dev d0
ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:12 nud permanent dev v0
ip neigh add 10.0.0.3 lladdr 02:00:00:00:00:13 nud incomplete dev v0
ip neigh add 10.0.0.4 lladdr 02:00:00:00:00:14 nud delay dev v0
ip neigh add 10.0.0.5 lladdr 02:00:00:00:00:15 nud probe dev v0
ip neigh add 10.0.0.6 lladdr 02:00:00:00:00:16 nud failed dev v0
ip neigh add 10.0.0.7 lladdr null nud stale dev v0
ip neigh add 10.0.0.8 lladdr 02:00:00:00:00:18 nud 0x80 dev v0
ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:19 nud bogus dev v0
ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:19 nud 0x100 dev v0
ip neigh add 10.0.0.10 lladdr 02:00:00:00:00:1a extern_learn router protocol 9 nud stale dev v0
ip neigh add 10.0.0.11 use dev v0
ip neigh add 10.0.0.12 lladdr bogus dev v0
ip neigh add 10.0.0.12/24 lladdr 02:00:00:00:00:1c dev v0
ip neigh add 10.0.0.12 lladdr 02:00:00:00:00:1c:1d dev v0
ip neigh add 10.0.0.12 lladdr 01:00:5e:00:00:01 dev v0
ip neigh add 10.0.0.13 lladdr 00:00:00:00:00:00 dev v0
ip neigh add 10.0.0.14 lladdr 02:00:00:00:00:1e dev v0 state reachable
ip neigh add to 10.0.0.15 lladdr 02:00:00:00:00:1f dev v0
ip neigh add 10.0.0.16 lladdr 02:00:00:00:00:1f bogus dev v0
ip neigh add 224.0.0.9 lladdr 02:00:00:00:00:1f dev v0
ip neigh add 10.0.0.255 lladdr 02:00:00:00:00:1f dev v0
ip neigh add 10.0.0.1 lladdr 02:00:00:00:00:1f dev v0
ip neigh add bogus lladdr 02:00:00:00:00:1f dev v0
ip neigh add dev v0
ip neigh add lladdr 02:00:00:00:00:1f dev v0
ip neigh add 10.0.1.2 lladdr 02:00:00:00:00:22 dev d0
ip neigh add 2001:db8::1 lladdr 02:00:00:00:00:23 dev d0 nud noarp protocol kernel
ip neigh add ff02::9 lladdr 33:33:00:00:00:09 dev d0
pass 10
ip -4 neigh show dev v0 | sort
ip -s neigh show 10.0.0.10 dev v0
ip -j neigh show to 10.0.0.10
ip -o neigh show 10.0.0.2
ip -d neigh show 10.0.0.2
ip -br neigh show 10.0.0.2
ip -br -4 neigh show dev d0
ip -N neigh show 10.0.0.10
ip neigh show nud permanent dev v0 | sort
ip neigh show nud reachable | sort
ip neigh show nud failed | sort
ip neigh show nud incomplete | sort
ip neigh show nud none | sort
ip neigh show nud bogus | sort
ip neigh show unused | sort
ip neigh show proxy
ip neigh show proxy dev v0
ip neigh show nomaster | sort
ip neigh show master nosuch
ip neigh show vrf nosuch
ip neigh show dev nosuch
ip neigh show 10.0.1.0/24
ip neigh show to root
ip neigh show protocol 9
ip neigh show protocol static
ip neigh show bogus
ip -6 neigh show dev d0
ip neigh get 10.0.1.2
ip neigh get dev d0
ip neigh get 10.0.1.2 dev nosuch
ip -s neigh get 10.0.1.2 dev d0
ip -j neigh get 10.0.1.2 dev d0
ip -6 neigh get 2001:db8::1 dev d0
ip neigh get 10.0.1.99 dev d0
ip neigh get proxy 10.0.1.99 dev d0
ip neigh change 10.0.1.2 lladdr 02:00:00:00:00:32 nud stale dev d0
ip neigh change 10.0.1.2 router dev d0
ip neigh change 10.0.1.2 nud noarp dev d0
ip neigh show dev d0
ip neigh change 10.0.1.3 dev d0 nud stale
ip neigh replace 10.0.1.3 dev d0 nud stale
ip neigh replace 10.0.1.3 lladdr 02:00:00:00:00:33 dev d0 nud stale
ip neigh append 10.0.1.3 lladdr 02:00:00:00:00:33 dev d0
ip neigh del 10.0.1.3 dev d0 nud stale
ip neigh del 10.0.1.3 lladdr 02:00:00:00:00:33
ip neigh del 10.0.1.3 dev nosuch
ip neigh del 10.0.1.99 dev d0
ip neigh del ff02::9 dev d0
ip neigh show dev d0
ip -s neigh flush dev v0 nud failed
ip neigh flush 10.0.0.2 nud permanent
ip neigh flush to 10.0.0.0/24 dev v0 nud all
ip neigh flush
ip neigh flush dev nosuch
ip -s -s neigh flush dev d0
ip neigh show dev d0
ip neigh show dev v0 | sort
ip neigh help
ip neigh bogus
ip ntable show name arp_cache dev v0
ip -s ntable show name arp_cache dev v0
ip -o ntable show name ndisc_cache dev d0
ip -j ntable show dev d0
ip -6 ntable show name ndisc_cache dev lo
ip -4 ntable show dev lo
ip ntable show name bogus
ip ntable show dev nosuch
ip ntable show bogus
ip ntable change name arp_cache dev v0 base_reachable 1000 gc_stale 2000 delay_probe 300 app_probes 3 mcast_probes 4 anycast_delay 200 proxy_delay 400 proxy_queue 7
ip ntable show name arp_cache dev v0 | grep -v reachable
ip ntable change name arp_cache
ip ntable change name arp_cache dev v0
ip ntable change name arp_cache dev v0 retrans bogus
ip ntable change name arp_cache dev v0 bogus 5
ip ntable change name arp_cache dev v0 queue 0
ip ntable change dev v0 queue 5
ip ntable add name arp_cache
ip ntable help
ip netconf show dev v0
ip -j netconf show dev v0
ip -j -p -4 netconf show dev d0
ip -6 netconf show dev d0
ip netconf show dev nosuch
ip netconf show bogus
ip netconf help
sysctl -qw net.ipv4.conf.v0.forwarding=1 net.ipv4.conf.v0.rp_filter=1 net.ipv4.conf.v0.proxy_arp=1 net.ipv4.conf.v0.bc_forwarding=1 net.ipv6.conf.v0.ignore_routes_with_linkdown=1 net.ipv4.conf.v0.ignore_routes_with_linkdown=1
ip netconf show dev v0
ip -d netconf show dev v0
ip -6 netconf
ip addrlabel list
ip -j addrlabel list
ip addrlabel add prefix 2001:db8::/32 label 50
ip addrlabel add prefix 2001:db8::/32 label 51
ip addrlabel add prefix 2001:db8::/32 label 51 dev d0
ip addrlabel add prefix 2001:db8::/32 label 51 dev nosuch
ip addrlabel add prefix 2001:db8::/129 label 51
ip addrlabel add prefix 2001:db8:1::/48 label 4294967295
ip addrlabel add prefix ::ffff:10.0.0.0/104 label 5
ip addrlabel add prefix 2001:db8::/32
ip addrlabel add label 5
ip addrlabel add prefix bogus label 5
ip addrlabel list
ip -o addrlabel list
ip addrlabel get 2001:db8::5
ip addrlabel del prefix 2001:db8::/32 label 50
ip addrlabel del prefix 2001:db8::/32 dev d0
ip addrlabel del prefix 2001:db8::/33
ip addrlabel list
ip addrlabel flush
ip addrlabel list
ip addrlabel help
ip token
ip token list dev d0
ip token get dev d0
ip token set ::5 dev d0
ip token del dev d0
ip token get dev nosuch
ip token help
