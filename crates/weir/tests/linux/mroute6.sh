# SPDX-License-Identifier: Apache-2.0 OR MIT
# Multicast routes of IPv6 by the socket of a daemon: MIFs, the cache, what is forwarded, reports, counters, and wrong
# requests. Its output on Linux 6.1 is mroute6.txt beside it; record makes it.
exec 2>&1
. "${0%/*}/mroute6-devices"
sleep 0.5
exec python3 -Bu "${0%6.sh}.py" 6
