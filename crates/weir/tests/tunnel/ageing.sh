# SPDX-License-Identifier: Apache-2.0 OR MIT
# Under Weir: an address learned from decap.sh's frames ages out when it has not been used for 100
# s.
. "$(dirname "$0")/decap.sh"
show() { bridge fdb show | grep vx1 | sort; }
"$WEIR" play
ip link set vx1 type vxlan id 1 ageing 100
show
"$WEIR" play --until 95s
show
"$WEIR" play --until 111s
show
