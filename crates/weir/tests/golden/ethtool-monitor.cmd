# Notifications of changed features, at rtnetlink and at ethtool's group.
ip link add v0 type veth peer name v1
ip link add link v0 name v0.5 type vlan id 5
stdbuf -oL ethtool --monitor >"$tmp/ethtool" & watch=$!
ip -d monitor link >"$tmp/link" & links=$!
sleep 2
ethtool -K v0 tso off
ethtool -K v0 tso on
ethtool -K v0.5 tso off
ethtool -K v0 gro on
ethtool -K v0 gro on
ethtool -K v0 sg off
sleep 2
kill $watch $links; wait 2>/dev/null
sed 's/link.ether [^ ]*/link-ether MAC/' "$tmp/link"
cat "$tmp/ethtool"
