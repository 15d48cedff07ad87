# SPDX-License-Identifier: Apache-2.0 OR MIT
# Reports of groups that a router itself is a member of, as its raw sockets see them, with and without a multicast routing daemon.
# Its output on Linux 6.1 is mld-own.txt beside it; record makes it.
exec 2>&1
. "${0%/*}/mroute6-devices"
sleep 4
exec python3 -Bu "${0%.sh}.py" 6
