#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# play.sh SCRIPT: runs a file of commands line by line and prints each command, its output, and its
# exit status if that is not 0. It does the same on Linux (record.sh) and in Weir (golden.rs), so
# that the two can be compared.
#
# It removes times, random values, the release of the kernel, and values that depend on the number of CPUs,
# from the output. `pass SECONDS`
# lets time pass: virtual in Weir (WEIR is its binary), real on Linux. `mark N` waits until
# $tmp/all, $tmp/link and $tmp/tc, the outputs of monitors, contain everything that happened before
# it: until each reports N at lo. `unmarked FILE` is FILE without these reports. `connections` is for the output
# of conntrack.
LC_ALL=C TZ=UTC
export LC_ALL TZ
PATH=$PATH:/usr/sbin:/sbin
here=$(cd "$(dirname "$0")" && pwd)
said=$(mktemp) && tmp=$(mktemp -d) || exit 125
trap 'rm -rf "$said" "$tmp"' EXIT

passed=0
pass() {
    if [ -n "${WEIR-}" ]; then
        passed=$((passed + $1))
        "$WEIR" play --until "${passed}s" >/dev/null
    else
        sleep "$1"
    fi
}

mark() {
    until grep -q "mtu $1 " "$tmp/all" && grep -q "mtu $1 " "$tmp/link" && grep -q "limit ${1}p" "$tmp/tc"; do
        ip link set lo mtu 65536
        ip link set lo mtu "$1"
        tc qdisc replace dev lo root handle 1: pfifo limit "$1"
        sleep 0.1
    done
}

# Sorts connections, and undoes up to 99 seconds of their time-outs, which begin with N999.
connections() {
    sed -E -e 's/((tcp|udp|udplite|sctp|dccp|gre|icmp|icmpv6|unknown) +[0-9]+ )([0-9])9[0-9]{2} /\1\3999 /' \
        -e 's/<timeout>([0-9])9[0-9]{2}</<timeout>\1999</' -e 's/<id>[0-9]*/<id>N/' \
        -e 's/ id=[0-9]{3,}/ id=N/' -e 's/portid=[0-9]*/portid=N/' -e 's/ progname=conntrack//' -e 's/use=[0-9]+/use=N/' |
        "${1:-sort}"
}

unmarked() {
    grep -v -e ' lo:' -e 'link/loopback' -e ' dev lo ' "$1"
}

while IFS= read -r line; do
    case "$line" in '' | '#'*) continue ;; esac
    printf '$ %s\n' "$line"
    eval "$line" >"$said" 2>&1 </dev/null
    status=$?
    while IFS= read -r text; do printf '%s\n' "$text"; done <"$said"
    printf '%s' "$text"
    [ "$status" = 0 ] || echo "[status $status]"
done <"$1" | sed -E -e '/^\$ /b' \
    -e 's/ (numtx|numrx)queues [0-9]+//g' \
    -e 's/"(numtx|numrx)_queues": ?[0-9]+,?//g' -e 's/"num_(tx|rx)_queues": ?[0-9]+,?//g' \
    -e 's/installed [0-9]+ sec/installed N sec/' -e 's/used [0-9]+ sec/used N sec/' \
    -e 's/used [0-9]+\/[0-9]+\/[0-9]+/used N/' \
    -e 's/^version: 6\.1\.[0-9]+.*$/version: 6.1.N/' \
    -e 's/(valid_lft|preferred_lft|expires) [0-9]+sec/\1 Nsec/g' \
    -e 's/"(installed|last_used)": ?[0-9]+/"\1":N/g' \
    -e 's/"expires": ?[0-9]+/"expires": N/' -e '/^ +$/d' \
    -e 's/refcnt [0-9]+ reachable [0-9]+ /refcnt N reachable N /' \
    -e 's/"refcnt": ?[0-9]+,"reachable": ?[0-9]+/"refcnt":N,"reachable":N/g' \
    -e 's/(valid|preferred)_life_time": ?[0-9]{1,9}\b/\1_life_time": N/' \
    -e "s#$here/##" -e 's/^play.sh: line [0-9]+/play.sh/' -e "s#$tmp#TMP#g"
exit "${PIPESTATUS[0]}"
