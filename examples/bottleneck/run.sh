#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# run.sh [DIRECTORY]: traffic through a narrow line, with a fifo and with fq_codel in front of it; what
# waited, how long, and what went through: a table, and for each kind of traffic a page, capture.html and
# generator.html, with both runs side by side.
#
# The traffic is what the edge router's captures hold, and what the generator makes: a call, a download
# that comes and goes, and requests by chance, together more than the line takes. Neither backs off when
# packets are lost, as TCP would.
#
# WEIR: the program, default weir. SEED: of the run, default 7.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
router=$here/../edge-router
out=${1:-out/bottleneck}
mkdir -p "$out"

# play FEED QUEUE ARGUMENT...: one run, its files named FEED-QUEUE.
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
    "${WEIR:-weir}" report --html "$out/$feed.html" --title "A narrow line, $feed: fifo, then fq_codel" \
        --note "The senders do not back off: what the line cannot carry waits or is dropped. TCP would slow down." \
        "$out/$feed-fifo.json" "$out/$feed-fair.json"
done
python3 "$here/table.py" "$out" capture generator
