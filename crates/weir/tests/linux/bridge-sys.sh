# SPDX-License-Identifier: Apache-2.0 OR MIT
# /sys/class/net of bridges and their ports.
# Its output on Linux 6.1 is bridge-sys.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
show() {
    echo "+ $1"
    for file in /sys/class/net/"$1"/*; do
        case $file in */gc_timer) continue ;; esac
        [ ! -f "$file" ] || echo "${file##*/} $(stat -c %a "$file") $(cat "$file" 2>&1 | tr '\n' '|')"
    done
}
put() {
    echo "+ echo $1 >$2"
    sh -c 'printf %b "$1" >"/sys/class/net/$2"' put "$1" "$2" 2>&1 | sed 's/^put: [0-9]*: //'
    case $2 in */flush) ;; *) cat "/sys/class/net/$2" ;; esac
}
c ip link add br0 address 02:00:00:00:00:10 type bridge mcast_snooping 0
c ip link add d0 address 02:00:00:00:00:01 up type dummy
c ip link add d1 address 02:00:00:00:00:02 up type dummy
# On Linux /sys may show another namespace; elsewhere there is nothing to mount.
[ -e /sys/class/net/d0 ] || mount -t sysfs sysfs /sys 2>/dev/null
c ip link set d0 master br0
c ip link set d1 master br0
c ls /sys/class/net/br0/brif
ls -d /sys/class/net/*/bridge /sys/class/net/*/brport
show br0/bridge
show d0/brport
put 500 br0/bridge/ageing_time
put 0x1000 br0/bridge/priority
put 1 br0/bridge/vlan_filtering
put 1 br0/bridge/vlan_stats_enabled
put 8 br0/bridge/group_fwd_mask
put 1 br0/bridge/group_fwd_mask
put 1 br0/bridge/flush
put x br0/bridge/ageing_time
put 1 d0/brport/hairpin_mode
put 0 d0/brport/learning
put 77 d0/brport/path_cost
put 0 d0/brport/path_cost
put 64 d0/brport/priority
put 9 d0/brport/priority
put 1 d1/brport/isolated
cat /sys/class/net/br0/brif/d1/isolated
ip link set d1 nomaster
ls /sys/class/net/br0/brif
cat /sys/class/net/d1/brport/state
