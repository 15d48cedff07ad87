# SPDX-License-Identifier: Apache-2.0 OR MIT
# The daemon of CNI's plugin dhcp gets an address from dnsmasq for a macvlan: ADD, CHECK, DEL.
set -eu
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
cd "$data"
export CNI_PATH=/usr/lib/cni CNI_CONTAINERID=c1 CNI_NETNS=/var/run/netns/pod CNI_IFNAME=eth0
ip netns add server && ip netns add pod
ip link add d0 type veth peer name s0 netns server
ip link set lo up && ip link set d0 up
ip -n server link set lo up && ip -n server link set s0 up && ip -n server addr add 10.9.0.1/24 dev s0
ip netns exec server dnsmasq -k -p 0 --no-ping -C /dev/null --dhcp-range=10.9.0.50,10.9.0.60,1h --dhcp-leasefile="$data/leases" \
    --log-facility=- --user="$(id -un)" --group="$(id -gn)" > dnsmasq.log 2>&1 &
/usr/lib/cni/dhcp daemon -socketpath "$data/dhcp.sock" > dhcp.log 2>&1 &
until [ -S dhcp.sock ] && ip netns exec server ss -Hlun | grep -q :67; do sleep 0.1; done
configuration() {
    echo '{"cniVersion": "0.4.0", "name": "net", "type": "macvlan", "master": "d0",' \
        '"ipam": {"type": "dhcp", "daemonSocketPath": "'"$data"'/dhcp.sock"}'"${1:+, \"prevResult\": $1}}"
}
result=
for command in ADD CHECK DEL; do
    answer=$(configuration "$result" | CNI_COMMAND=$command /usr/lib/cni/macvlan) || { cat ./*.log; exit 1; }
    [ $command != ADD ] || result=$answer
    echo "dhcp: $command"
    ip -n pod -br -4 addr show dev eth0 2>/dev/null | sed -E 's/@if[0-9]+//; s/10\.9\.0\.(5[0-9]|60)\//10.9.0.N\//; s/ +/ /g; s/ $//' || true
done
cut -d ' ' -f 3 leases | sed -E 's/10\.9\.0\.(5[0-9]|60)/10.9.0.N/'
kill $(jobs -p); wait || true
