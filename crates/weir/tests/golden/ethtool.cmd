# Each device as ethtool shows it.
ip link set lo up
ip link add v0 type veth peer name v1
ip link add d0 type dummy
ip link add i0 type ifb
ip link add link v0 name v0.5 type vlan id 5
ip link add link d0 name d0.5 type vlan id 5
ip link add x0 type vxlan id 5 dstport 4789 local 10.0.0.1
ethtool lo
ethtool -k lo
ethtool -S lo
ethtool -i lo
ethtool -l lo
ethtool -g lo
ethtool -c lo
ethtool -a lo
ethtool -T lo
ethtool -P lo
ethtool --show-priv-flags lo
ethtool --show-eee lo
ethtool --show-fec lo
ethtool --show-module lo
ethtool --show-tunnels lo
ethtool -m lo
ethtool -n lo
ethtool -x lo
ethtool -d lo
ethtool -e lo
ethtool v0
ethtool -k v0
ethtool -S v0
ethtool -i v0
ethtool -l v0
ethtool -g v0
ethtool -c v0
ethtool -a v0
ethtool -T v0
ethtool -P v0
ethtool --show-priv-flags v0
ethtool --show-eee v0
ethtool --show-fec v0
ethtool --show-module v0
ethtool --show-tunnels v0
ethtool -m v0
ethtool -n v0
ethtool -x v0
ethtool -d v0
ethtool -e v0
ethtool d0
ethtool -k d0
ethtool -S d0
ethtool -i d0
ethtool -l d0
ethtool -g d0
ethtool -c d0
ethtool -a d0
ethtool -T d0
ethtool -P d0
ethtool --show-priv-flags d0
ethtool --show-eee d0
ethtool --show-fec d0
ethtool --show-module d0
ethtool --show-tunnels d0
ethtool -m d0
ethtool -n d0
ethtool -x d0
ethtool -d d0
ethtool -e d0
ethtool i0
ethtool -k i0
ethtool -S i0
ethtool -i i0
ethtool -l i0
ethtool -g i0
ethtool -c i0
ethtool -a i0
ethtool -T i0
ethtool -P i0
ethtool --show-priv-flags i0
ethtool --show-eee i0
ethtool --show-fec i0
ethtool --show-module i0
ethtool --show-tunnels i0
ethtool -m i0
ethtool -n i0
ethtool -x i0
ethtool -d i0
ethtool -e i0
ethtool v0.5
ethtool -k v0.5
ethtool -S v0.5
ethtool -i v0.5
ethtool -l v0.5
ethtool -g v0.5
ethtool -c v0.5
ethtool -a v0.5
ethtool -T v0.5
ethtool -P v0.5
ethtool --show-priv-flags v0.5
ethtool --show-eee v0.5
ethtool --show-fec v0.5
ethtool --show-module v0.5
ethtool --show-tunnels v0.5
ethtool -m v0.5
ethtool -n v0.5
ethtool -x v0.5
ethtool -d v0.5
ethtool -e v0.5
ethtool d0.5
ethtool -k d0.5
ethtool -S d0.5
ethtool -i d0.5
ethtool -l d0.5
ethtool -g d0.5
ethtool -c d0.5
ethtool -a d0.5
ethtool -T d0.5
ethtool -P d0.5
ethtool --show-priv-flags d0.5
ethtool --show-eee d0.5
ethtool --show-fec d0.5
ethtool --show-module d0.5
ethtool --show-tunnels d0.5
ethtool -m d0.5
ethtool -n d0.5
ethtool -x d0.5
ethtool -d d0.5
ethtool -e d0.5
ethtool x0
ethtool -k x0
ethtool -S x0
ethtool -i x0
ethtool -l x0
ethtool -g x0
ethtool -c x0
ethtool -a x0
ethtool -T x0
ethtool -P x0
ethtool --show-priv-flags x0
ethtool --show-eee x0
ethtool --show-fec x0
ethtool --show-module x0
ethtool --show-tunnels x0
ethtool -m x0
ethtool -n x0
ethtool -x x0
ethtool -d x0
ethtool -e x0
ip link set v0 up
ip link set v1 up
ethtool v0
ethtool v0.5
ip link set v0.5 up
ethtool v0.5
ethtool --json -k v0.5
ethtool nope
ethtool -k nope
ethtool -S nope
ethtool -i nope
ethtool -l nope
ethtool -T nope
ethtool -P nope
ethtool -g nope
ethtool -n nope
ethtool -S v0 --groups rmon
ethtool -S v0 --all-groups
ethtool --json -S v0
ethtool --get-dump v0
ethtool --get-tunable v0 rx-copybreak
