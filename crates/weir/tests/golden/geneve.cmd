# Links of the kind geneve: attributes, changes, what is refused.
sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.accept_dad=0
ip link set lo up
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link set v0 up; ip link set v1 up
[ -n "${WEIR-}" ] || sleep 0.5
ip addr add 10.0.0.1/24 dev v0
ip -6 addr add fd00::1/64 dev v0 nodad
ip link add g0 address 02:00:00:00:0a:00 type geneve id 5 remote 10.0.0.2
ip link add g1 address 02:00:00:00:0a:01 type geneve id 6 remote 10.0.0.2 ttl 9 tos 4 df set udpcsum dstport 7000
ip link add g2 address 02:00:00:00:0a:02 type geneve id 7 remote fd00::2 ttl inherit tos inherit flowlabel 0x12345
ip link add g3 address 02:00:00:00:0a:03 type geneve id 8 remote fd00::3 udp6zerocsumtx udp6zerocsumrx
ip link add g4 address 02:00:00:00:0a:04 type geneve id 9 remote 10.0.0.3 df inherit noudpcsum
ip link add g5 address 02:00:00:00:0a:05 type geneve external dstport 6082
ip link add g6 address 02:00:00:00:0a:06 type geneve id 10 remote 192.0.2.1
ip link add g7 address 02:00:00:00:0a:07 mtu 60000 type geneve id 11 remote 10.0.0.2
ip link add g8 address 02:00:00:00:0a:08 type geneve id 12 remote 10.0.0.1
ip link add x0 type geneve
ip link add x0 type geneve id 16777216 remote 10.0.0.2
ip link add x0 type geneve id 5 remote 10.0.0.2
ip link add x0 type geneve id 5 remote 10.0.0.2 dstport 7000
ip link del x0
ip link add x0 type geneve id 5 remote 224.0.0.1
ip link add x0 type geneve id 5 remote ff02::1
ip link add x0 type geneve id 5 remote fe80::1
ip link add x0 type geneve id 5 remote 10.0.0.9 flowlabel 5
ip link add x0 type geneve external
ip link add x0 type geneve external dstport 6082
ip link add x0 type geneve id 5 remote 10.0.0.9 dstport 6082
ip link add x0 type geneve external dstport 6083 udpcsum
ip link add x0 type geneve external dstport 6083 tos 4
ip link add x0 type geneve id 5 remote 10.0.0.9 df 7
ip link add x0 mtu 67 type geneve id 50 remote 10.0.0.9
ip link add x0 mtu 65506 type geneve id 50 remote 10.0.0.9
ip -d link show type geneve
ip -d -j link show g2
ip link set g0 up; ip link set g1 up; ip link set g2 up; ip link set g5 up
ip -br link show type geneve
ip link set g0 type geneve id 6
ip link set g0 type geneve id 5 remote 10.0.0.4 ttl 7 tos 8 df set
ip link set g0 type geneve id 5 dstport 7
ip link set g0 type geneve id 5 remote fd00::9
ip link set g0 type geneve id 5 udpcsum
ip link set g2 type geneve id 7 ttl 5
ip link set g5 type geneve external
ip -d link show g0
ip -d link show g2
ip link set g0 mtu 9000
ip link set g0 mtu 65486
ip link set g0 mtu 67
ip link set g0 down; ip link set g0 name h0
ethtool -i h0
ip link del h0
ip link set v0 down
ip -br link show type geneve
ip link add x0 type geneve id 60 remote 10.0.0.9 dstport 7001; ip link set x0 up
ip link add x1 type vxlan id 60 remote 10.0.0.9 dstport 7001; ip link set x1 up
ip -br link show x1 | grep -c UP
ip link set x0 down; ip link set x1 up
ip link set x0 up
ip link set x1 down; ip link set x0 up
python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 7001))' 2>&1 | tail -1
