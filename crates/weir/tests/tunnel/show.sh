# SPDX-License-Identifier: Apache-2.0 OR MIT
# Run by tunnel.rs: sets up with $SCRIPT, plays, and writes the output of its `# show:` commands to
# $SHOWN.
set -e
sh "$SCRIPT"
"$WEIR" play
(
    cd "$(dirname "$SCRIPT")"
    sed -n 's/^# sends: //p' "$SCRIPT" | while read -r command; do sh -c "$command" </dev/null; done
)
sed -n 's/^# show: //p' "$SCRIPT" | while read -r command; do
    echo "+ $command"
    sh -c "$command" 2>&1 || true
done >"$SHOWN"
