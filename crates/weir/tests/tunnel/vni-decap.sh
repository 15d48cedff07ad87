# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: u0 outer
# out: out0
# Datagrams for VXLAN devices that filter by VNI. Two of them share a port.
# show: ip -s -s link show vx0 | tail -n +3
# show: ip -s -s link show vx1 | tail -n +3
# show: ip -s -s link show vx2 | tail -n +3
# show: ip -s -s link show vx3 | tail -n +3
# show: bridge -s vni show
# show: bridge fdb show | grep vx | sort
. "$(dirname "$0")/common.sh"
vni() { python3 -IS "$(dirname "$0")/../linux/vxlan-vni.py" "$@"; }
ip link add vx0 address 02:00:00:00:00:70 type vxlan external vnifilter dstport 4789 learning
ip link add vx1 address 02:00:00:00:00:71 type vxlan external vnifilter dstport 4789
ip link add vx2 address 02:00:00:00:00:72 type vxlan external vnifilter dstport 4790
ip link add vx3 address 02:00:00:00:00:73 type vxlan external vnifilter dstport 4792 gbp
vni add vni 5 dev vx0
vni add vni 1-2 dev vx2
vni add vni 2-4 dev vx3
for n in 0 1 2 3; do
    ip link set vx$n up
    tc qdisc add dev vx$n clsact
    tc filter add dev vx$n ingress protocol all prio 1 flower enc_key_id 5 enc_src_ip 192.0.2.2 action vlan push id 1$n $(redirect out0)
    tc filter add dev vx$n ingress protocol all prio 2 matchall action vlan push id 2$n $(redirect out0)
done
# While the devices are up.
vni add vni 8 dev vx0
vni delete vni 8 dev vx0
vni add vni 6 dev vx1
vni delete vni 2 dev vx2
