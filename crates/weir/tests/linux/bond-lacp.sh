# SPDX-License-Identifier: Apache-2.0 OR MIT
# Bonds of mode 802.3ad; /proc/net/bonding and /sys/class/net/BOND/bonding of every mode.
# Its output on Linux 6.1 is bond-lacp.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues [0-9]* //'; }
p() { echo "+ proc $1"; sed 1,2d /proc/net/bonding/$1; }
show() {
    echo "+ $1"
    for file in /sys/class/net/"$1"/*; do
        [ ! -f "$file" ] || echo "${file##*/} $(stat -c %a "$file") $(cat "$file" 2>&1 | tr '\n' '|')"
    done
}
put() {
    echo "+ echo $1 >$2"
    sh -c 'printf %b "$1" >"/sys/class/net/$2"' put "$1" "$2" 2>&1 | sed 's/^put: [0-9]*: //'
    cat "/sys/class/net/$2"
}
a='address 02:00:00:00:00'
for n in 1 2; do
    c ip link add p$n $a:0$n type veth peer name q$n $a:1$n
    ip link set q$n up
done
# On Linux /sys may show another namespace; elsewhere there is nothing to mount.
[ -e /sys/class/net/p1 ] || mount -t sysfs sysfs /sys 2>/dev/null
c ip link add bond0 $a:50 type bond mode 802.3ad arp_interval 100
c ip link add bond0 $a:50 type bond mode 802.3ad arp_validate all
c ip link add bond0 $a:50 type bond mode 802.3ad ad_user_port_key 1024
c ip link add bond0 $a:50 type bond mode 802.3ad ad_actor_sys_prio 0
c ip link add bond0 $a:50 type bond mode 802.3ad ad_actor_system 01:00:00:00:00:01
c ip link add bond0 $a:50 type bond mode 802.3ad primary p1
c ip link add bond0 $a:50 type bond mode 802.3ad packets_per_slave 2
c ip link add bond0 $a:50 type bond mode 802.3ad xmit_hash_policy layer3+4 updelay 200
l bond0
ip -j -d link show bond0 | sed 's/"num_rx_queues":[0-9]*,//'
p bond0
show bond0/bonding
c ip link set bond0 type bond mode balance-rr
c ip link set bond0 type bond mode 802.3ad updelay 0
c ip link set p1 master bond0
c ip link set p2 master bond0
l bond0
l p1
p bond0
c ip link set bond0 up
sleep 5
l bond0
l p1
l p2
p bond0
show bond0/bonding
show p1/bonding_slave
c ip link set bond0 type bond lacp_rate fast
c ip link set bond0 type bond lacp_active off
c ip link set bond0 type bond ad_select count
c ip link set bond0 type bond ad_user_port_key 3
c ip link set bond0 type bond ad_actor_sys_prio 7
c ip link set bond0 type bond ad_actor_system 02:00:00:00:00:77
c ip link set bond0 type bond min_links 2
sleep 0.3
l bond0
p bond0
c ip link set bond0 type bond min_links 0
c ip link set q1 down
sleep 5
l bond0
l p1
l p2
p bond0
c ip link set q1 up
sleep 5
l bond0
c ip link set p2 nomaster
sleep 0.5
p bond0
c ip link set bond0 down
put fast bond0/bonding/lacp_rate
put 0 bond0/bonding/lacp_active
put bandwidth bond0/bonding/ad_select
put 9 bond0/bonding/ad_select
put 0 bond0/bonding/ad_actor_sys_prio
put 9 bond0/bonding/ad_user_port_key
put 02:00:00:00:00:99 bond0/bonding/ad_actor_system
put 250 bond0/bonding/updelay
put 200 bond0/bonding/miimon
put layer2+3 bond0/bonding/xmit_hash_policy
put 0 bond0/bonding/mode
put -p1 bond0/bonding/slaves
put 0 bond0/bonding/mode
c ip link set bond0 up
put 802.3ad bond0/bonding/mode
c ip link set bond0 down
ip link set p1 down
put +p1 bond0/bonding/slaves
put p1:3 bond0/bonding/queue_id
put p1:30 bond0/bonding/queue_id
show bond0/bonding
show p1/bonding_slave
p bond0
c ip link del bond0
for mode in active-backup balance-xor broadcast; do
    c ip link add bond0 $a:51 type bond mode $mode miimon 50
    c ip link set p1 down
    c ip link set p1 master bond0
    p bond0
    show bond0/bonding
    c ip link del bond0
done
c ip link add bond0 $a:51 type bond mode active-backup miimon 50 updelay 100 fail_over_mac follow
for n in 1 2; do ip link set p$n down; ip link set p$n master bond0; done
c ip link set bond0 up
sleep 0.4
p bond0
put p2 bond0/bonding/primary
put better bond0/bonding/primary_reselect
put p1 bond0/bonding/active_slave
p bond0
put 10.0.0.9 bond0/bonding/arp_ip_target
put +10.0.0.8 bond0/bonding/arp_ip_target
put -10.0.0.7 bond0/bonding/arp_ip_target
put -10.0.0.9 bond0/bonding/arp_ip_target
put 0.0.0.0 bond0/bonding/arp_ip_target
put 9 bond0/bonding/num_unsol_na
c ip link set bond0 down
put 100 bond0/bonding/arp_interval
put all bond0/bonding/arp_validate
put all bond0/bonding/arp_all_targets
put 5 bond0/bonding/arp_missed_max
put 300 bond0/bonding/arp_missed_max
p bond0
l bond0
c ip link set bond0 type bond arp_ip_target 10.0.0.5,10.0.0.6
l bond0
put 100 bond0/bonding/miimon
l bond0
c ip link set bond0 type bond arp_interval 200
l bond0
c ip link del bond0
c ip link add bond0 $a:51 type bond mode balance-rr arp_interval 100 arp_ip_target 10.0.0.5 arp_validate all
l bond0
c ls -d /sys/class/net/*/bonding /sys/class/net/*/bonding_slave
c ls /proc/net/bonding
