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
# The requests of RTM_NEWVLAN, which bridge does not send.
c bridge vlan add dev vx0 vid 40-42
c bridge vlan add dev br0 vid 40 self
ask() {
    echo "+ ask $*"
    python3 - "$@" <<'PYTHON'
import socket, struct, sys
device, first, last, command, number = sys.argv[1], *map(int, sys.argv[2:])
def attribute(ty, payload):
    return struct.pack("=HH", 4 + len(payload), ty) + payload + bytes(-len(payload) % 4)
tunnel = b""
if number >= 0:
    tunnel += attribute(1, struct.pack("=I", number))
if command >= 0:
    tunnel += attribute(2, struct.pack("=I", command))
# BRIDGE_VLAN_INFO_ONLY_OPTS
entry = attribute(1, struct.pack("=HH", 1 << 6, first))
if last > first:
    entry += attribute(2, struct.pack("=H", last))
entry += attribute(4 | 0x8000, tunnel)
body = struct.pack("=BBHI", 7, 0, 0, socket.if_nametoindex(device)) + attribute(1 | 0x8000, entry)
link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
for option in (10, 11):  # NETLINK_CAP_ACK, NETLINK_EXT_ACK
    link.setsockopt(270, option, 1)
link.send(struct.pack("=IHHII", 16 + len(body), 112, 5, 1, 0) + body)
answer = link.recv(4096)
print("answer", struct.unpack_from("=i", answer, 16)[0])
at = 36
while at + 4 <= len(answer):
    size, ty = struct.unpack_from("=HH", answer, at)
    if ty == 1:
        print(answer[at + 4:at + size].rstrip(b"\0").decode())
    at += (size + 3) & ~3
PYTHON
}
SETLINK=19 DELLINK=17
ask br0 40 40 $SETLINK 4000
ask vx0 40 40 $SETLINK 4000
c bridge link set dev vx0 vlan_tunnel on
ask vx0 40 40 -1 4000
ask vx0 40 40 $SETLINK -1
ask vx0 40 40 16 4000
ask vx0 40 40 65555 4000
ask vx0 40 40 -1 -1
ask vx0 40 40 $SETLINK 4000
ask vx0 40 40 $SETLINK 4000
ask vx0 41 42 $SETLINK 4001
ask vx0 50 50 $SETLINK 5000
c bridge vlan tunnelshow dev vx0
ask vx0 40 41 $DELLINK -1
ask vx0 40 41 $DELLINK -1
ask vx0 40 40 $SETLINK 16777216
ask vx0 41 41 $SETLINK 4294967295
c bridge vlan tunnelshow dev vx0
