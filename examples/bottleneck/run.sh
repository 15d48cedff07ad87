#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# run.sh [DIRECTORY]: plays the edge router's captures through a narrow line twice, with a fifo and with
# fq_codel, and shows what waited, how long, and what went through: a table, and plots in bottleneck.svg.
#
# WEIR: the program, default weir. SEED: of the run, default 7.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
router=$here/../edge-router
out=${1:-out/bottleneck}
mkdir -p "$out"

for queue in fifo fair; do
    QUEUE=$queue "${WEIR:-weir}" run --seed "${SEED:-7}" --json "$out/$queue.json" \
        --in edge/lan0="$router/lan.pcapng.gz" --in core/wan0="$router/wan.pcapng.gz" \
        --out core/to-edge="$out/$queue.pcapng" --drops "$out/$queue-drops.pcapng" \
        "$here/setup.sh" >"$out/$queue.txt"
done
python3 "$here/plot.py" "$out" "$router/wan.pcapng.gz" fifo fair
