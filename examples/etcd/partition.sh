#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The network, the servers and the clients of run.sh. It also runs on real Linux, as root.
set -euo pipefail
data=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$data"' EXIT

ip netns add switch
ip -n switch link add br0 type bridge
ip -n switch link set br0 up
cluster=
for n in 1 2 3; do
    ip netns add n$n
    ip link add eth0 netns n$n type veth peer name port$n netns switch
    ip -n n$n addr add 10.0.0.$n/24 dev eth0
    ip -n n$n link set lo up
    ip -n n$n link set eth0 up
    ip -n switch link set port$n master br0 up
    cluster=$cluster${cluster:+,}n$n=http://10.0.0.$n:2380
done

for n in 1 2 3; do
    url=http://10.0.0.$n
    ip netns exec n$n etcd --name n$n --data-dir "$data/n$n" --heartbeat-interval 50 --election-timeout 500 \
        --listen-peer-urls $url:2380 --initial-advertise-peer-urls $url:2380 \
        --listen-client-urls $url:2379 --advertise-client-urls $url:2379 \
        --initial-cluster "$cluster" --initial-cluster-state new >"$data/n$n.log" 2>&1 &
done

# at N COMMAND...: asks server N in its own namespace.
at() {
    local n=$1
    shift
    ETCDCTL_API=3 ip netns exec n$n etcdctl --endpoints=http://10.0.0.$n:2379 --command-timeout=2s "$@" 2>/dev/null
}
# until_works COMMAND...: tries again for twenty seconds.
until_works() {
    local try
    for try in {1..100}; do
        "$@" && return
        sleep 0.2
    done
    echo "never: $*" >&2
    tail -n 3 "$data"/*.log >&2
    return 1
}

put() { at "$@" | grep -q OK; }
until_works put 1 put color red
echo "three servers: $(at 2 get --print-value-only color)"

ip -n switch link set port1 down
until_works put 2 put color green
echo "without the first: $(at 3 get --print-value-only color)"
echo "the first alone: $(at 1 get --print-value-only color || echo no answer)"

ip -n switch link set port1 up
is_green() { [ "$(at 1 get --print-value-only color)" = green ]; }
until_works is_green
echo "three again: $(at 1 get --print-value-only color)"
