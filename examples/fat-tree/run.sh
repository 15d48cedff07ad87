#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# run.sh [DIRECTORY]: a network of 980 routers in virtual time. One host in each of 28 pods sends to a host in the
# next pod, 28,000 packets in all, over six links each. Prints how many packets arrived, and the time that this machine
# took, about a minute. The report of each run is the same to the byte.
#
# WEIR: the program, default weir. COUNT: packets of each sender, default 1000. K: the ports of a router, default 28;
# there are as many pods, and 5/4 K² routers.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-out/fat-tree}
count=${COUNT:-1000}
k=${K:-28}
weir=${WEIR:-weir}
mkdir -p "$out"

topology=$out/topology.toml
sed "s/k = 28/k = $k/" "$here/topology.toml" >"$topology"
"$weir" topology "$topology"
set --
pod=1
while [ $pod -le $k ]; do
    # The network of the first edge router of pod P is number K/2 * (P - 1): 10.0.N.0/24, or 10.1.N.0/24 from 256 on.
    from=$((k / 2 * (pod - 1)))
    to=$((k / 2 * (pod % k)))
    host() { echo "10.$(($1 / 256)).$(($1 % 256)).3"; }
    set -- "$@" --gen "e$pod-1/eth$((k / 2))=src=$(host $from),dst=$(host $to),rate=100000,count=$count,flows=64,start=1s"
    pod=$((pod + 1))
done
start=$(date +%s)
"$weir" run --quiet --json "$out/report.json" "$@" "$topology"
echo "$(($(date +%s) - start)) seconds on this machine"
python3 - "$out/report.json" $k <<'END'
import json, sys
report = json.load(open(sys.argv[1]))
rx = {device["name"]: device["rx"]["packets"] for device in report["devices"]}
pods = range(1, int(sys.argv[2]) + 1)
print(sum(rx[f"h{pod}-1.1/eth0"] for pod in pods), "packets received by the hosts, ARP included;",
      sum(rx.values()), "by all devices")
END
