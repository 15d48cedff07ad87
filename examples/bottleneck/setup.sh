#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# setup.sh: sets up the routers of ../edge-router with a slow link between them.
#
# The link from core to edge has a rate of RATE (default 1mbit), followed by a delay of 20 ms. Packets wait in
# QUEUE: `fifo`, a pfifo of 1000 packets, or `fair`, fq_codel.
set -eu
"$(dirname "$0")/../edge-router/setup.sh"

tc -n core -batch - <<EOT
qdisc add dev to-edge root handle 1: htb default 1
class add dev to-edge parent 1: classid 1:1 htb rate ${RATE:-1mbit} burst 3000 cburst 3000
EOT
case ${QUEUE:-fair} in
fifo) tc -n core qdisc add dev to-edge parent 1:1 handle 10: pfifo limit 1000 ;;
fair) tc -n core qdisc add dev to-edge parent 1:1 handle 10: fq_codel limit 1000 ;;
*) echo "QUEUE: fifo or fair" >&2; exit 2 ;;
esac

# The delay: packets from the link reach the LAN later.
tc -n edge qdisc add dev lan0 root handle 1: netem delay 20ms limit 1000
