#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# run.sh [COUNT]: that many private stacks at once, 20 if not said, and none disturbs another.
#
# Every stack has the same names with other contents (stack.sh), and all are there at the same
# time: none looks at what it made before the last one has made everything. Half of them route the
# shipped capture, and all must send the same bytes. The machine's own network is the same
# before and after. Exit status 0 if all that holds.
#
# WEIR: the program, default weir.
set -eu

here=$(dirname "$(readlink -f "$0")")
weir=${WEIR:-weir}
count=${1:-20}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Of what has a life time, the time that is left changes by itself.
host() {
    {
        ip -o link
        ip -o address
        ip route show table all
        ip rule
        ls /run/netns 2>/dev/null || true
    } | sed 's/[0-9]*sec/SEC/g'
}
host >"$work/host-before"

router=$here/../edge-router
pids=
n=1
while [ $n -le "$count" ]; do
    if [ $((n % 2)) = 0 ]; then
        $weir run --seed 1 --out "core/wan0=$work/wan-$n.pcapng" \
            --in "edge/lan0=$router/lan.pcapng.gz" --in "core/wan0=$router/wan.pcapng.gz" \
            -- sh "$here/stack.sh" $n "$count" "$work" "$router/setup.sh" >"$work/log-$n" 2>&1 &
    else
        $weir run -- sh "$here/stack.sh" $n "$count" "$work" >"$work/log-$n" 2>&1 &
    fi
    pids="$pids $!"
    n=$((n + 1))
done

failed=0
n=1
for pid in $pids; do
    wait "$pid" || {
        echo "stack $n failed:" >&2
        tail -n 5 "$work/log-$n" >&2
        failed=$((failed + 1))
    }
    n=$((n + 1))
done

host >"$work/host-after"
cmp -s "$work/host-before" "$work/host-after" || {
    echo "the machine's own network changed:" >&2
    diff "$work/host-before" "$work/host-after" >&2 || true
    failed=$((failed + 1))
}

n=4
while [ $n -le "$count" ]; do
    cmp "$work/wan-2.pcapng" "$work/wan-$n.pcapng" >&2 || failed=$((failed + 1))
    n=$((n + 2))
done

[ $failed = 0 ] || { echo "$failed of the checks failed" >&2; exit 1; }
echo "$count stacks side by side, none disturbed another"
