# SPDX-License-Identifier: Apache-2.0 OR MIT
# Multiple spanning trees of a bridge: `mst_enable`, instances of VLANs, and states of ports for each.
# Its output on Linux 6.1 is bridge-mst.txt beside it; record makes it.
exec 2>&1
exec python3 -u "${0%.sh}.py"
