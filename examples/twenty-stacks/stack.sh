#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# stack.sh NUMBER COUNT DIRECTORY [SETUP]: one of the stacks of run.sh.
#
# Creates links, addresses, routes, a namespace and a filter whose names are the same in all stacks
# and whose contents depend on the number. Waits until all stacks have done so. Then checks each of
# them, and that there is nothing else.
set -eu

number=$1 count=$2 directory=$3

[ $# -lt 4 ] || sh "$4"

ip netns add inside
ip link add d0 mtu $((1000 + number)) type dummy
ip link add v0 type veth peer name v1 netns inside
ip link set d0 up
ip address add "10.$number.0.1/24" dev d0
ip route add 192.0.2.0/24 via "10.$number.0.2"
ip -n inside address add "10.$number.1.2/24" dev v1
sysctl -q -w "net.ipv4.ip_default_ttl=$((100 + number))"
tc qdisc add dev d0 clsact
tc filter add dev d0 ingress pref "$number" protocol ip flower dst_ip "10.$number.0.0/16" action drop
i=0
while [ $i -lt "$number" ]; do
    ip link add "own$i" type dummy
    i=$((i + 1))
done

: >"$directory/made-$number"
tries=0
until [ "$(find "$directory" -name 'made-*' | wc -l)" = "$count" ]; do
    tries=$((tries + 1))
    [ $tries -lt 3000 ] || { echo "the other stacks did not get ready" >&2; exit 1; }
    sleep 0.1
done

# same WHAT EXPECTED FOUND
same() {
    [ "$2" = "$3" ] || { echo "stack $number: $1 is '$3', not '$2'" >&2; exit 1; }
}
same "mtu of d0" $((1000 + number)) "$(ip -o link show d0 | sed 's/.* mtu \([0-9]*\) .*/\1/')"
same "address of d0" "10.$number.0.1/24" "$(ip -o -4 address show d0 | awk '{ print $4 }')"
same "gateway" "10.$number.0.2" "$(ip route show 192.0.2.0/24 | awk '{ print $3 }')"
same "address inside" "10.$number.1.2/24" "$(ip -n inside -o -4 address show v1 | awk '{ print $4 }')"
same "default ttl" $((100 + number)) "$(sysctl -n net.ipv4.ip_default_ttl)"
same "prefs of the filters" "$number" "$(tc filter show dev d0 ingress | awk '$1 == "filter" && $6 == "flower" { print $5 }' | sort -u)"
same "count of own links" "$number" "$(ip -o link | grep -c ': own')"
if [ $# -lt 4 ]; then
    same "namespaces" inside "$(ip netns list | awk '{ print $1 }' | sort | xargs)"
else
    same "namespaces" "core edge inside" "$(ip netns list | awk '{ print $1 }' | sort | xargs)"
fi
