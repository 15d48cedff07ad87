#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# make-linux.sh FILE [DIRECTORY]: builds a user-mode Linux 6.1 with the features that Debian's lacks (ets,
# fq_pie, gate, netdevsim, zones of connections, multicast routing of IPv6 and in several tables), for on-linux.sh:
# LINUX=FILE examples/on-linux.sh COMMAND.
#
# It uses Debian's sources and the configuration of Debian's own user-mode-linux. Built-in features are kept,
# except file systems and drivers. Of the modules, those with a counterpart in Weir are built in.
# The build takes 2 GB in DIRECTORY, which is kept, or in a temporary directory, and ten minutes on two cores.
# Needs: linux-source-6.1, user-mode-linux, gcc, make, flex, bison, bc (Debian: apt install them).
set -eu
[ $# -gt 0 ] || { echo "usage: make-linux.sh FILE [DIRECTORY]" >&2; exit 2; }
file=$(realpath "$1")
if [ $# -gt 1 ]; then
    mkdir -p "$2"
    work=$(realpath "$2")
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi

on="
    NET_SCH_HTB NET_SCH_HFSC NET_SCH_PRIO NET_SCH_MULTIQ NET_SCH_RED NET_SCH_SFB NET_SCH_SFQ
    NET_SCH_TBF NET_SCH_CBS NET_SCH_ETF NET_SCH_TAPRIO NET_SCH_GRED NET_SCH_NETEM NET_SCH_DRR NET_SCH_MQPRIO
    NET_SCH_SKBPRIO NET_SCH_CHOKE NET_SCH_QFQ NET_SCH_CODEL NET_SCH_FQ_CODEL NET_SCH_CAKE NET_SCH_FQ NET_SCH_HHF
    NET_SCH_PIE NET_SCH_FQ_PIE NET_SCH_INGRESS NET_SCH_PLUG NET_SCH_ETS
    NET_CLS_BASIC NET_CLS_ROUTE4 NET_CLS_FW NET_CLS_U32 NET_CLS_FLOW NET_CLS_CGROUP NET_CLS_FLOWER NET_CLS_MATCHALL
    NET_EMATCH_CMP NET_EMATCH_NBYTE NET_EMATCH_U32 NET_EMATCH_META NET_EMATCH_TEXT
    NET_ACT_POLICE NET_ACT_GACT NET_ACT_MIRRED NET_ACT_SAMPLE NET_ACT_NAT NET_ACT_PEDIT NET_ACT_SIMP NET_ACT_SKBEDIT
    NET_ACT_CSUM NET_ACT_MPLS NET_ACT_VLAN NET_ACT_SKBMOD NET_ACT_IFE NET_ACT_TUNNEL_KEY NET_ACT_GATE
    NETFILTER NETFILTER_ADVANCED NF_CONNTRACK NF_CONNTRACK_ZONES NF_CONNTRACK_MARK NF_CONNTRACK_LABELS
    NF_CONNTRACK_EVENTS NF_CONNTRACK_PROCFS NF_CONNTRACK_TIMEOUT NF_CT_NETLINK NF_CT_NETLINK_TIMEOUT NF_NAT
    NETFILTER_INGRESS NF_TABLES NF_TABLES_INET NFT_CT NFT_NAT NF_FLOW_TABLE
    NETFILTER_NETLINK NETFILTER_XTABLES NETFILTER_XT_CONNMARK
    NET_ACT_CT NET_ACT_CONNMARK NET_ACT_CTINFO NET_TC_SKB_EXT
    NET_IFE NET_IFE_SKBMARK NET_IFE_SKBPRIO NET_IFE_SKBTCINDEX PSAMPLE
    IPV6 IPV6_MULTIPLE_TABLES IPV6_SUBTREES IPV6_ROUTER_PREF IPV6_ROUTE_INFO IPV6_MROUTE IP_MROUTE_MULTIPLE_TABLES
    IPV6_MROUTE_MULTIPLE_TABLES IPV6_PIMSM_V2 NET_VRF PACKET PACKET_DIAG VLAN_8021Q BRIDGE DUMMY VETH IFB MACVLAN VXLAN GENEVE TUN MPLS_ROUTING
    NET_DEVLINK NETDEVSIM DEBUG_FS NLMON TEXTSEARCH_KMP TEXTSEARCH_BM TEXTSEARCH_FSM"
off="
    MODULES SECURITY INTEGRITY AUDIT BPFILTER DEBUG_INFO DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT BLK_DEV_INITRD
    UML_NET UML_NET_VECTOR UML_SOUND BONDING IPV6_SIT WIRELESS WLAN VIRTIO_MENU VIRTIO_UML
    INPUT HID SERIO WATCHDOG PWM NVMEM MD MTD MEMORY HW_RANDOM
    BTRFS_FS EXT2_FS EXT3_FS EXT4_FS JFS_FS REISERFS_FS XFS_FS QUOTA QUOTACTL SWAP PM SUSPEND AIO IO_URING"

[ -d "$work/linux-source-6.1" ] || tar -xf /usr/src/linux-source-6.1.tar.xz -C "$work"
cd "$work/linux-source-6.1"
linux.uml --showconfig >.config
make -s ARCH=um mod2noconfig
for name in $off; do scripts/config --disable "$name"; done
for name in $on; do scripts/config --enable "$name"; done
scripts/config --enable DEBUG_INFO_NONE
make -s ARCH=um olddefconfig
for name in $on; do grep -q "^CONFIG_$name=y" .config || { echo "make-linux.sh: no $name" >&2; exit 1; }; done
make -s -j"$(nproc)" ARCH=um linux
cp linux "$file"
