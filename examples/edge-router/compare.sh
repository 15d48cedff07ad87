#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# compare.sh DIRECTORY: compares the frames that Weir sent (lan.pcapng, wan.pcapng and tap.pcapng in
# DIRECTORY) with those that real Linux sent (expected/, written by on-linux.sh). Prints differences and
# exits with status 1 if there are any. Needs tcpdump.
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
