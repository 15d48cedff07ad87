# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: u0 remcsumouter
# out: out0
# Datagrams whose inner checksums the sender has left to the receiver.
# show: for n in 0 1 2 3; do ip -s -s link show vx$n | tail -n +3; done
. "$(dirname "$0")/common.sh"
ip link add vx0 address 02:00:00:00:00:70 type vxlan id 5 dstport 4789 remcsumrx
python3 -IS "$(dirname "$0")/remcsum-nopartial.py" vx1 4790
ip link add vx2 address 02:00:00:00:00:72 type vxlan id 5 dstport 4791
ip link add vx3 address 02:00:00:00:00:73 type vxlan external dstport 4792 remcsumrx gbp
for n in 0 1 2 3; do
    ip link set vx$n up
    tc qdisc add dev vx$n clsact
    tc filter add dev vx$n ingress protocol all prio 1 matchall action vlan push id 10$n $(redirect out0)
done
