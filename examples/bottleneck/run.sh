#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# run.sh [DIRECTORY]: sends traffic through a slow link, once with a fifo and once with fq_codel in front of it.
# Prints a table of packets sent, dropped and waiting, and of waiting times. Writes a page for each kind of
# traffic, capture.html and generator.html, with both runs side by side.
#
# The traffic comes from the edge router's captures and from the generator: a call, an intermittent download
# and random requests, together more than the link can carry. Neither source backs off when packets are
# lost, as TCP would.
#
# WEIR: the program, default weir. SEED: the seed of the run, default 7.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
router=$here/../edge-router
out=${1:-out/bottleneck}
mkdir -p "$out"

# play FEED QUEUE ARGUMENT...: performs one run and names its files FEED-QUEUE.
play() {
    name=$out/$1-$2
    QUEUE=$2
    export QUEUE
    shift 2
    "${WEIR:-weir}" run --seed "${SEED:-7}" --json "$name.json" "$@" \
        --out core/to-edge="$name-left.pcapng" --drops "$name-drops.pcapng" "$here/setup.sh" >"$name.txt"
}

wan=eth_src=02:00:00:02:00:02,src=10.2.0.2,dst=10.1.0.2,stop=15s
for queue in fifo fair; do
    play capture $queue --in edge/lan0="$router/lan.pcapng.gz" --in core/wan0="$router/wan.pcapng.gz"
    play generator $queue \
        --gen core/wan0="$wan,proto=udp,rate=50,size=214,sport=4000,dport=4001" \
        --gen core/wan0="$wan,proto=tcp,rate=3mbit,size=1514,sport=80,dport=40000,on=700ms,off=1500ms" \
        --gen core/wan0="$wan,proto=tcp,rate=300kbit,size=60-1514,sport=443,flows=8,gaps=poisson"
done
for feed in capture generator; do
    "${WEIR:-weir}" report --html "$out/$feed.html" --title "A slow link, $feed: fifo, then fq_codel" \
        --note "The senders do not back off: packets that exceed the link's rate wait or are dropped. TCP would slow down." \
        "$out/$feed-fifo.json" "$out/$feed-fair.json"
done
python3 "$here/table.py" "$out" capture generator
