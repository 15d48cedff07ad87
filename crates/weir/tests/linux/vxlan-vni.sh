# SPDX-License-Identifier: Apache-2.0 OR MIT
# VXLAN devices that filter by VNI: bridge vni, its notifications, and the entries and groups that come of it.
# Its output on Linux 6.1 is vxlan-vni.txt beside it; record makes it.
exec 2>&1
here=$(dirname "$0")
c() { echo "+ $*"; "$@"; }
vni() { python3 -IS "$here/vxlan-vni.py" "$@"; }
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //'; }
all() { echo "+ bridge fdb show"; bridge fdb show | grep vx | sort; }
groups() { echo "+ ip maddr show dev u0"; ip maddr show dev u0 | grep -e 239 -e ff05; }
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
ip link add u0 address 02:00:00:00:00:10 type dummy
sysctl -qw net.ipv6.conf.u0.disable_ipv6=0
ip addr add 10.0.0.1/24 dev u0
ip addr add fd00::1/64 dev u0 nodad
ip link set u0 up
c ip link add vx0 type vxlan vnifilter dstport 4789
c ip link add vx0 type vxlan id 5 vnifilter dstport 4789
c ip link add vx0 address 02:00:00:00:00:01 type vxlan external vnifilter dstport 4789
c ip link add vx1 address 02:00:00:00:00:02 type vxlan external vnifilter dstport 4789 dev u0 remote 10.0.0.9
c ip link add vx2 address 02:00:00:00:00:03 type vxlan external vnifilter dstport 4790 local fd00::1 dev u0
c ip link add vx3 address 02:00:00:00:00:04 type vxlan external dstport 4791
c ip link add vx4 address 02:00:00:00:00:05 type vxlan external novnifilter dstport 4792
c ip link add vx5 address 02:00:00:00:00:06 type vxlan id 100 dstport 4789
for d in vx0 vx1 vx2 vx4; do l $d; done
ip -d -j link show vx1 | grep -o '"vxlan","info_data":{[^}]*}'
c ip link set vx0 type vxlan vnifilter
c ip link set vx0 type vxlan novnifilter
c bridge vni show
monitored=$(mktemp)
stdbuf -oL bridge monitor vni fdb >$monitored & monitor=$!
sleep 1
c vni add vni 10 dev vx0
c vni add vni 10 dev vx0
c vni add vni 11-15 dev vx0
c vni add vni 17 dev vx0 remote 10.0.0.2
c vni add vni 18-20 dev vx0 remote 10.0.0.2
c vni add vni 21 dev vx0 remote 10.0.0.3
c vni add vni 22 dev vx0 remote fd00::3
c vni add vni 16 dev vx0 remote 0.0.0.0
c vni add vni 23 dev vx0 group 239.1.1.1
c vni add vni 24 dev vx0 group ff05::100
c vni add vni 0 dev vx0
c vni add vni 0-2 dev vx0
c vni add vni 16777215 dev vx0
c vni add vni 16777216 dev vx0
c vni add vni 9-7 dev vx0
c vni add vni 100 dev vx0
c vni add vni 10 dev u0
c vni add vni 10 dev vx3
c vni add vni 10 dev vx4
c vni add vni 10 dev vx5
c bridge vni show
c bridge -s vni show dev vx0
c bridge -j vni show
c bridge -j -s vni show dev vx0
c bridge vni show dev u0
c bridge vni show dev vx3
c bridge vni show dev vx5
all
# Another remote, none, and the device's.
c vni add vni 17 dev vx0 remote 10.0.0.4
c vni add vni 17 dev vx0
c vni add vni 18-20 dev vx0 remote 10.0.0.2
c vni add vni 21-22 dev vx0 remote 10.0.0.5
c bridge vni show dev vx0
all
# Two devices with the same port.
c vni add vni 10 dev vx1
c vni add vni 8-12 dev vx1
c vni add vni 30-32 dev vx1
c vni add vni 33 dev vx1 remote 10.0.0.7
c vni add vni 10 dev vx2
c vni add vni 30 dev vx0
c bridge vni show
all
c ip link set vx0 up
c ip link set vx1 up
c ip link set vx2 up
c ip link set vx3 up
c ip link add vx6 type vxlan external dstport 4789
c ip link set vx6 up
c ip link set vx5 up
c ip link set vx1 type vxlan external remote 10.0.0.8
c ip link set vx1 type vxlan remote 10.0.0.8
c vni delete vni 0-2 dev vx0
c ip link set vx1 type vxlan remote 10.0.0.8
all
c bridge vni show dev vx1
c ip link set vx1 type vxlan remote 0.0.0.0
all
c ip link set vx1 type vxlan remote 10.0.0.6
c vni delete vni 30 dev vx1
c vni delete vni 30 dev vx1
c vni delete vni 33 dev vx1
c vni delete vni 8-12 dev vx1
c vni delete vni 31-40 dev vx1
c vni delete vni 0 dev vx1
c bridge vni show dev vx1
c vni delete vni 10-13 dev vx0
c vni delete vni 17 dev vx0 remote 10.0.0.99
all
# Groups.
c vni add vni 40 dev vx1 group 239.1.1.1
c vni add vni 41 dev vx1 group 239.1.1.1
c vni add vni 42 dev vx1 group 239.1.1.2
c vni add vni 43-44 dev vx1 group ff05::100
c vni add vni 45 dev vx2 group ff05::101
groups
c vni delete vni 40 dev vx1
groups
c vni add vni 42 dev vx1 group 239.1.1.3
groups
c vni add vni 41 dev vx1 group 239.1.1.3
c vni add vni 42 dev vx1 group 239.1.1.4
groups
c bridge vni show dev vx1
c ip link set vx1 down
groups
c ip link set vx1 up
groups
c ip link set vx1 type vxlan group 239.1.1.9 dev u0
groups
all
c ip link set vx1 type vxlan group 239.1.1.10 dev u0
groups
c vni add vni 42 dev vx1
groups
c vni add vni 46 dev vx1
groups
c vni add vni 43 dev vx1 remote 10.0.0.2
groups
c ip link set vx1 type vxlan remote 10.0.0.2
groups
c ip link set vx1 down
groups
c vni add vni 47 dev vx1 group 239.1.1.5
c ip link set vx1 up
groups
c bridge vni show
all
c ip link add vx7 address 02:00:00:00:00:08 type vxlan external vnifilter dstport 4789 dev u0
c ip link set vx7 up
c vni add vni 48 dev vx7 group 239.1.1.5
c vni delete vni 47 dev vx1
groups
c vni delete vni 48 dev vx7
groups
sysctl -qw net.ipv4.igmp_max_memberships=1
c vni add vni 50 dev vx7 group 239.1.1.6
c vni add vni 51-52 dev vx7 group 239.1.1.7
c bridge vni show dev vx7
c ip link set vx7 down
c ip link set vx7 up
sysctl -qw net.ipv4.igmp_max_memberships=20
sleep 1
kill $monitor
wait $monitor 2>/dev/null
echo "+ bridge monitor vni fdb"
cat $monitored
# Linux tells of the entries of a device that goes in the order of a hash.
stdbuf -oL bridge monitor vni >$monitored & monitor=$!
sleep 1
c ip link del vx7
c ip link del vx0
all
c ip link del u0
c bridge vni show
sleep 1
kill $monitor
wait $monitor 2>/dev/null
echo "+ bridge monitor vni"
cat $monitored
rm -f $monitored
python3 "$here/vxlan-vni.py"
