# Reports of unicast addresses without an entry. A neighbour that is probed gets three frames, one each second.
ip link add d0 type dummy; ip link add x0 type vxlan id 1 dstport 4789 nolearning local 10.9.9.1; ip link del x0
ip link add x0 address 02:00:00:00:00:01 type vxlan id 7 dstport 4789 nolearning local 10.9.9.1 l2miss l3miss
ip -d link show x0 | grep vxlan
ip link set x0 type vxlan l2miss
ip link set x0 type vxlan nol3miss
ip link add x1 address 02:00:00:00:00:02 type vxlan id 0 dstport 4790 nolearning local 10.9.9.1 l2miss nol3miss
ip -d link show x1 | grep vxlan
ip link add x2 address 02:00:00:00:00:03 type vxlan id 9 dstport 4791 nolearning local 10.9.9.1 l3miss
ip -d -j link show x2 | grep -o '"[a-z0-9]*miss":[a-z]*'
for n in 0 1 2; do ip addr add 10.0.$n.1/24 dev x$n; ip link set x$n up; done
sysctl -q net.ipv4.neigh.x0.ucast_solicit=1 net.ipv4.neigh.x1.ucast_solicit=1 net.ipv4.neigh.x2.ucast_solicit=1 net.ipv4.neigh.x0.mcast_solicit=1 net.ipv4.neigh.x1.mcast_solicit=1 net.ipv4.neigh.x2.mcast_solicit=1
ip monitor neigh >$tmp/neigh 2>&1 & monitor=$!; ip -o -4 monitor neigh >$tmp/four 2>&1 & four=$!; bridge monitor fdb >$tmp/fdb 2>&1 & fdb=$!; sleep 1
for n in 0 1 2; do ip neigh add 10.0.$n.9 lladdr 02:00:00:00:09:0$n dev x$n nud probe; pass 1; done
bridge fdb add 02:00:00:00:09:00 dev x0 dst 10.9.9.2
ip neigh add 10.0.0.8 lladdr 02:00:00:00:09:00 dev x0 nud probe; pass 1
bridge fdb add 00:00:00:00:00:00 dev x0 dst 10.9.9.3
ip neigh add 10.0.0.7 lladdr 02:00:00:00:09:07 dev x0 nud probe; pass 1
sleep 1; kill $monitor $four $fdb; wait $monitor $four $fdb
grep miss $tmp/neigh
grep miss $tmp/four
grep -v 33:33 $tmp/fdb
