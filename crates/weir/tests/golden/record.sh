#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# record.sh [NAME...]: writes NAME.expected for each NAME.cmd: the output of Linux 6.1 with Debian's
# iproute2. Runs them in examples/on-linux.sh (user-mode-linux: no root, and the machine stays
# untouched), each in network and mount namespaces of its own. tc-ets, tc-fq-pie and tc-gate need a
# kernel with these kinds, man-neigh and mtu one with multicast routing of IPv6 (LINUX, examples/make-linux.sh), whose lines of
# MPLS in `ip netconf` are left out. `refused` is recorded from Weir (WEIR:
# its binary).
set -eu
cd "$(dirname "$0")"
[ $# -gt 0 ] || set -- $(ls *.cmd | sed 's/\.cmd$//')
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
on_linux=()
for name; do
    case "$name" in
        refused) "${WEIR-weir}" run --quiet -- env WEIR="${WEIR-weir}" bash play.sh refused.cmd >"$new/refused" ;;
        *) on_linux+=("$name") ;;
    esac
done
[ ${#on_linux[@]} = 0 ] || TIMEOUT=900 ../../../../examples/on-linux.sh bash -c '
    new=$1
    shift
    modprobe -d /run/modules tun
    for name; do
        unshare -n -m bash -c "mount -t tmpfs tmpfs /run; mount -t sysfs sysfs /sys; exec bash play.sh $name.cmd" \
            >"$new/$name" 2>&1 || echo "record: $name ended with $?" >&2
    done' - "$new" "${on_linux[@]}"
for name; do mv "$new/$name" "$name.expected"; done
