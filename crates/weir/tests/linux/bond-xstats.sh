# SPDX-License-Identifier: Apache-2.0 OR MIT
# The counters of LACP: ip stats of bonds and their ports.
# Its output on Linux 6.1 is bond-xstats.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
a='address 02:00:00:00:00'
for n in 1 2; do
    ip link add p$n $a:0$n type veth peer name q$n $a:1$n
    sysctl -qw net.ipv6.conf.p$n.disable_ipv6=1 net.ipv6.conf.q$n.disable_ipv6=1
    ip link set q$n up
done
ip link add bond0 $a:50 type bond mode 802.3ad lacp_active off
ip link add bond1 $a:51 type bond mode active-backup
ip link set p1 master bond0
ip link set p2 master bond0
c ip stats show dev bond0 group xstats
c ip stats show dev bond1 group xstats
sysctl -qw net.ipv6.conf.bond0.disable_ipv6=1
ip link set bond0 up
sleep 1
# From the other end of p1: markers, their answers, other markers, other frames, short ones.
python3 - <<'END'
import socket
q1 = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
q1.bind(("q1", 0))


def send(subtype, tlv, length=110, to="0180c2000002"):
    body = bytes([subtype, 1, tlv, 16]) + bytes(length - 4)
    q1.send(bytes.fromhex(to + "020000000011" + "8809") + body)


for number, frame in enumerate([(2, 1), (2, 2), (2, 9), (7, 0), (1, 1, 60), (2, 1, 109)], 1):
    for _ in range(number):
        send(*frame)
send(2, 1, to="020000000001")
END
sleep 4
for d in bond0 bond1 p1; do c ip stats show dev $d group xstats; done
for d in bond0 p1 p2 q1; do c ip stats show dev $d group xstats_slave; done
c ip stats show group xstats subgroup bond suite 802.3ad
c ip -j stats show dev bond0 group xstats
# A port that is released sends a last frame on Linux, which is not counted here.
rest() { echo "+ ip stats show dev $*"; ip stats show dev "$@" | grep -v 'LACPDU Tx'; }
ip link set p1 nomaster
rest bond0 group xstats subgroup bond
c ip stats show dev p1 group xstats_slave
ip link set p2 nomaster
ip link set bond0 down
ip link set bond0 type bond mode balance-rr
rest bond0 group xstats subgroup bond
ip link set bond0 type bond mode 802.3ad
ip link set p2 master bond0
rest bond0 group xstats subgroup bond
c ip stats show dev p2 group xstats_slave subgroup bond
