# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The changes that net-tools and busybox make by ioctl, and the state after them.
t() { echo "+ $*"; "$@" 2>&1; status=$?; [ $status = 0 ] || echo "= $status"; }
show() { ip -o -4 addr show dev "$1" 2>&1 | sed 's/^[0-9]*: //; s/ *\\.*//'; }
routes() { ip "$@" route | sed 's/ proto kernel.*//' | sort; }
exec 2>&1
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add d1 address 02:00:00:00:00:02 type dummy
echo 0 >/proc/sys/net/ipv6/conf/d0/accept_dad
t ifconfig d0 10.1.2.3 up; show d0
t ifconfig d0 192.168.7.1; show d0
t ifconfig d0 192.168.7.1 netmask 255.255.255.128; show d0
t ifconfig d0 netmask 255.255.254.0; show d0
t ifconfig d0 netmask 255.0.255.0; show d0
t ifconfig d0 broadcast 192.168.7.77; show d0
t ifconfig d0:1 10.9.0.1 netmask 255.255.255.0 up; show d0
t ifconfig d0:2 10.9.0.2 netmask 255.255.255.0; show d0
t ifconfig d0:1 down; show d0
t ifconfig d0:7 down
t ifconfig d0:2 down; show d0
t ifconfig d0 224.0.0.1
t ifconfig d0 240.0.0.1; show d0
t ifconfig d0 0.0.0.0; show d0
t ifconfig d0 172.16.0.1/20; show d0
t ifconfig d0 pointopoint 172.16.9.9; show d0
t ifconfig nosuch 10.0.0.1
t ifconfig d0 mtu 1400
t ifconfig d0 mtu 10
t ifconfig d0 txqueuelen 17
t ifconfig d0 hw ether 02:00:00:00:00:99
t ifconfig d0 hw ether 01:00:00:00:00:99
ip link show d0 | sed 's/^[0-9]*: //'
t ifconfig d0 -arp
t ifconfig d0 promisc
ip link show d0 | sed -n '1s/^[0-9]*: //p'
t ifconfig d0 arp -promisc mtu 1500
t ifconfig d0 add fd00::1/64
t ifconfig d0 add fd00::1/64
t ifconfig d0 inet6 add fd00::2/128
t ifconfig d0 del fd00::2/128
t ifconfig d0 del fd00::2/128
t ifconfig d0 add fd00::3/129 | head -n 1
ip -o -6 addr show dev d0 scope global | sed 's/^[0-9]*: //; s/ *\\.*//'
t ifconfig d1 10.0.0.1 netmask 255.255.255.0 up
t route add -net 10.20.0.0/16 gw 10.0.0.2
t route add -net 10.20.0.0/16 gw 10.0.0.2
t route add -net 10.21.0.0 netmask 255.255.0.0 dev d1 metric 5
t route add -net 10.22.0.1 netmask 255.255.0.0 dev d1
t route add -host 10.30.0.1 dev d1
t route add -host 10.30.0.2 gw 10.0.0.9 metric 7 mss 1000 window 5000 irtt 100
t route add default gw 10.0.0.254
t route add default gw 10.99.0.1
t route add -net 10.23.0.0/16 gw 10.0.0.1
t route add -net 10.24.0.0/16 reject
t route add -net 10.25.0.0/16 dev nosuch
t route add -net 10.26.0.0/16
routes -4
t route -n
t route del -net 10.20.0.0/16 gw 10.0.0.3
t route del -net 10.20.0.0/16 gw 10.0.0.2
t route del -net 10.21.0.0/16
t route del -host 10.30.0.1
t route del -net 10.24.0.0/16 reject
t route del default
t route del default
routes -4
t route -A inet6 add fd01::/64 gw fd00::9
t route -A inet6 add fd01::/64 gw fd00::9
t route -A inet6 add fd02::/64 dev d0 metric 77
t route -A inet6 add default gw fd00::8 dev d0
t route -A inet6 add fd03::/64 gw fd77::1
routes -6 | grep -v fe80
t route -A inet6 del fd01::/64
t route -A inet6 del fd02::/64 metric 77
t route -A inet6 del default gw fd00::8
t route -A inet6 del default gw fd00::8
routes -6 | grep -v fe80
t arp -s 10.0.0.5 02:00:00:00:00:05
t arp -i d1 -s 10.0.0.6 02:00:00:00:00:06 temp
t arp -s 10.88.0.5 02:00:00:00:00:05
t arp -i nosuch -s 10.0.0.7 02:00:00:00:00:07
t arp -n | sort
t arp -n 10.0.0.5
t arp -n -i d1 10.0.0.55
t arp -d 10.0.0.5
t arp -d 10.0.0.5
t arp -i d1 -d 10.0.0.6
t arp -i d1 -d 10.0.0.77
ip neigh show nud all | grep '^10[.]' | sort
v() { t busybox vconfig "$@"; }
v add d1 5
v add d1 5
v add d1 4095
v add nosuch 5
v add lo 6
v set_flag d1.5 0 0
v set_flag d1.5 0 1
v set_flag d1.5 3 1
v set_flag d1 0 1
v set_egress_map d1.5 2 3
v set_egress_map d1.5 2 8
v set_ingress_map d1.5 5 4
ip -d link show d1.5 2>&1 | grep -o 'vlan protocol.*[^ ]'
ip -d link show d1.5 2>&1 | grep -o '{.*}'
v set_name_type VLAN_PLUS_VID_NO_PAD
v add d1 6
v set_name_type DEV_PLUS_VID
v add d1 7
v set_name_type VLAN_PLUS_VID
v add d1 8
v set_name_type DEV_PLUS_VID_NO_PAD
v rem d1
v rem d1.5
ip -br link | cut -d' ' -f1
cat /proc/net/vlan/config
v set_egress_map d1.0007 19 3
v set_egress_map d1.0007 3 4
v set_egress_map d1.0007 2 5
cat /proc/net/vlan/d1.0007
ls /proc/net/vlan
t brctl addif br0 d1
t brctl showmacs br0
t ifconfig d1 down
routes -4
ip -br link show d1
