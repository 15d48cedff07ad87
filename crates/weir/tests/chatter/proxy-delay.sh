# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# v0's host answers for others after random times: proxy_delay and proxy_qlen of ARP and neighbour discovery.
sysctl -q -w net.ipv4.ip_forward=1
sysctl -q -w net.ipv6.conf.v0.accept_ra=0
ip link add x0 address 02:00:00:00:00:20 type veth peer name x1
ip link add y0 type dummy
for dev in x0 x1 y0; do ip link set $dev addrgenmode none; done
for dev in x1 x0 y0 v0; do ip link set $dev up; done
ip addr add 10.0.0.1/24 dev v0
ip addr add 10.5.0.1/24 dev x0
ip addr add fd00::1/64 dev v0 nodad
sysctl -q -w net.ipv6.conf.v0.proxy_ndp=1 net.ipv6.conf.v0.forwarding=1
pass 4
entries() {
    ip neigh replace proxy 10.5.0.7 dev v0
    ip neigh replace proxy 10.5.0.8 dev v0
    ip neigh replace proxy fd00::77 dev v0
    ip neigh replace proxy fd00::78 dev v0
}
conf() { for six in 4 6; do sysctl -q -w "net.ipv$six.neigh.v0.$1=$2"; done; }
# Questions, by multicast and by unicast, of which all of a call are sent at once: frames.py takes its time on Linux.
arp7=ffffffffffff020000000009080600010800060400010200000000090a0000090000000000000a050007
arp8=ffffffffffff020000000009080600010800060400010200000000090a0000090000000000000a050008
arp8u=020000000010020000000009080600010800060400010200000000090a0000090000000000000a050008
ns77=3333ff00007702000000000986dd6000000000203afffe800000000000000000000000000009ff0200000000000000000001ff00007787007b1d00000000fd0000000000000000000000000000770101020000000009
ns78=3333ff00007802000000000986dd6000000000203afffe800000000000000000000000000009ff0200000000000000000001ff00007887007b1b00000000fd0000000000000000000000000000780101020000000009
ns78u=02000000001002000000000986dd6000000000203afffe800000000000000000000000000009fd00000000000000000000000000000187007c9600000000fd0000000000000000000000000000780101020000000009
ask() { python3 "$FRAMES" send v1 "$@"; }
entries
# At most proxy_qlen and one wait.
conf proxy_delay 300
for qlen in 0 2 64; do
    conf proxy_qlen $qlen
    ask $arp7 $arp7 $arp7 $arp7 $arp7 $arp7
    pass 4
done
conf proxy_qlen 0
ask $ns77 $ns77 $ns77
pass 4
conf proxy_qlen 64
# Questions by unicast do not wait.
conf proxy_delay 500
ask $arp7 $arp8u
pass 6
ask $ns77 $ns78u
pass 6
# The answer is decided when the time has come.
conf proxy_delay 3000
ask $arp7 $ns77
ip neigh del proxy 10.5.0.7 dev v0
ip neigh del proxy fd00::77 dev v0
pass 31
entries
# A device that goes down takes those of its namespace with it.
ask $arp7 $ns77
ip link set y0 down
pass 31
ask $arp8 $ns78
ip link set v0 down
ip link set v0 up
ip addr add fd00::1/64 dev v0 nodad
entries
pass 31
conf proxy_delay 0
ask $arp7
pass 1
ask $ns77
pass 1
