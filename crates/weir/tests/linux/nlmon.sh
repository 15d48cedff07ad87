# SPDX-License-Identifier: Apache-2.0 OR MIT
# The link kind nlmon: its device, and what a packet socket and tcpdump see of the netlink messages of a namespace.
# Its output on Linux 6.1 is nlmon.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# A kernel without CONFIG_RPS does not show receive queues.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //;s/^[0-9]*: //'; }
[ -d /run/modules ] && modprobe -d /run/modules nlmon
ip link set lo up
c ip link add nlmon0 type nlmon
l nlmon0
c ip link set nlmon0 up
l nlmon0
ip addr show nlmon0 | sed 's/^[0-9]*: //'
c ip addr add 10.0.0.1/24 dev nlmon0
c ip addr del 10.0.0.1/24 dev nlmon0
c ip link add nlmon1 address 02:00:00:00:00:01 type nlmon
c ip link add nlmon1 type nlmon
c ip link set nlmon1 type nlmon
c ip link set nlmon0 address 02:00:00:00:00:01
c ip link set nlmon0 mtu 15
c ip link set nlmon0 mtu 16
c ip link set nlmon0 mtu 100000
c ip link set nlmon1 master nlmon0
c ip link del nlmon1
python3 "${0%.sh}.py"
counts() { ip -s link show nlmon0 | awk '/[RT]X:/ { getline; print $1, $2, $3, $4 }'; }
c ip link set nlmon0 down
counts >"${TMPDIR:-/tmp}/nlmon-counts"
ip link set lo mtu 65535
echo "+ counts while it is down"
counts | cmp - "${TMPDIR:-/tmp}/nlmon-counts" && echo the same
rm "${TMPDIR:-/tmp}/nlmon-counts"
c ip link set nlmon0 up
# Another namespace has its own messages.
ip netns add nlmon-other
echo "+ counts of an ip link set"
before=$(counts | head -n 1 | cut -d' ' -f2)
ip link set lo mtu 65000
after=$(counts | head -n 1 | cut -d' ' -f2)
echo $((after - before))
counts | tail -n 1
echo "+ counts of an ip link set elsewhere"
before=$(counts | head -n 1 | cut -d' ' -f2)
ip -n nlmon-other link set lo mtu 65000
after=$(counts | head -n 1 | cut -d' ' -f2)
echo $((after - before))
c ip link set nlmon0 netns nlmon-other
ip -n nlmon-other link show nlmon0 | sed 's/^[0-9]*: //'
ip netns del nlmon-other
c ip link add nlmon0 type nlmon
c ip link set nlmon0 up
echo "+ tcpdump"
file=$(mktemp)
# Without -Z it gives up the user of root, which an ordinary user's namespace does not have another one for.
tcpdump -Z root --immediate-mode -U -i nlmon0 -w $file 2>$file.log &
while kill -0 $! && ! grep -qs listening $file.log; do sleep 0.1; done
sleep 0.5
ip link set lo mtu 60000
sleep 0.5
kill $!
wait
grep listening $file.log | sed 's/, snap.*//'
# The link type, and the cooked header and the first header of the first request.
od -An -tx1 -j20 -N4 $file
od -An -tx1 -j40 -N24 $file
rm $file $file.log
