# SPDX-License-Identifier: Apache-2.0 OR MIT
# gate with packets before, in and between entries of seconds, and with a schedule that changes
# meanwhile. A cycle of a nanosecond begins at once. Entries last longer than the commands take on
# Linux. Its output on Linux 6.1 is gate.txt beside it; record makes it.
. "$(dirname "$0")/common.sh"
# Runs a burst every three seconds, the first at once, and shows the counters after each.
every() {
    began=$(cut -d ' ' -f 1 /proc/uptime)
    for more in $(seq "$1"); do
        burst
        tc -s actions show action gate | grep Sent
        if [ -n "${WEIR-}" ]; then
            ip link set in0 down
            for second in 1 2; do burst >/dev/null; done
            ip link set in0 up
        else
            sleep "$(awk -v began="$began" -v more="$more" '{ print began + 3 * more - $1 }' /proc/uptime)"
        fi
    done
}
# Prints nanoseconds of the monotonic clock, some seconds from now.
from_now() {
    if [ -n "${WEIR-}" ]; then
        echo "$((step + $1))000000000"
    else
        awk -v more="$1" '{ printf "%d000000000", $1 + more + 1 }' /proc/uptime
    fi
}
gate() {
    echo "+ gate $*"
    tc filter del dev in0 ingress
    tc filter add dev in0 ingress protocol all matchall \
        action gate "$@" index 1 action mirred egress redirect dev d0
}
replace() { c tc actions replace action gate index 1 "$@"; }
ONCE="clockid CLOCK_MONOTONIC cycle-time 1"
OPEN="sched-entry open 3000000000"
CLOSE="sched-entry close 3000000000"

burst
gate $ONCE $CLOSE $OPEN
every 4
gate $ONCE $OPEN -1 1000 $OPEN -1 10000 $CLOSE $OPEN
every 6
gate $ONCE $OPEN -1 2000
every 3
# The list advances by its intervals, regardless of the cycle.
gate clockid CLOCK_TAI cycle-time 1000000 $OPEN $CLOSE
every 4

# All packets pass until the first entry begins.
echo "+ later"
tc filter del dev in0 ingress
tc filter add dev in0 ingress protocol all matchall action gate clockid CLOCK_MONOTONIC base-time "$(from_now 4)" \
    $CLOSE $CLOSE $OPEN -1 3000 index 1 action mirred egress redirect dev d0
every 6

# Changed while it runs.
gate $ONCE $CLOSE
every 1
replace $OPEN cycle-time 1
every 1
replace $CLOSE $OPEN cycle-time 1
every 3
replace
every 2
replace cycle-time 1
every 2
replace base-time 5 cycle-time 1
every 2
replace clockid CLOCK_TAI cycle-time 1
every 2
replace base-time 9000000000000000000
every 2
replace base-time 0 cycle-time 1 $OPEN -1 500 drop
every 2
show
true
