#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# internet.sh: the script of run.sh, which runs inside a stack.
#
#           172.16.12.0/30                Network N: routers NR1 to NR5 in a ring, loopback 10.N.0.R,
#   network 1 ─────────── network 2       links 10.N.1R.0/30, a host in 10.N.1.0/24 behind router 5.
#      │                      │           Router 1 is the border to the next network, router 3 that to the previous one.
#   network 4 ─────────── network 3       Networks 1 and 3 have web servers, 2 and 4 clients.
#
# SIZE: the length of the download in bytes, default 10000000.
set -euo pipefail
size=${SIZE:-10000000}
PATH=$PATH:/usr/sbin:/sbin
place=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait || true; rm -rf "$place"' EXIT
cd "$place"

router() { ip netns add "$1"; ip -n "$1" link set lo up; ip netns exec "$1" sysctl -qw net.ipv4.ip_forward=1; }
# wire A DEV ADDRESS B DEV ADDRESS NETEM...: a link with a delay (and a rate) in each direction.
wire() {
    ip link add "$2" netns "$1" type veth peer name "$5" netns "$4"
    ip -n "$1" addr add "$3" dev "$2"; ip -n "$1" link set "$2" up
    ip -n "$4" addr add "$6" dev "$5"; ip -n "$4" link set "$5" up
    tc -n "$1" qdisc add dev "$2" root netem "${@:7}"; tc -n "$4" qdisc add dev "$5" root netem "${@:7}"
}

for n in 1 2 3 4; do
    for r in 1 2 3 4 5; do
        router $n$r
        ip -n $n$r addr add 10.$n.0.$r/32 dev lo
    done
    for r in 1 2 3 4 5; do
        next=$((r % 5 + 1))
        wire $n$r in$next 10.$n.1$r.1/30 $n$next in$r 10.$n.1$r.2/30 delay 1ms
    done
    ip netns add host$n; ip -n host$n link set lo up
    wire $n"5" lan 10.$n.1.1/24 host$n eth0 10.$n.1.2/24 delay 1ms
    ip -n host$n route add default via 10.$n.1.1
done
for n in 1 2 3 4; do
    next=$((n % 4 + 1))
    wire $n"1" out 172.16.$n$next.1/30 $next"3" back 172.16.$n$next.2/30 delay 10ms rate 20mbit
done

# The configuration of router R in network N.
bird_conf() {
    local n=$1 r=$2 other
    cat <<END
log "$place/$n$r.log" { warning, error, fatal, bug };
router id 10.$n.0.$r;
protocol device { scan time 10; }
protocol direct { ipv4; interface "lan"; }
protocol kernel { ipv4 { export where source != RTS_DEVICE; }; merge paths off; }
protocol ospf v2 {
    ipv4 { import all; export none; };
    area 0 {
        interface "in*" { type ptp; hello 5; dead 20; };
        interface "lo" { stub; };
    };
}
template bgp inside {
    local 10.$n.0.$r as 6500$n; hold time 90; connect delay time 1;
    ipv4 { import all; export where source = RTS_BGP || source = RTS_DEVICE; next hop self; };
}
template bgp outside {
    hold time 30; connect delay time 1; connect retry time 5;
    ipv4 { import all; export where source = RTS_BGP || source = RTS_DEVICE; };
}
END
    for other in 1 2 3 4 5; do
        [ "$other" = "$r" ] || echo "protocol bgp from inside { neighbor 10.$n.0.$other as 6500$n; }"
    done
    local next=$((n % 4 + 1)) previous=$(((n + 2) % 4 + 1))
    case $r in
        1) echo "protocol bgp from outside { local 172.16.$n$next.1 as 6500$n; neighbor 172.16.$n$next.2 as 6500$next; }" ;;
        3) echo "protocol bgp from outside { local 172.16.$previous$n.2 as 6500$n; neighbor 172.16.$previous$n.1 as 6500$previous; }" ;;
    esac
}
for n in 1 2 3 4; do
    for r in 1 2 3 4 5; do
        bird_conf $n $r >$n$r.conf
        ip netns exec $n$r bird -f -c "$n$r.conf" -s "$place/$n$r.ctl" -P "$place/$n$r.pid" &
    done
done
for n in 1 3; do
    mkdir www$n
    echo "Hello from network $n" >www$n/index.html
    head -c "$size" /dev/zero >www$n/big
    (cd www$n && exec ip netns exec host$n python3 -m http.server 80 >/dev/null 2>&1) &
done

# The networks that host A crosses on its way to host B.
way() {
    ip netns exec "host$1" traceroute -n -q 1 -w 2 -m 20 "10.$2.1.2" | sed -n 's/^ *[0-9]* *\(10\|172\.16\)\.\([0-9]*\)\..*/\1.\2/p' |
        sed 's/^172.16.*//; s/^10\.//' | grep . | uniq | paste -sd' ' | sed 's/ / - /g'
}
reaches() { ip netns exec "host$1" curl -s -m 5 -o /dev/null "http://10.$2.1.2/"; }
page() { ip netns exec "host$1" curl -s -m 60 -w '%{time_total} s\n' "http://10.$2.1.2/" | paste -sd, | sed "s/^/client $1: /; s/,/, after /"; }
route() { echo "network $1 to 10.$2.1.0/24: $(birdc -s "$place/$1"5.ctl show route "10.$2.1.0/24" primary all | sed -n 's/.*BGP.as_path: //p' | sed 's/6500/network /g')"; }
show() {
    echo "$1"
    route 2 1; route 4 1; route 2 3; route 4 3
    echo "packets of client 2 to server 1 cross networks $(way 2 1)"
    page 2 1; page 4 1; page 2 3; page 4 3
}
learned() { birdc -s "$place/$1"5.ctl show route "10.$2.1.0/24" primary all 2>/dev/null | grep -q "as_path: $3\$"; }
await() { local n; for n in {1..120}; do if "$@"; then return 0; fi; sleep 1; done; echo "never: $*" >&2; return 1; }

await learned 2 1 65001; await learned 4 1 65001; await learned 2 3 65003; await learned 4 3 65003
await reaches 2 1; await reaches 4 3
show "All links are up."
ip netns exec host2 curl -s -m 600 -o copy -w 'client 2: %{size_download} bytes after %{time_total} s, over the failure\n' http://10.1.1.2/big &
download=$!
sleep 0.3
echo "The link between networks 1 and 2 fails in the middle of a download."
ip -n 11 link set out down
await learned 2 1 "65003 65004 65001"
wait $download
cmp copy www1/big
show "BGP has found the way through networks 3 and 4."
