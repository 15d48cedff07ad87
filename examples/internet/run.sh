#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# run.sh: a small internet of four networks with five routers each. BIRD runs on all twenty routers: OSPF within a
# network, BGP between them. Web servers and clients are hosts of the networks. A link between two networks fails in the
# middle of a download. Prints the routes and the downloads before, during and after, in virtual time.
#
# WEIR: the program, default weir. SEED: the seed of the run, default 7. SIZE: the length of the download in bytes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "${WEIR:-weir}" run --quiet --seed "${SEED:-7}" -- "$here/internet.sh"
