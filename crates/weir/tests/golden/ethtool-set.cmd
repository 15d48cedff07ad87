# Changes by ethtool: features with their dependencies, queues, and requests that no device serves.
ip link add v0 type veth peer name v1
ip link add d0 type dummy
ip link add i0 type ifb
ip link add link v0 name v0.5 type vlan id 5
ip link add link d0 name d0.5 type vlan id 5
ip link add x0 type vxlan id 5 dstport 4789 local 10.0.0.1
ethtool -K v0 tso off
ethtool -K v0 tso on
ethtool -K v0 sg off
ethtool -k v0
ethtool -k v0.5
ethtool -K v0 sg on tso on
ethtool -K v0 tx off
ethtool -k v0.5
ethtool -K v0 tx on
ethtool -K v0 rx off
ethtool -K v0 gro on
ethtool -K v0 gro on
ethtool -K v0 gro off
ethtool -K v0 gso off
ethtool -K v0 gso on gro on tso on
ethtool -K v0 lro on
ethtool -K v0 tx-lockless off
ethtool -K v0 nope on
ethtool -K v0 hw-tc-offload on
ethtool -K v0 rx-udp-gro-forwarding on rx-gro-list on
ethtool -K v0 tx-tcp-mangleid-segmentation off
ethtool -K v0 tx-tcp-segmentation off
ethtool -K v0 tx-tcp-segmentation on
ethtool -K v0 tx-checksum-ip-generic off tx-udp-segmentation off
ethtool -k v0
ethtool -K v0.5 tso off
ethtool -K d0.5 tso off
ethtool -K d0.5 tx on
ethtool -K lo tx off
ethtool -K lo tso off
ethtool -K lo gro off
ethtool -k lo
ethtool -K d0 gro off
ethtool -K d0 tx-nocache-copy on
ethtool -K d0 rxvlan on
ethtool -K i0 txvlan off
ethtool -K x0 rx off
ethtool -K x0 highdma on
ethtool -k d0
ethtool -k i0
ethtool -k x0
ethtool -K nope tso on
ethtool -K d0
ethtool -L v0 rx 2
ethtool -L v0 rx 1
ethtool -L v0 rx 0
ethtool -L v0 combined 1
ethtool -L d0 rx 1
ip link add m0 numrxqueues 4 numtxqueues 3 type veth peer name m1 numrxqueues 2 numtxqueues 2
ethtool -l m0
ethtool -L m0 rx 2 tx 1
ethtool -l m0
ethtool -S m0
ethtool -L m0 tx 4
ethtool -L m0 tx 3 rx 4
ethtool -l m0
ethtool -l m1
ethtool -G v0 rx 2
ethtool -C v0 rx-usecs 2
ethtool -A v0 rx on
ethtool -s v0 speed 100
ethtool -s v0 msglvl 1
ethtool -s v0 wol g
ethtool -r v0
ethtool -t v0
ethtool --set-priv-flags v0 x on
ethtool --set-eee v0 eee on
ethtool --set-fec v0 encoding rs
ethtool --cable-test v0
ethtool -X v0 equal 1
ethtool -N v0 rx-flow-hash tcp4 s
ethtool --reset v0 all
ethtool --set-module v0 power-mode-policy auto
