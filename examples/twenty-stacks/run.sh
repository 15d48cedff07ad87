#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# run.sh [COUNT]: runs COUNT private stacks at once (default 20) and checks that they are isolated.
#
# Every stack uses the same names with different contents (stack.sh). All exist at the same time:
# none checks its objects before the last one has created everything. Half of them route the
# shipped capture, and all of those must send the same bytes. The host's own network must be the
# same before and after. The exit status is 0 if all of this holds.
#
# WEIR: the program, default weir.
set -eu

here=$(dirname "$(readlink -f "$0")")
weir=${WEIR:-weir}
count=${1:-20}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Prints the host's network. Remaining lifetimes change on their own, so they are masked.
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
    echo "the host's own network changed:" >&2
    diff "$work/host-before" "$work/host-after" >&2 || true
    failed=$((failed + 1))
}

n=4
while [ $n -le "$count" ]; do
    cmp "$work/wan-2.pcapng" "$work/wan-$n.pcapng" >&2 || failed=$((failed + 1))
    n=$((n + 2))
done

[ $failed = 0 ] || { echo "$failed checks failed" >&2; exit 1; }
echo "$count stacks side by side, none disturbed another"
