#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# record.sh: writes linux.pcap, the frames that v0 sends in scene.sh on Linux 6.1
# (examples/on-linux.sh). Needs tcpdump.
set -eu
cd "$(dirname "$0")"
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
../../../../examples/on-linux.sh bash -c '
    pass() { sleep "$1"; }
    ip link add v0 address 02:00:00:00:00:10 type veth peer name v1 address 02:00:00:00:00:11
    sysctl -q -w net.ipv6.conf.v1.disable_ipv6=1
    ip link set v1 up
    tcpdump -Z root -U -p -i v1 -Q in -w "$1" & tcpdump=$!
    sleep 2
    . ./scene.sh
    kill $tcpdump
    wait $tcpdump' - "$new/linux.pcap"
mv "$new/linux.pcap" linux.pcap
