# Promiscuous mode of a VLAN is passed to its lower device, which notifies of it.
ip link add d0 address 02:00:00:00:00:11 type dummy
ip link set d0 up
ip link add link d0 name d0.5 type vlan id 5
ip link add link d0.5 name d0.5.6 type vlan id 6
sysctl -qw net.ipv6.conf.all.disable_ipv6=1
promisc() { ip -d -o link show "$1" | grep -o "<[A-Z,_-]*>\|promiscuity [0-9]*\|allmulti [0-9]*" | tr '\n' ' '; echo; }
ip -o monitor link >$tmp/link & sleep 1
ip link set d0.5 promisc on
promisc d0.5
promisc d0
ip link set d0 promisc on
promisc d0
ip link set d0.5.6 allmulticast on
promisc d0.5.6
promisc d0.5
promisc d0
ip link set d0.5.6 promisc on
promisc d0.5.6
promisc d0.5
promisc d0
ip link set d0.5.6 up
ip link set d0.5 up
promisc d0
ip link set d0.5 promisc off
promisc d0.5
promisc d0
ip link set d0 promisc off
promisc d0
ip link set d0.5.6 allmulticast off
promisc d0
ip link set d0.5.6 promisc off
promisc d0.5
promisc d0
sleep 1; kill $!; grep -o "^[0-9]*: [^:]*: <[^>]*>" $tmp/link
# Linux does not undo it when the VLAN is deleted.
ip link set d0.5 promisc on allmulticast on
ip link del d0.5
promisc d0
# A dormant lower device.
ip link add link d0 name d0.7 type vlan id 7
ip link set d0.7 up
pass 2
ip link show d0.7
ip link set d0 state dormant
pass 2
ip link show d0
ip link show d0.7
ip link set d0.7 state up
ip link show d0.7
ip link set d0.7 state testing
ip link show d0.7
ip link set d0 state up
pass 2
ip link show d0
ip link show d0.7
ip link set d0 state testing
pass 2
ip link show d0.7
ip link set d0 carrier off
pass 2
ip link show d0
ip link show d0.7
ip link set d0 carrier on
pass 2
ip link show d0
ip link show d0.7
# A state set by the user lasts until the carrier changes.
ip link set d0.7 state dormant
ip link show d0.7
ip link set d0 carrier off
pass 2
ip link set d0 carrier on
pass 2
ip link show d0.7
# The mode applies when the carrier changes; from then on only the user brings the device up.
ip link set d0.7 mode dormant
ip link show d0.7
ip link set d0 carrier off
pass 2
ip link show d0.7
ip link set d0 carrier on
pass 2
ip link show d0.7
ip link set d0.7 state up
ip link show d0.7
ip link set d0 mode dormant
ip link set d0 carrier off
pass 2
ip link set d0 carrier on
pass 2
ip link show d0
ip link show d0.7
ip link set d0 state up
pass 2
ip link show d0
ip link show d0.7
ip link set d0 mode default
ip link set d0.7 mode default
# With a loose binding the lower device may be down.
ip link add d1 address 02:00:00:00:00:12 type dummy
ip link add link d1 name d1.5 type vlan id 5 loose_binding on
ip link set d1.5 up
pass 2
ip link show d1.5
ip link set d1 up
pass 2
ip link set d1 down
pass 2
ip link show d1.5
# A veth is not stacked on a peer with the same index in another namespace.
ip netns add n1
ip link add v0 address 02:00:00:00:00:21 index 77 type veth peer name v1 address 02:00:00:00:00:22 index 77 netns n1
ip link set v0 up
pass 2
ip link show v0
ip link add v2 address 02:00:00:00:00:21 index 78 type veth peer name v3 address 02:00:00:00:00:22 index 79 netns n1
ip link set v2 up
pass 2
ip link show v2
# No device here can be a master.
ip link set d0 master d1
ip link set d0 master d0
ip link set d0 master 4711
ip link set d0 nomaster
ip link add d2 master d1 type dummy
ip link show d2
