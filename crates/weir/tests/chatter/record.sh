#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# record.sh [SCENE...]: writes linux.pcap and queries.pcap, the frames that v0 sends in scene.sh and
# queries.sh on Linux 6.1 (examples/on-linux.sh). Needs tcpdump.
set -eu
cd "$(dirname "$0")"
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
[ $# -gt 0 ] || set -- scene queries
for scene; do
    TIMEOUT=900 ../../../../examples/on-linux.sh env FRAMES="$PWD/../golden/frames.py" bash -c '
        pass() { sleep "$1"; }
        ip link add v0 address 02:00:00:00:00:10 type veth peer name v1 address 02:00:00:00:00:11
        sysctl -q -w net.ipv6.conf.v1.disable_ipv6=1
        ip link set v1 up
        tcpdump -Z root -U -p -i v1 -Q in -w "$1" & tcpdump=$!
        sleep 2
        . "./$2.sh"
        kill $tcpdump
        wait $tcpdump' - "$new/$scene.pcap" "$scene"
done
for scene; do
    case "$scene" in scene) mv "$new/scene.pcap" linux.pcap ;; *) mv "$new/$scene.pcap" . ;; esac
done
