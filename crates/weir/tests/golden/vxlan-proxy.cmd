# Requests by a bridge's host for neighbours of a vxlan device: answers, and reports of neighbours without an entry.
ip link add u0 address 02:00:00:00:00:10 type dummy; ip addr add 10.9.9.1/24 dev u0; ip link set u0 up
ip link add x0 address 02:00:00:00:00:01 type vxlan id 7 dstport 4789 local 10.9.9.1 proxy l3miss
ip -d link show x0 | grep vxlan
ip -d -j link show x0 | grep -o '"proxy":[a-z]*'
ip link set x0 type vxlan proxy
ip link set x0 type vxlan noproxy
ip link add x1 address 02:00:00:00:00:02 type vxlan id 0 dstport 4790 local 10.9.9.1 noproxy l3miss
ip -d link show x1 | grep vxlan
ip link add x2 address 02:00:00:00:00:03 type vxlan id 9 dstport 4791 local 10.9.9.1 proxy
for n in 0 1 2; do ip link add br$n address 02:00:00:00:01:0$n type bridge mcast_snooping 0; ip link set x$n master br$n; ip addr add 10.0.$n.1/24 dev br$n; ip addr add fd00:$n::1/64 dev br$n nodad; ip addr add fe80::1:$n/64 dev br$n nodad; done
sysctl -q net.ipv4.neigh.br0.mcast_solicit=1 net.ipv4.neigh.br1.mcast_solicit=1 net.ipv4.neigh.br2.mcast_solicit=1 net.ipv6.neigh.br0.mcast_solicit=1 net.ipv6.neigh.br1.mcast_solicit=1 net.ipv6.neigh.br2.mcast_solicit=1
for n in 0 1 2; do sysctl -q net.ipv6.conf.x$n.addr_gen_mode=1 net.ipv6.conf.br$n.addr_gen_mode=1; ip link set x$n up; ip link set br$n up; done; pass 2
ip neigh add 10.0.0.8 lladdr 02:00:00:00:08:08 dev x0; ip neigh add fd00:0::8 lladdr 02:00:00:00:08:08 dev x0
bridge fdb add 02:00:00:00:08:09 dev x0 dst 0.0.0.0
ip neigh add 10.0.0.9 lladdr 02:00:00:00:08:09 dev x0
ip monitor neigh >$tmp/neigh 2>&1 & monitor=$!; bridge monitor fdb >$tmp/fdb 2>&1 & fdb=$!; sleep 1
for n in 0 1 2; do ip neigh add 10.0.$n.7 lladdr 02:00:00:00:08:07 dev br$n nud probe; ip neigh add fd00:$n::7 lladdr 02:00:00:00:08:07 dev br$n nud probe; done; pass 1
for a in 10.0.0.8 10.0.0.9 fd00:0::8; do ip neigh add $a lladdr 02:00:00:00:08:06 dev br0 nud probe; done; pass 1
sleep 1; kill $monitor $fdb; wait $monitor $fdb
grep miss $tmp/neigh | sort | uniq
ip neigh show to 10.0.0.8; ip neigh show to fd00:0::8 
bridge fdb show br br0 | grep 08:0 | sort
