# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs the plugins of Debian's containernetworking-plugins: ADD, CHECK and DEL of each, as a runtime
# calls them, and for some shows what they created. Prints one line per plugin.
set -u
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
export CNI_PATH=/usr/lib/cni CNI_CONTAINERID=c1 CNI_NETNS=/var/run/netns/pod CNI_IFNAME=eth0
ip netns add pod
ip link add d0 type dummy && ip link set d0 up && ip addr add 10.9.0.1/24 dev d0
ip link add h0 type dummy
ipam='"ipam": {"type": "host-local", "dataDir": "'$data'", "ranges": [[{"subnet": "10.1.2.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}'

# configuration TYPE MORE [RESULT]
configuration() { echo "{\"cniVersion\": \"0.4.0\", \"name\": \"net\", \"type\": \"$1\"${2:+, $2}${3:+, \"prevResult\": $3}}"; }

# call COMMAND PLUGIN CONFIGURATION: the plugin's answer, and its exit status.
call() { CNI_COMMAND=$1 /usr/lib/cni/"$2" <<<"$3" 2>/dev/null; }

# plugin NAME MORE [RESULT [SHOW...]]: runs all three commands; SHOW prints what ADD created.
plugin() {
    local name=$1 more=$2 before=${3-} answer
    shift $(($# < 3 ? $# : 3))
    if ! answer=$(call ADD "$name" "$(configuration "$name" "$more" "$before")"); then
        echo "$name: refused"
        return
    fi
    echo "$name: ADD"
    [ $# = 0 ] || eval "$@"
    # IPAM plugins have a result of their own kind.
    answer=$(configuration "$name" "$more" "${before:-$answer}")
    call CHECK "$name" "$answer" && echo "$name: CHECK"
    call DEL "$name" "$answer" && echo "$name: DEL"
}

show='ip -n pod -br -4 addr show eth0 | sed "s/@if[0-9]*//"; ip -n pod route'
CNI_IFNAME=lo plugin loopback '' '' 'ip -n pod -br -4 addr show lo'
plugin host-local "$ipam"
plugin static '"ipam": {"type": "static", "addresses": [{"address": "10.1.3.9/24", "gateway": "10.1.3.1"}]}'
plugin ptp '"mtu": 1400, '"$ipam" '' "$show"
plugin vlan '"master": "d0", "vlanId": 5, '"$ipam" '' "$show"
plugin host-device '"device": "h0", '"$ipam" '' "$show"

result=$(call ADD ptp "$(configuration ptp "$ipam")")
plugin tuning '"sysctl": {"net.ipv4.conf.all.log_martians": "1"}, "mac": "02:00:00:00:00:07", "mtu": 1300, "promisc": true, "dataDir": "'$data'"' \
    "$result" 'ip netns exec pod sysctl net.ipv4.conf.all.log_martians; ip -n pod link show eth0 | grep -o "PROMISC\|mtu 1300\|02:00:00:00:00:07"'
plugin bandwidth '"ingressRate": 1000000, "ingressBurst": 100000, "egressRate": 2000000, "egressBurst": 100000' \
    "$result" 'tc qdisc show | grep -o "tbf\|rate .*bit burst [0-9]*b\|^qdisc ingress"'
plugin sbr '' "$result" 'ip -n pod rule; ip -n pod route show table 100'
plugin vrf '"vrfname": "blue"' "$result"
CNI_IFNAME=eth1 plugin macvlan '"master": "d0", "mode": "bridge", '"$ipam" '' 'ip -n pod -d link show eth1 | grep -o "macvlan mode [a-z]*"; ip -n pod -4 -br addr show eth1 | sed "s/@if[0-9]*//"'
CNI_IFNAME=eth1 plugin ipvlan '"master": "d0", '"$ipam" '' 'ip -n pod -d link show eth1 | grep -o "ipvlan  mode l[0-9]*"; ip -n pod -4 -br addr show eth1 | sed "s/@if[0-9]*//"'
CNI_IFNAME=eth1 plugin bridge '"bridge": "br0", '"$ipam"
plugin firewall '"backend": "iptables"' "$result"
plugin portmap '"capabilities": {"portMappings": true}, "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}' "$result"
call DEL ptp "$(configuration ptp "$ipam" "$result")" && ip -br link | cut -d' ' -f1
