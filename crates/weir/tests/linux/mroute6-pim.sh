# SPDX-License-Identifier: Apache-2.0 OR MIT
# PIM of IPv6: the register VIF and its device, reports with whole packets, asserts, received registers.
# Its output on Linux 6.1 is mroute6-pim.txt beside it; record makes it.
exec 2>&1
. "${0%/*}/mroute6-devices"
sleep 0.5
exec python3 -Bu "${0%6-pim.sh}-pim.py" 6
