# SPDX-License-Identifier: Apache-2.0 OR MIT
# Groups of bridges per VLAN: mcast_vlan_snooping, mcast_router of VLANs, their queriers, members and routers.
# Its output on Linux 6.1 is bridge-vlan-groups.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
m() { echo "+ bridge -d -s mdb show $*"; bridge -d -s mdb show $* | sed 's/ *[0-9]*\.[0-9][0-9]$/ T/' | sort; }
v() { echo "+ mcast_vlan_snooping"; ip -d link show br0 | grep -o "mcast_vlan_snooping [0-9]*"; }
# The time of another querier and of routers runs.
g() { echo "+ bridge -d -s vlan global show dev br0 $*"; bridge -d -s vlan global show dev br0 $* | sed 's/ [0-9]*\.[0-9][0-9]\( \|$\)/ T\1/g'; }
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
c ip link add br0 address 02:00:00:00:00:10 type bridge mcast_vlan_snooping 1
c ip link add br0 address 02:00:00:00:00:10 type bridge vlan_filtering 1
c ip link add d0 address 02:00:00:00:00:01 type dummy
c ip link add d1 address 02:00:00:00:00:02 type dummy
c ip link set d0 master br0
c ip link set d1 master br0
c ip link set d0 up
c ip link set br0 up
c bridge vlan add dev d0 vid 10-12
c bridge vlan add dev d1 vid 11
c bridge vlan add dev br0 vid 10 self
v
monitored=$(mktemp)
stdbuf -oL bridge monitor vlan mdb >$monitored & monitor=$!
sleep 1
c ip link set br0 type bridge mcast_vlan_snooping 1
v
c ip link set br0 type bridge mcast_vlan_snooping 2
v
c bridge mdb add dev br0 port d0 grp 239.1.1.1 permanent
c bridge mdb add dev br0 port d0 grp 239.1.1.1 permanent vid 10
c bridge mdb add dev br0 port d0 grp 239.1.1.2 temp vid 11
c bridge mdb add dev br0 port d0 grp 239.1.1.3 permanent vid 99
c bridge mdb add dev br0 port d1 grp 239.1.1.3 permanent vid 12
c bridge mdb add dev br0 port br0 grp 239.1.1.4 vid 10
c bridge mdb add dev br0 port br0 grp 239.1.1.4
m
c bridge vlan set dev d0 vid 10 mcast_router 2
c bridge vlan set dev d0 vid 10 mcast_router 2
c bridge vlan set dev d0 vid 11 mcast_router 3
c bridge vlan set dev d1 vid 11 mcast_router 0
c bridge vlan set dev d1 vid 11 mcast_router 4
c bridge vlan set dev d0 vid 11-12 mcast_router 2 state learning
c bridge vlan set dev br0 vid 10 mcast_router 2 self
c bridge vlan set dev br0 vid 10 mcast_router 3 self
c bridge vlan set dev br0 vid 11 mcast_router 2 self
c bridge vlan set dev br0 vid 10 mcast_router 0 self
c bridge -d vlan show
g
m
c bridge vlan set dev br0 vid 10 mcast_router 1 self
g vid 10
c bridge vlan global set dev br0 vid 10 mcast_querier 1
c bridge vlan global set dev br0 vid 11-12 mcast_querier 1 mcast_query_interval 300
g
c bridge vlan global set dev br0 vid 11 mcast_snooping 0
g vid 11
c bridge vlan set dev d0 vid 10 mcast_router 1
c bridge vlan set dev d0 vid 12 mcast_router 0
m
c bridge vlan del dev d0 vid 11
m
g
c bridge vlan add dev d0 vid 13
c bridge vlan set dev d0 vid 13 mcast_router 2
g vid 13
c ip link set d0 down
c bridge -d vlan show dev d0
g vid 13
c ip link set d0 up
g vid 13
c ip link set br0 down
g vid 13
c ip link set br0 up
c ip link set br0 type bridge mcast_snooping 0
g vid 13
m
c ip link set br0 type bridge mcast_snooping 1
g vid 13
c ip link set br0 type bridge mcast_vlan_snooping 0
v
g vid 13
m
c bridge vlan set dev d0 vid 13 mcast_router 0
c bridge vlan set dev d0 vid 13 mcast_router 2
g vid 13
c ip link set br0 type bridge mcast_vlan_snooping 1
g vid 13
c ip link set br0 type bridge vlan_filtering 0
v
c ip link set br0 type bridge mcast_vlan_snooping 1
c ip link set br0 type bridge vlan_filtering 1 mcast_vlan_snooping 1
v
c ip link set d0 nomaster
g
sleep 1
kill $monitor
echo "+ monitor"
sed 's/ *[0-9]*\.[0-9][0-9]\( \|$\)/ T\1/g' $monitored
rm $monitored
# One request adds a VLAN and says where its router is, before any other option of groups of a VLAN.
c ip link add br1 address 02:00:00:00:00:11 type bridge vlan_filtering 1
c ip link set d1 master br1
python3 - <<'PYTHON'
import socket, struct
link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
link.bind((0, 0))
entry = struct.pack("=HHHH", 8, 1, 0, 30) + struct.pack("=HHB3x", 5, 6, 2)
nest = struct.pack("=HH", 4 + len(entry), 1 | 0x8000) + entry
body = struct.pack("=BBHI", 7, 0, 0, socket.if_nametoindex("d1")) + nest
link.send(struct.pack("=IHHII", 16 + len(body), 112, 5, 1, 0) + body)
print("answer", struct.unpack_from("=i", link.recv(1024), 16)[0])
PYTHON
c bridge -d vlan show dev d1
c bridge -d vlan global show dev br1 vid 30
