# SPDX-License-Identifier: Apache-2.0 OR MIT
# Multicast routes of IPv6 by netlink: ip -6 mroute, ip -6 monitor mroute, ip -6 netconf, and the messages of the family
# themselves. Its output on Linux 6.1 is mroute6-netlink.txt beside it; record makes it.
exec 2>&1
. "${0%/*}/mroute6-devices"
sleep 0.5
exec python3 -Bu "${0%6-netlink.sh}-netlink.py" 6
