# The old interface of ethtool (SIOCETHTOOL), command by command.
ip link set lo up
ip link add v0 type veth peer name v1
ip link add d0 type dummy
ip link add i0 type ifb
ip link add link v0 name v0.5 type vlan id 5
ip link add x0 type vxlan id 5 dstport 4789 local 10.0.0.1
ip link set d0 up
python3 "$here/ethtool-ioctl.py" lo v0 d0 i0 v0.5 x0 nope
