# SPDX-License-Identifier: Apache-2.0 OR MIT
# Bonds: their options, ports, the active port, and what they refuse.
# Its output on Linux 6.1 is bond.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# A kernel without CONFIG_RPS does not show receive queues.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues [0-9]* //'; }
a='address 02:00:00:00:00'
# A new bond with these options, and its state.
t() { c ip link add b0 type bond "$@" && { ip -d link show b0 | sed -n 's/ addrgenmode.*//; s/^    bond /bond /p'; ip link del b0; }; }
for n in 1 2 3; do c ip link add d$n $a:0$n mtu 140$n type dummy; done
c ip link add bond0 $a:10 type bond
l bond0
ip -j -d link show bond0 | sed 's/"num_rx_queues":[0-9]*,//'
c ip link del bond0
for m in balance-rr active-backup balance-xor broadcast; do t mode $m; done
t miimon 100 updelay 250 downdelay 130
t mode active-backup miimon 100 arp_interval 100
t mode active-backup updelay 100
t mode balance-rr arp_validate all
t mode active-backup arp_ip_target 10.0.0.1,10.0.0.2
t mode active-backup miimon 100 arp_validate 3
t mode active-backup arp_ip_target 0.0.0.0
t mode active-backup arp_ip_target 255.255.255.255
t mode active-backup arp_ip_target 10.0.0.1,10.0.0.1
t mode active-backup ns_ip6_target fe80::1
t mode active-backup ns_ip6_target 2001:db8::1,2001:db8::2
t mode active-backup ns_ip6_target ff02::1
t mode balance-rr primary d1
t mode active-backup primary d1
t mode balance-rr primary_reselect better
t mode active-backup fail_over_mac active
t mode active-backup fail_over_mac follow
t mode balance-rr fail_over_mac active
for p in layer2 layer2+3 layer3+4 encap2+3 encap3+4 vlan+srcmac; do t mode balance-xor xmit_hash_policy $p; done
t mode balance-rr packets_per_slave 7
t mode balance-rr packets_per_slave 0
t mode balance-rr packets_per_slave 70000
t mode balance-xor packets_per_slave 7
t mode active-backup num_grat_arp 3
t mode active-backup num_unsol_na 255
t mode active-backup peer_notify_delay 250 miimon 100
t mode active-backup peer_notify_delay 250
t mode active-backup peer_notify_delay 400000 miimon 100
t mode active-backup all_slaves_active 1
t mode active-backup all_slaves_active 2
t mode active-backup resend_igmp 5
t mode active-backup resend_igmp 256
t mode active-backup min_links 2
t mode active-backup lp_interval 2
t mode active-backup lp_interval 0
t mode active-backup use_carrier 0
t mode active-backup use_carrier 2
t mode active-backup arp_missed_max 4
t mode active-backup arp_missed_max 0
t mode active-backup tlb_dynamic_lb 0
t mode active-backup lacp_rate fast
t mode active-backup lacp_active off
t mode active-backup ad_select count
t mode active-backup ad_user_port_key 5
t mode active-backup ad_actor_sys_prio 5
t mode active-backup ad_actor_system 02:00:00:00:00:77
t mode active-backup active_slave d1
t mode active-backup miimon 2147483648
c ip link add bond1 mtu 100000 type bond
# Ports.
c ip link add bond0 $a:10 type bond mode active-backup miimon 100
c ip link add bond1 $a:11 mtu 1450 type bond mode active-backup miimon 100
c ip link set bond0 up
sleep 1
l bond0
c ip link set bond0 type bond mode balance-rr
c ip link set bond0 type bond ad_select count
c ip link set d1 up
c ip link set d1 master bond0
c ip link set d1 down
c ip link set d1 master bond0
l bond0
l d1
ip -j -d link show d1 | sed 's/"num_rx_queues":[0-9]*,//'
c ip link set d2 master bond0
c ip link set bond0 type bond mode balance-xor
l d2
c ip link set lo master bond0
c ip link set bond0 master bond0
c ip link set d1 master bond1
c ip link set d1 master bond0
c ip link set bond1 master bond0
c ip link set bond1 nomaster
c ip link set bond1 $a:11
c ip link set bond0 master bond1
c ip link add link bond0 name v0 type vlan id 5
c ip link set v0 up
c ip link set v0 down
c ip link set v0 master bond0
c ip link add br0 $a:20 type bridge mcast_snooping 0
c ip link set br0 master bond0
c ip link set br0 nomaster
c ip link add v1 $a:31 mtu 9000 type veth peer name v2 $a:32
c ip link set v1 master bond0
sleep 1
l v1
c ip link set v1 type bond_slave queue_id 2
c ip link set v1 type bond_slave queue_id 20
c ip link set d2 type bond_slave queue_id 2
c ip link set v1 type bond_slave prio 3
l v1
# The active port.
c ip link set bond0 type bond active_slave d2
l bond0
c ip link set bond0 type bond active_slave d3
c ip link set bond0 type bond active_slave v1
c ip link set bond0 type bond clear_active_slave
l bond0
c ip link set bond0 type bond primary d2
l bond0
c ip link set bond0 type bond primary_reselect failure
c ip link set bond0 type bond fail_over_mac active
c ip link set bond0 type bond lacp_rate fast
c ip link set bond0 mtu 1300
c ip -br link
ip link | grep mtu
c ip link set bond0 mtu 60
c ip link set d1 mtu 1200
ip link | grep mtu
c ip link set bond0 address 02:00:00:00:00:55
c ip -br link
c ip link set d1 address 02:00:00:00:00:66
c ip link set d2 down
sleep 1
l bond0
l d2
c ip link set d2 up
sleep 1
l bond0
c ip link set d1 carrier off
sleep 1
l bond0
l d1
c ip link set d2 carrier off
sleep 1
l bond0
l v0
c ip link set d1 carrier on
sleep 1
l bond0
c ip link set v2 up
sleep 1
l bond0
l v1
c ip -br link
c ip link set d1 nomaster
c ip link set d1 nomaster
l d1
c ip link set d2 nomaster
c ip -br link
c ip link set v1 nomaster
l v1
ip -d link show bond0 | grep -v link/ether | sed 's/numrxqueues [0-9]* //'
c ip link del bond0
c ip -br link show type dummy
c ip link add link d2 name m0 $a:70 type macvlan
c ip link set d2 master bond1
c ip link set d3 master bond1
l d3
c ip link set bond1 netns 1
c ip netns add n1
c ip link set d3 netns n1
c ip -n n1 -br link show type dummy
c ip link set d1 master bond1
c ip link del bond1
c ip -br link show type dummy
# Without a name for its address, a bond takes that of its first port.
c ip link add bond2 type bond mode balance-rr
c ip link set d1 master bond2
l bond2
l d1
c ip link set bond2 down
l d1
c ip link del d1
c ip -br link show type dummy
ip -d link show bond2 | grep -v link/ether | sed 's/numrxqueues [0-9]* //'
c ip link del bond2
c ip link add bond3 numtxqueues 4 type bond fail_over_mac active mode active-backup
c ip link add d5 $a:05 type dummy
c ip link add d6 $a:06 type dummy
c ip link set d5 master bond3
c ip link set d6 master bond3
c ip link set bond3 up
c ip link set bond3 address 02:00:00:00:00:99
c ip -br link show master bond3
sleep 1
l bond3
c ip link set bond3 type bond active_slave d6
l bond3
c ip link del bond3
c ip -br link show type dummy
c ip link add bond4 $a:40 type bond fail_over_mac follow mode active-backup
c ip link set d5 master bond4
c ip link set d6 master bond4
c ip -br link show master bond4
c ip link set bond4 type bond active_slave d6
c ip -br link show master bond4
c ip link set bond4 type bond active_slave d5
c ip -br link show master bond4
c ip link del bond4
c ip -br link show type dummy
c ip link add bond5 $a:50 up type bond mode balance-xor
c ip link set d5 master bond5
c ip -br link show
c bridge fdb show dev d5
c bridge fdb add 02:00:00:00:00:88 dev bond5
c bridge fdb show dev d5
c ip link set bond5 promisc on
l d5
c ip link set d6 master bond5
l d6
c bridge fdb show dev d6
c ip link set bond5 down
c bridge fdb show dev d5
c ip link set d6 nomaster
l d6
ethtool -i bond5 | grep -v ^version
c ethtool bond5
c ip link add type bond
ip -br link show type bond | cut -c1-30
t mode active-backup ns_ip6_target 2001:db8::1,2001:db8::1
t mode active-backup arp_interval 100 arp_validate all arp_all_targets all ns_ip6_target 2001:db8::1,2001:db8::2
t mode 802.3ad arp_interval 100 ns_ip6_target 2001:db8::1
t mode balance-rr arp_interval 100 arp_ip_target 10.0.0.1 ns_ip6_target 2001:db8::1
