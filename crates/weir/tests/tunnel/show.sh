# SPDX-License-Identifier: Apache-2.0 OR MIT
# Run by tunnel.rs: sets up with $SCRIPT, plays, and writes the output of its `# show:` commands to
# $SHOWN.
set -e
sh "$SCRIPT"
"$WEIR" play
sed -n 's/^# show: //p' "$SCRIPT" | while read -r command; do
    echo "+ $command"
    sh -c "$command" 2>&1 || true
done >"$SHOWN"
