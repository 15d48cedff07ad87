# SPDX-License-Identifier: Apache-2.0 OR MIT
# Tunnel ids of the VLANs of bridges: bridge vlan add ... tunnel_info, vlan_tunnel.
# Its output on Linux 6.1 is vlan-tunnel.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
c ip link add br0 address 02:00:00:00:00:10 type bridge vlan_filtering 1
c ip link add vx0 address 02:00:00:00:00:01 type vxlan external dstport 4789
c ip link add d1 address 02:00:00:00:00:02 type dummy
c ip link set vx0 master br0
c ip link set d1 master br0
c bridge vlan add dev vx0 vid 10 tunnel_info id 1000
c bridge link set dev vx0 vlan_tunnel on
c bridge -d link show dev vx0
monitored=$(mktemp)
stdbuf -oL bridge monitor vlan link >$monitored & monitor=$!
sleep 1
c bridge vlan add dev vx0 vid 10 tunnel_info id 1000
c bridge vlan add dev vx0 vid 10
c bridge vlan add dev vx0 vid 10 tunnel_info id 1000
c bridge vlan add dev vx0 vid 10 tunnel_info id 1000
c bridge vlan add dev vx0 vid 10 tunnel_info id 1001
c bridge vlan add dev vx0 vid 11
c bridge vlan add dev vx0 vid 11 tunnel_info id 1000
c bridge vlan add dev vx0 vid 11 tunnel_info id 1001
c bridge vlan add dev vx0 vid 20-24
c bridge vlan add dev vx0 vid 20-24 tunnel_info id 2000-2004
c bridge vlan add dev vx0 vid 20-24 tunnel_info id 2000-2003
c bridge vlan add dev vx0 vid 20-25 tunnel_info id 2000-2005
c bridge vlan add dev vx0 vid 30 tunnel_info id 3000
c bridge vlan add dev vx0 vid 4095 tunnel_info id 3000
c bridge vlan add dev vx0 vid 11 tunnel_info id 16777216
c bridge vlan add dev vx0 vid 11 tunnel_info id 16777215
c bridge vlan add dev d1 vid 11 tunnel_info id 3000
c bridge vlan add dev br0 vid 11 tunnel_info id 3000 self
c bridge vlan tunnelshow
c bridge vlan show
c bridge vlan tunnelshow dev vx0
c bridge -j vlan tunnelshow dev vx0
c bridge -d vlan show dev vx0
c bridge -d -compressvlans vlan show dev vx0
c bridge -compressvlans vlan tunnelshow dev vx0
c bridge vlan del dev vx0 vid 11 tunnel_info id 1001
c bridge vlan del dev vx0 vid 11 tunnel_info id 1001
c bridge vlan tunnelshow
c bridge vlan show dev vx0
c bridge vlan del dev vx0 vid 20-22 tunnel_info id 2000-2002
c bridge vlan tunnelshow
c bridge vlan del dev vx0 vid 23
c bridge vlan add dev vx0 vid 23
c bridge vlan tunnelshow
c bridge vlan set dev vx0 vid 10 state 4
c bridge -d vlan show dev vx0
c bridge link set dev vx0 vlan_tunnel off
c bridge vlan tunnelshow
c bridge vlan add dev vx0 vid 10 tunnel_info id 1000
c bridge link set dev vx0 vlan_tunnel on
c bridge vlan tunnelshow
c bridge link set dev d1 vlan_tunnel on
c bridge vlan add dev d1 vid 11
c bridge vlan add dev d1 vid 11 tunnel_info id 3000
c bridge vlan tunnelshow
c bridge -d link show dev d1
sleep 1
kill $monitor
echo "+ monitor"
cat $monitored
rm $monitored
c bridge vlan add dev vx0 vid 20-21 tunnel_info id 2000-2001
c ip link set vx0 nomaster
c bridge vlan tunnelshow
c ip link set vx0 master br0
c bridge vlan tunnelshow
