#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# summary.sh CAPTURE: prints each distinct frame of a capture and how often it occurs, sorted.
#
# For comparing the frames that Weir and Linux send. It omits messages that a router sends on its own
# (router and multicast listener messages, duplicate address detection, probes of known neighbours),
# and random fields of its own packets (IPv4 identification, IPv6 flow label).
set -eu

v4='10\.1\.0\.1|10\.1\.10\.1|10\.0\.0\.[12]|10\.2\.0\.1'
v6='2001:db8:[12]::1|2001:db8:ff::[12]|fe80::[0-9a-f:]+'

[ -r "$1" ] || { echo "summary.sh: cannot read $1" >&2; exit 2; }
tcpdump -nn -t -e -v -r "$1" 2>/dev/null |
    awk '/^[^ \t]/ { if (line) print line; line = $0; next } { sub(/^[ \t]+/, " "); line = line $0 } END { if (line) print line }' |
    grep -v -e 'multicast listener report' -e 'router solicitation' -e ' :: > ff02::1:ff' -e 'who-has 10.1.10.2' -e 'who has fe80::ff:fe02:2' |
    sed -E "
        s/^(.*: \(tos [^,]*, ttl [0-9]+,) id [0-9]+,( offset [^)]*\([0-9]+\), length [0-9]+\) ($v4) > )/\1\2/
        s/^(.*: \()flowlabel 0x[0-9a-f]+, ([^)]*\([0-9]+\) payload length: [0-9]+\) ($v6) > )/\1\2/
    " |
    LC_ALL=C sort | uniq -c
