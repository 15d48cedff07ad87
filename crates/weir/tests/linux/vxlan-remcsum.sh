# SPDX-License-Identifier: Apache-2.0 OR MIT
# VXLAN devices with remote checksum offload: what they show, what they go with, and which of them share a port.
# Its output on Linux 6.1 is vxlan-remcsum.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# A kernel without CONFIG_RPS does not show receive queues.
l() { ip -d link show $1 | tail -n 1 | sed 's/numrxqueues 1 //'; }
j() { ip -d -j link show $1 | sed 's/.*"linkinfo":/ /; s/,"inet6.*//'; }
for flags in remcsumtx "remcsumrx gbp" "remcsumtx remcsumrx" "noremcsumtx noremcsumrx noudpcsum"; do
    c ip link add vx address 02:00:00:00:00:01 type vxlan id 5 dstport 4789 $flags && l vx && j vx && c ip link del vx
done
c ip link add vx type vxlan external remcsumtx remcsumrx dstport 4789 && l vx && c ip link del vx
c ip link add vx type vxlan external gpe remcsumtx
c ip link add vx type vxlan external gpe remcsumrx
python3 -IS "$(dirname "$0")/vxlan-remcsum.py"
for v in v0 v1 v2 v3; do c ip link set $v up; done
c ip link set v0 down
for v in v1 v2 v3; do c ip link set $v up; done
c ip link set v1 down
c ip link set v3 up
