# SPDX-License-Identifier: Apache-2.0 OR MIT
# The qdisc cake: the display of every option, and the statistics of the qdisc and of each tin. Its
# output on Linux 6.1 is cake.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
t() {
    echo "+ cake $*"
    tc qdisc replace dev d0 root handle 1: cake "$@"
    tc -d qdisc show dev d0
}
ip link add d0 type dummy
sysctl -qw net.ipv6.conf.d0.disable_ipv6=1
ip link set d0 up
c tc qdisc add dev d0 root handle 1: cake
c tc -s qdisc show dev d0
c tc -s -j qdisc show dev d0
c tc class show dev d0
tc qdisc del dev d0 root
for mode in besteffort diffserv3 diffserv4 diffserv8 precedence; do
    c tc qdisc add dev d0 root handle 1: cake bandwidth 20mbit $mode
    c tc -s qdisc show dev d0
    c tc qdisc change dev d0 root handle 1: cake unlimited
    c tc -s qdisc show dev d0
    tc qdisc del dev d0 root
done
t bandwidth 1000
t bandwidth 1kbit
c tc -s qdisc show dev d0
t bandwidth 10gbit rtt 1us
c tc -s qdisc show dev d0
t unlimited
t autorate-ingress
t bandwidth 5mbit rtt 200
t datacentre
t lan
t metro
t regional
t internet
t oceanic
t satellite
t interplanetary
for mode in flowblind srchost dsthost hosts flows dual-srchost dual-dsthost triple-isolate; do
    t $mode
done
t nat
t nonat
t wash
t nowash
t split-gso
t no-split-gso
t ack-filter
t ack-filter-aggressive
t no-ack-filter
t memlimit 10000
c tc -s qdisc show dev d0
t memlimit 0
t ptm
t atm
t noatm
t raw
t conservative
t overhead 128 mpu 256
t overhead -14
t ethernet
t ethernet ether-vlan
t docsis
t pppoe-vcmux
t ingress
t egress
t fwmark 8
t fwmark 0xff00
c tc -s qdisc show dev d0
c tc qdisc change dev d0 root handle 1: cake bandwidth 1mbit diffserv4
c tc -s qdisc show dev d0
c tc -s -j qdisc show dev d0
c tc qdisc add dev d0 parent 1:1 pfifo
c tc class add dev d0 parent 1: classid 1:1 cake
c tc class show dev d0 classid 1:1
c tc filter add dev d0 parent 1: protocol ip prio 1 matchall classid 1:7
c tc filter add dev d0 parent 1:1 protocol ip prio 1 matchall classid 1:7
c tc filter show dev d0 parent 1:
c tc qdisc del dev d0 root
c tc qdisc show dev d0
