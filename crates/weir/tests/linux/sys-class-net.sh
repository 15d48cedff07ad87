# SPDX-License-Identifier: Apache-2.0 OR MIT
# /sys/class/net: each attribute and counter of devices of several kinds, up and down, and the
# effect of writes. Its output on Linux 6.1 is sys-class-net.txt beside it; record makes it.
exec 2>&1
LC_ALL=C
export LC_ALL
c() { echo "+ $*"; "$@"; echo "[$?]"; }
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
ip link add d0 address 02:00:00:00:00:01 type dummy
# On Linux /sys may show another namespace; elsewhere there is nothing to mount.
[ -e /sys/class/net/d0 ] || mount -t sysfs sysfs /sys 2>/dev/null
ip link add v0 address 02:00:00:00:00:02 numtxqueues 2 type veth peer name v1 address 02:00:00:00:00:03
ip link add link v0 name v0.5 type vlan id 5
ip link add f0 address 02:00:00:00:00:04 type ifb
ip link add x0 address 02:00:00:00:00:05 type vxlan id 7 dstport 4789
ip link add type dummy
ip link set lo up
ip link set d0 up
ip link set v0 up
ip link set d0 alias 'a b'
for device in lo d0 v0 v1 v0.5 f0 x0; do
    show $device
done
cat /sys/class/net/dummy0/name_assign_type /sys/class/net/dummy0/addr_assign_type
ip link set dummy0 name dummy7 address 02:00:00:00:00:06
cat /sys/class/net/dummy7/name_assign_type /sys/class/net/dummy7/addr_assign_type
ip link set v1 up
cd /sys/class/net
grep . v0/carrier* v1/carrier* v0.5/carrier* v?/operstate
ip link set v1 down
grep . v0/carrier* v1/carrier* 2>&1
ls d0/statistics | tr '\n' ' '
ls -d d0/statistics d0/queues v0/queues/tx-*
echo v*
put 1400 d0/mtu
put '0x500\n' d0/mtu
put 70000 v0/mtu
put -1 d0/mtu
put x d0/mtu
put '' d0/mtu
put 0x1002 d0/flags
put 0x1003 d0/flags
put '7\n' d0/tx_queue_len
put 4294967295 d0/tx_queue_len
put 4294967296 d0/tx_queue_len
put 'name\n' d0/ifalias
put '\n' d0/ifalias
put 9 d0/netdev_group
put 0 d0/carrier
put 1 d0/carrier
put 0 v0/carrier
grep . d0/carrier*
put 2 d0/ifindex
put 2 d0/nothing
c test -d nothing
sleep 1.2
c ip link show d0
