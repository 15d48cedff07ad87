# SPDX-License-Identifier: Apache-2.0 OR MIT
# Sourced by the scripts beside it: sets up a device d0 whose queue gets twenty frames (frames.py)
# from each `burst`. On Linux `burst` sends them; in Weir they are in the capture, a second apart.
exec 2>&1
here=$(dirname "$0")
step=0
c() { echo "+ $*"; "$@"; }
burst() {
    echo "+ burst"
    if [ -n "${WEIR-}" ]; then
        "$WEIR" play --until "$step.9s" >/dev/null
        step=$((step + 1))
    else
        python3 "$here/frames.py" send p0
    fi
}
# Shows the counters that do not depend on time.
show() {
    echo "+ show"
    tc -s "${1-qdisc}" show dev d0 | grep -E '^(qdisc|class)|Sent|backlog'
}
ip link add in0 type veth peer name p0
ip link add d0 type dummy
ip link add d1 type dummy
for dev in in0 p0 d0 d1; do
    sysctl -qw "net.ipv6.conf.$dev.disable_ipv6=1"
    ip link set "$dev" txqueuelen 1000 up
done
tc qdisc add dev in0 clsact
tc filter add dev in0 ingress matchall action mirred egress redirect dev d0
# Sets up a line that passes OCTETS at once and almost nothing after that, with the qdisc "$@" below
# it.
behind() {
    octets=$1
    shift
    tc qdisc replace dev d0 root handle 1: tbf rate 8bit burst "$octets" limit 1000000
    c tc qdisc add dev d0 parent 1:1 handle 10: "$@"
}
# Adds filters to the qdisc 10: that put the frames of each port into a class.
ports() {
    for port in 1 2 3 4; do
        tc filter add dev d0 parent 10: protocol ip prio 1 u32 match ip dport $port 0xffff flowid "10:$port"
    done
}
# Lets the line pass 6000 bytes more, twice, when the next packets arrive. The script defines `all`,
# which shows the counters.
serve() {
    burst
    all
    for more in 1 2; do
        c tc qdisc change dev d0 root handle 1: tbf rate 8bit burst 6000 limit 1000000
        burst
        all
    done
}
# Sets the device down with waiting packets, sets it up, and serves.
down_and_up() {
    burst
    ip link set d0 down
    all
    ip link set d0 up
    all
    serve
    tc qdisc del dev d0 root
}
