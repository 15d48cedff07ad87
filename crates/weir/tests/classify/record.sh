#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# record.sh [NAME...]: writes NAME.expected for each NAME.cmd: Linux 6.1's counters after
# packets.pcap. Runs in examples/on-linux.sh (user-mode-linux: no root needed), with one network
# namespace for each.
set -eu
cd "$(dirname "$0")"
[ $# -gt 0 ] || set -- $(ls *.cmd | sed 's/\.cmd$//')
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
TIMEOUT=900 ../../../../examples/on-linux.sh bash -c '
    new=$1
    shift
    # Loads the modules before the first rule. Otherwise Linux would abandon that rule and create it
    # again.
    for module in act_gact act_mirred act_skbedit act_tunnel_key act_ife cls_flower cls_fw cls_route cls_matchall cls_u32 cls_basic cls_bpf cls_flow em_cmp em_nbyte em_u32 em_meta sch_prio; do
        /run/modprobe $module
    done
    for name; do
        unshare -n -m bash -c "mount -t sysfs sysfs /sys; exec bash play.sh $name.cmd python3 send.py packets.pcap p0" \
            >"$new/$name" 2>&1 || echo "record: $name ended with $?" >&2
    done' - "$new" "$@"
for name; do mv "$new/$name" "$name.expected"; done
