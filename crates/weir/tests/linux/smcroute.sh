# SPDX-License-Identifier: Apache-2.0 OR MIT
# smcroute routes multicast packets between three networks: a sender's and those of two receivers; of IPv6 for smcroute6.sh.
# Its output on Linux 6.1 is smcroute.txt beside it; record makes it.
exec 2>&1
place=$(cd "$(dirname "$0")" && pwd)
case "$0" in
    *6.sh) v=6 bits=64 vif=ip6_mr_vif cache=ip6_mr_cache conf=net.ipv6.conf end=110 ;;
    *) v=4 bits=24 vif=ip_mr_vif cache=ip_mr_cache conf=net.ipv4.conf end=49 ;;
esac
host() { if [ $v = 6 ]; then echo fc00:$1::$2; else echo 10.0.$1.$2; fi; }
group() { if [ $v = 6 ]; then echo ff05::1:2:$1; else echo 225.1.2.$1; fi; }
D=$(mktemp -d)
cd $D
[ $v = 6 ] || sysctl -qw net.ipv6.conf.default.disable_ipv6=1
for n in sender router first second; do
    ip netns add $n
    case $v in
        4) ip netns exec $n sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 ;;
        6) ip netns exec $n sysctl -qw net.ipv6.conf.default.accept_dad=0 ;;
    esac
    ip -n $n link set lo up
done
i=0
for n in sender first second; do
    ip link add eth0 netns $n type veth peer name e$i netns router
    ip -n router addr add $(host $i 1)/$bits dev e$i
    ip -n router link set e$i up
    ip -n $n addr add $(host $i 2)/$bits dev eth0
    ip -n $n link set eth0 up
    ip -$v -n $n route add default via $(host $i 1)
    i=$((i + 1))
done
ctl() { echo "+ smcroutectl $*"; smcroutectl -u $D/sock "$@"; }
show() { echo "+ ip mroute"; ip -$v -n router mroute show | sort; }
# Sends to groups with a TTL each.
send() { echo "+ packets to $*"; ip netns exec sender python3 $place/smcroute.py send "$@"; sleep 1; }
for n in first second; do
    ip netns exec $n python3 -u $place/smcroute.py receive $(group 3) $(group 4) $(group 5) >$n &
    receivers="$receivers $!"
done
cat >conf <<END
phyint e0 enable ttl-threshold 1
phyint e1 enable ttl-threshold 1
phyint e2 enable ttl-threshold 5
mroute from e0 source $(host 0 2) group $(group 3) to e1 e2
mgroup from e0 group $(group 4)
mroute from e0 group $(group 4) to e1
END
ip netns exec router smcrouted -N -n -f conf -P $D/pid -u $D/sock >log 2>&1 &
daemon=$!
until [ -S sock ]; do sleep 0.2; done
sleep 1
until grep -q ready first && grep -q ready second; do sleep 0.2; done
ip netns exec router cut -c1-53 /proc/net/$vif
show
send $(group 3) 9 $(group 3) 4 $(group 4) 9 $(group 5) 9
show
ctl add e0 $(host 0 2) $(group 5) e2
show
send $(group 5) 9
ctl remove e0 $(host 0 2) $(group 3)
send $(group 3) 9
show
for n in first second; do
    echo "+ $n"
    cat $n
done
ip netns exec router cut -c1-$end /proc/net/$cache | sort
echo "+ joined"
ip -n router maddr show dev e0 | grep $(group 4)
ctl kill
sleep 1
kill $receivers
kill -0 $daemon 2>/dev/null && echo "the daemon is there"
show
ip netns exec router sysctl $conf.all.mc_forwarding $conf.e0.mc_forwarding
for n in sender router first second; do ip netns del $n; done
rm -r $D
