# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: u0 groupouter
# out: out0
# Datagrams to groups: those that the underlay has joined for vxlan devices come out.
# show: ip -s -s link show vx1 | tail -n +3
# show: ip -s -s link show vx2 | tail -n +3
# show: ip -s -s link show vx7 | tail -n +3
# show: bridge fdb show | grep vx | sort
. "$(dirname "$0")/common.sh"
ip link add vx1 address 02:00:00:00:00:71 type vxlan id 5 dstport 4789 group 239.1.1.1 dev u0
ip link add vx2 address 02:00:00:00:00:72 type vxlan id 6 dstport 4789 remote 192.0.2.9
ip link add vx7 address 02:00:00:00:00:77 type vxlan id 7 dstport 4789 group ff05::100 dev u0
for n in 1 2 7; do
    ip link set vx$n up
    tc qdisc add dev vx$n clsact
    tc filter add dev vx$n ingress matchall action vlan push id 10$n $(redirect out0)
done
