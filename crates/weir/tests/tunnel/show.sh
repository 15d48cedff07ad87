# SPDX-License-Identifier: Apache-2.0 OR MIT
# What tunnel.rs runs: sets up as $SCRIPT says, plays, and writes to $SHOWN what its `# show:` lines ask for.
set -e
sh "$SCRIPT"
"$WEIR" play
sed -n 's/^# show: //p' "$SCRIPT" | while read -r command; do
    echo "+ $command"
    sh -c "$command" 2>&1 || true
done >"$SHOWN"
