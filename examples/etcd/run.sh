#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# run.sh: three etcd servers behind a bridge, as an ordinary user. The link of one of them fails and comes back: the other
# two go on, the lonely one answers nothing, and it catches up afterwards. Real time, about ten seconds.
#
# WEIR: the program, default weir.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "${WEIR:-weir}" run --quiet --real-time -- bash "$here/partition.sh"
