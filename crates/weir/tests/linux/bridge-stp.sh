# SPDX-License-Identifier: Apache-2.0 OR MIT
# The spanning tree protocol: three bridges in a loop.
# Its output on Linux 6.1 is bridge-stp.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
t='s/config_pending . //; s/topology_change\(_detected\|_ack\)\? . //g; s/ageing_time [0-9]* //; s/tso_max_size [0-9]* //; s/\(hello\|tcn\|topology_change\|gc\|hold\|message_age\|forward_delay\)_timer *[0-9.]* //g; s/numrxqueues 1 //'
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed "$t"; }
ports() { echo "+ states"; bridge link | sed 's/@[^:]*//; s/^[0-9]*: //' | sort; }
for n in 1 2 3; do
    c ip link add br$n address 02:00:00:00:00:0$n type bridge mcast_snooping 0 stp_state 1 forward_delay 200 hello_time 100 max_age 600
done
c ip link set br1 type bridge stp_state 1 forward_delay 199
c ip link set br1 type bridge forward_delay 3001
c ip link set br1 type bridge max_age 599
c ip link set br1 type bridge hello_time 1001
link() { ip link add $1 address 02:00:00:00:01:$3 type veth peer name $2 address 02:00:00:00:01:$4; }
link a12 a21 12 21; link a23 a32 23 32; link a31 a13 31 13
for p in a12 a13; do ip link set $p master br1; done
for p in a21 a23; do ip link set $p master br2; done
for p in a31 a32; do ip link set $p master br3; done
l br1
c bridge link set dev a32 cost 20
c bridge link set dev a12 guard off root_block off
for p in a12 a21 a23 a32 a31 a13 br1 br2 br3; do ip link set $p up; done
sleep 8
c bridge link set dev a12 state 3
ports
l a12
l a32
l a23
l br1
l br3
# Another root.
c ip link set br3 type bridge priority 4096
sleep 8
ports
l br1
l br3
# The network between br1 and br3 fails.
c ip link set a13 down
sleep 14
ports
c bridge link set dev a12 guard on
sleep 3
ports
c ip link set br1 type bridge stp_state 0
echo "+ br1"; ip -d link show br1 | grep -o "stp_state.*priority [0-9]*"
