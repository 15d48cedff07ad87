# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Devices of the simulated bus: writes to it that are accepted and refused, and what their links
# show and refuse. Its output on Linux 6.1 is netdevsim.txt beside it; record makes it, on a kernel
# with netdevsim (LINUX, examples/make-linux.sh).
exec 2>&1
c() { echo "+ $*"; "$@"; }
# bash's echo reports the errno.
w() { c bash -c "echo '$1' >/sys/bus/netdevsim/$2_device"; }
# A kernel without CONFIG_RPS does not show receive queues; the addresses are random.
l() {
    echo "+ ip -d link show $1"
    ip -d link show $1 | sed 's/numrxqueues [0-9]* //; s/ether [0-9a-f:]*/ether MAC/; s/switchid [0-9a-f]* /switchid ID /'
}
names() { echo "+ names"; ip -br link | cut -d' ' -f1; }
w '1 2 4' new
l eth0
l eth1
echo "+ switches"
ip -d link show | grep -o 'switchid [0-9a-f]*' | uniq | wc -l
w 1 new
w '1 1 1' new
w '' new
w x new
w -1 new
w 2147483648 new
w 4294967297 new
w 4294967295 new
w ' 2x' new
w '2147483647 1 2' new
w '3 0' new
w '4 1 0' new
w '5 1 65536' new
w '6 4294967295 0' new
names
w 7 del
w '' del
w x del
w 2147483648 del
for id in 2 3 4 5 6 2147483647; do w $id del; done
w 3 del
names
c cat /sys/bus/netdevsim/new_device
c cat /sys/bus/netdevsim/del_device
c bash -c 'echo 2 >/sys/bus/netdevsim/other'
c bash -c 'echo 2 >/sys/bus/netdevsim'
c stat -c %A /sys/bus/netdevsim /sys/bus/netdevsim/new_device /sys/bus/netdevsim/del_device
c test -d /sys/bus/netdevsim
c sh -c 'ls /sys/bus/netdevsim | grep _device'
c sh -c 'ls -l /sys/bus/netdevsim/new_device | cut -c1-10'

# Links
c ip link add e0 type netdevsim
c ip link add eth0 type netdevsim
c ip link add type netdevsim
c ip link set eth0 type netdevsim
c ip link del eth0
c ip link show type netdevsim
c ip link set eth0 mtu 67
c ip link set eth0 mtu 65536
c ip link set eth0 mtu 65535
c ip link set eth0 carrier off
c ip link set eth0 address 01:00:00:00:00:01
c ip link set eth0 address 02:00:00:00:00:01
c ip link show eth0
c ip link set eth0 up
c ip link show eth0
c ip addr add 10.0.0.1/24 dev eth0
c ip link set eth1 name sim0
l sim0
c ip link set sim0 name eth1

# Traffic control
c tc qdisc show dev eth0
c tc qdisc add dev eth0 root handle 1: mq
c tc class show dev eth0
c tc qdisc replace dev eth0 root handle 2: mqprio num_tc 2 map 0 1 queues 2@0 2@2 hw 0
c tc qdisc show dev eth0 root
c tc qdisc del dev eth0 root
c tc qdisc add dev eth0 root mqprio num_tc 2 map 0 1 queues 2@0 2@2 hw 1
c tc qdisc add dev eth0 root mqprio num_tc 2 map 0 1 queues 2@0 9@9 hw 1
c tc qdisc add dev eth0 root mqprio num_tc 2 map 0 2 queues 2@0 2@2 hw 1
c tc qdisc add dev eth0 root cbs idleslope 1 sendslope -1 hicredit 1 locredit -1 offload 1
c tc qdisc add dev eth0 root etf clockid CLOCK_TAI delta 1 offload
c tc qdisc add dev eth0 root taprio num_tc 2 map 0 1 queues 1@0 1@1 sched-entry S 01 1000000 flags 2
c tc qdisc add dev eth0 root htb offload
c tc qdisc show dev eth0 root
c tc qdisc add dev eth0 clsact
c tc filter add dev eth0 ingress matchall skip_hw action drop
c tc filter show dev eth0 ingress
# Namespaces: the writer's namespace counts, regardless of who opened the file.
c ip netns add other-netdevsim
c ip netns exec other-netdevsim bash -c "echo '2 1 4' >/sys/bus/netdevsim/new_device"
echo "+ from here"
ip netns exec other-netdevsim echo '3 1' >/sys/bus/netdevsim/new_device
c ip netns exec other-netdevsim bash -c "echo '1 1 4' >/sys/bus/netdevsim/new_device"
names
echo "+ there"
ip -n other-netdevsim -br link | cut -d' ' -f1
c ip link set eth1 netns other-netdevsim
c ip link set eth1 netns other-netdevsim name eth5
echo "+ there"
ip -n other-netdevsim -br link | cut -d' ' -f1
w 2 del
w 1 del
w 3 del
names
echo "+ there"
ip -n other-netdevsim -br link | cut -d' ' -f1
c ip netns del other-netdevsim
