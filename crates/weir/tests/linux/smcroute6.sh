# SPDX-License-Identifier: Apache-2.0 OR MIT
# smcroute routes multicast packets of IPv6 between three networks; see smcroute.sh.
# Its output on Linux 6.1 is smcroute6.txt beside it; record makes it.
. "${0%6.sh}.sh"
