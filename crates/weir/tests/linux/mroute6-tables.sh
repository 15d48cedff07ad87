# SPDX-License-Identifier: Apache-2.0 OR MIT
# Several multicast routing tables of IPv6: rules, daemons, what is forwarded by which table, netlink, and a VRF.
# Its output on Linux 6.1 is mroute6-tables.txt beside it; record makes it.
exec 2>&1
. "${0%/*}/mroute6-devices"
sleep 0.5
exec python3 -Bu "${0%6-tables.sh}-tables.py" 6
