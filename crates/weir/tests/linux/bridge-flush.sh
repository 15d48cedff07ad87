# SPDX-License-Identifier: Apache-2.0 OR MIT
# bridge fdb flush.
# Its output on Linux 6.1 is bridge-flush.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
f() { echo "+ bridge fdb show br br0"; bridge fdb show br br0 | grep -v " self " | sort; }
fill() {
    for dev in d0 d1; do
        for kind in static "static sticky" dynamic permanent; do
            bridge fdb replace 02:00:00:00:0${dev#d}:$(printf %02x ${#kind}) dev $dev master $kind
        done
    done
}
c ip link add br0 address 02:00:00:00:00:10 type bridge mcast_snooping 0
c ip link add br1 address 02:00:00:00:00:11 type bridge mcast_snooping 0
for n in 0 1 2; do
    ip link add d$n address 02:00:00:00:01:0$n up type dummy
done
c ip link set br0 up
c ip link set d0 master br0
c ip link set d1 master br0
c ip link set d2 master br1
c bridge vlan add dev d0 vid 5
sleep 1
fill
f
c bridge fdb flush dev br0 vlan 5
f
c bridge fdb flush dev br0 vlan 99
c bridge fdb flush dev d0 master static nosticky dynamic
c bridge fdb flush dev d0 master dynamic
c bridge fdb flush dev br0 sticky
f
fill
c bridge fdb flush dev br0 brport d1 nopermanent
f
fill
c bridge fdb flush dev br0 brport d2
c bridge fdb flush dev br0 brport br1
c bridge fdb flush dev br0 brport lo
c bridge fdb flush dev d2
c bridge fdb flush dev d0 self
c bridge fdb flush dev lo
c bridge fdb flush dev br0 vlan 4096
c bridge fdb flush dev br0 added_by_user
c bridge fdb flush dev br0 extern_learn
c bridge fdb flush dev br0 offloaded
c bridge fdb flush dev br0 permanent noadded_by_user
f
fill
c bridge fdb flush dev d0 master
f
c bridge fdb flush dev br0 self
f
