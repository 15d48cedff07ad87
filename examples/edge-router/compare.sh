#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# compare.sh DIRECTORY: whether lan.pcapng, wan.pcapng and tap.pcapng there, what Weir sent, hold the
# frames real Linux sent (expected/, made by on-linux.sh). Prints what differs; exit status 1 then.
# Needs tcpdump.
set -eu

here=$(dirname "$(readlink -f "$0")")
command -v tcpdump >/dev/null || { echo "compare.sh: apt install tcpdump" >&2; exit 2; }
status=0
for name in lan wan tap; do
    found=$(mktemp)
    "$here/summary.sh" "$1/$name.pcapng" >"$found"
    diff -u --label "Linux/$name" --label "Weir/$name" -U 0 "$here/expected/$name.txt" "$found" || status=1
    rm -f "$found"
done
[ $status != 0 ] || echo "lan, wan and tap: the same frames as on Linux"
exit $status
