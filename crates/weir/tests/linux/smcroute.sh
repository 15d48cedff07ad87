# SPDX-License-Identifier: Apache-2.0 OR MIT
# smcroute routes multicast packets between three networks: a sender's and those of two receivers.
# Its output on Linux 6.1 is smcroute.txt beside it; record makes it.
exec 2>&1
place=$(cd "$(dirname "$0")" && pwd)
D=$(mktemp -d)
cd $D
sysctl -qw net.ipv6.conf.default.disable_ipv6=1
for n in sender router first second; do
    ip netns add $n
    ip netns exec $n sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
    ip -n $n link set lo up
done
i=0
for n in sender first second; do
    ip link add eth0 netns $n type veth peer name e$i netns router
    ip -n router addr add 10.0.$i.1/24 dev e$i
    ip -n router link set e$i up
    ip -n $n addr add 10.0.$i.2/24 dev eth0
    ip -n $n link set eth0 up
    ip -n $n route add default via 10.0.$i.1
    i=$((i + 1))
done
ctl() { echo "+ smcroutectl $*"; smcroutectl -u $D/sock "$@"; }
show() { echo "+ ip mroute"; ip -n router mroute show | sort; }
# Sends to groups with a TTL each.
send() { echo "+ packets to $*"; ip netns exec sender python3 $place/smcroute.py send "$@"; sleep 1; }
for n in first second; do
    ip netns exec $n python3 -u $place/smcroute.py receive 225.1.2.3 225.1.2.4 225.1.2.5 >$n &
    receivers="$receivers $!"
done
cat >conf <<END
phyint e0 enable ttl-threshold 1
phyint e1 enable ttl-threshold 1
phyint e2 enable ttl-threshold 5
mroute from e0 source 10.0.0.2 group 225.1.2.3 to e1 e2
mgroup from e0 group 225.1.2.4
mroute from e0 group 225.1.2.4 to e1
END
ip netns exec router smcrouted -N -n -f conf -P $D/pid -u $D/sock >log 2>&1 &
daemon=$!
until [ -S sock ]; do sleep 0.2; done
sleep 1
until grep -q ready first && grep -q ready second; do sleep 0.2; done
ip netns exec router cut -c1-53 /proc/net/ip_mr_vif
show
send 225.1.2.3 9 225.1.2.3 4 225.1.2.4 9 225.1.2.5 9
show
ctl add e0 10.0.0.2 225.1.2.5 e2
show
send 225.1.2.5 9
ctl remove e0 10.0.0.2 225.1.2.3
send 225.1.2.3 9
show
for n in first second; do
    echo "+ $n"
    cat $n
done
ip netns exec router cat /proc/net/ip_mr_cache | cut -c1-49 | sort
echo "+ joined"
ip -n router maddr show dev e0 | grep 225
ctl kill
sleep 1
kill $receivers
kill -0 $daemon 2>/dev/null && echo "the daemon is there"
show
ip netns exec router sysctl net.ipv4.conf.all.mc_forwarding net.ipv4.conf.e0.mc_forwarding
for n in sender router first second; do ip netns del $n; done
rm -r $D
