# Devices of /dev/net/tun.
ip link add x type tun
ip tuntap add dev t0 mode tun
ip tuntap add dev t0 mode tun
ip tuntap add dev t0 mode tap
ip -d link show t0
cat /sys/class/net/t0/{tun_flags,owner,group}
ip tuntap add dev p0 mode tap user 5 group 6 pi vnet_hdr
ip link set p0 address 02:00:00:00:00:01
ip -d link show p0
cat /sys/class/net/p0/{tun_flags,owner,group,type}
ip tuntap show
ip link set t0 up
ip link set p0 up
ip link show
ip addr add 10.0.0.1/24 dev t0
ip route show
ip link set t0 address 02:00:00:00:00:02
ip link set t0 mtu 65535
ip link set t0 mtu 65536
ip link set t0 mtu 67
ip link set p0 mtu 65521
ip link set p0 mtu 65522
ip link set t0 type tun
ip tuntap del dev t0 mode tap
ip tuntap del dev t0 mode tun
ip link del p0
ip link show
ip tuntap add mode tun
ip tuntap add mode tun
ip tuntap add mode tap
ip link set tap0 address 02:00:00:00:00:03
ip -br link show
ip tuntap add dev tun0 mode tun one_queue
ip tuntap add dev m0 mode tun multi_queue
ip -d link show m0
ip tuntap del dev m0 mode tun
ip tuntap del dev m0 mode tun multi_queue
ip tuntap add dev a/b mode tun
ip tuntap del dev none mode tun
ip -br link show
python3 $here/tun.py
