// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `DropReason`: the reason why a packet was dropped. One table lists Linux's names
//! (`SKB_DROP_REASON_*` without the prefix, include/net/dropreason-core.h), each with a sentence.
//!
//! The table holds the names of Linux 6.1 to 6.18. These include names that later kernels use where
//! 6.1 reports `NOT_SPECIFIED`, and names that were renamed later (`VXLAN_NO_REMOTE`, now
//! `NO_TX_TARGET`). For what the action `ct` drops, Linux reports only `TC_INGRESS` or `TC_EGRESS`; the names with `CT_`,
//! at the end of the table, are Weir's own. The kernel's numbers change from version to version, so the numbers here are
//! only indices into this table, for counters.

/// The meaning of a drop to a user of the network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum DropClass {
    /// Something is wrong: a full queue, no route, a malformed header.
    Fault,
    /// A rule of the user demands it.
    Rule,
    /// The packet was for another host or protocol, which is normal in every network.
    NotForUs,
}

macro_rules! drop_reasons {
    ($($name:ident: $text:literal,)*) => {
        /// The reason why a packet was dropped.
        #[allow(non_camel_case_types)] // the kernel's names, unchanged
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum DropReason {
            $(#[doc = $text] $name,)*
        }

        impl DropReason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &[DropReason] = &[$(DropReason::$name,)*];

            /// Returns Linux's name without `SKB_DROP_REASON_`.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$name => stringify!($name),)* }
            }

            /// Returns an explanation in one sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(DropReason::$name => $text,)* }
            }
        }
    };
}

drop_reasons! {
    NOT_SPECIFIED: "The code that dropped the packet gives no specific reason.",
    NO_SOCKET: "No socket is bound to the packet's destination.",
    SOCKET_CLOSE: "The socket was closed while the packet waited.",
    SOCKET_FILTER: "A filter attached to the socket refused the packet.",
    SOCKET_RCVBUFF: "The socket's receive buffer is full.",
    UNIX_DISCONNECT: "The UNIX datagram came from a peer that is no longer connected.",
    UNIX_SKIP_OOB: "The out-of-band byte of a UNIX stream was skipped.",
    PKT_TOO_SMALL: "The packet is shorter than its headers say.",
    TCP_CSUM: "The TCP checksum is wrong.",
    UDP_CSUM: "The UDP checksum is wrong.",
    NETFILTER_DROP: "A netfilter rule dropped the packet.",
    OTHERHOST: "The link-layer address is that of another host.",
    IP_CSUM: "The IPv4 header checksum is wrong.",
    IP_INHDR: "The IP header is malformed, or its TTL or hop limit has expired.",
    IP_RPFILTER: "The source address is not reachable through the input device (rp_filter).",
    UNICAST_IN_L2_MULTICAST: "A unicast IP packet arrived in a multicast or broadcast frame.",
    XFRM_POLICY: "The IPsec policy does not allow the packet.",
    IP_NOPROTO: "There is no handler for the transport protocol.",
    PROTO_MEM: "The protocol's memory limit is reached.",
    TCP_AUTH_HDR: "TCP authentication options are repeated or malformed.",
    TCP_MD5NOTFOUND: "A TCP MD5 signature was expected and is missing.",
    TCP_MD5UNEXPECTED: "A TCP MD5 signature is present but not expected.",
    TCP_MD5FAILURE: "The TCP MD5 signature is wrong.",
    TCP_AONOTFOUND: "A TCP-AO signature was expected and is missing.",
    TCP_AOUNEXPECTED: "A TCP-AO signature is present but not expected.",
    TCP_AOKEYNOTFOUND: "The TCP-AO key is unknown.",
    TCP_AOFAILURE: "The TCP-AO signature is wrong.",
    SOCKET_BACKLOG: "The socket's backlog is full.",
    TCP_FLAGS: "The TCP flags make no sense in this state.",
    TCP_ABORT_ON_DATA: "Data arrived for a TCP socket that was closed for reading.",
    TCP_ZEROWINDOW: "The TCP receive window is closed.",
    TCP_OLD_DATA: "All of the TCP data was received before.",
    TCP_OVERWINDOW: "The TCP data lies beyond the receive window.",
    TCP_OFOMERGE: "The TCP data is already in the out-of-order queue.",
    TCP_RFC7323_PAWS: "The TCP time stamp is too old (PAWS).",
    TCP_RFC7323_PAWS_ACK: "The time stamp of a pure TCP acknowledgement is too old (PAWS).",
    TCP_RFC7323_TW_PAWS: "The TCP time stamp is too old for a socket in TIME_WAIT.",
    TCP_RFC7323_TSECR: "The echoed TCP time stamp was never sent.",
    TCP_LISTEN_OVERFLOW: "The queue of the listening TCP socket is full.",
    TCP_OLD_SEQUENCE: "The TCP segment ends before the receive window.",
    TCP_INVALID_SEQUENCE: "The TCP sequence number is outside the window.",
    TCP_INVALID_END_SEQUENCE: "The end of the TCP segment is outside the window.",
    TCP_INVALID_ACK_SEQUENCE: "The TCP acknowledgement number is outside the window.",
    TCP_RESET: "The TCP reset is not acceptable.",
    TCP_INVALID_SYN: "A TCP SYN arrived where none is allowed.",
    TCP_CLOSE: "The TCP socket is closed.",
    TCP_FASTOPEN: "The TCP Fast Open request was refused.",
    TCP_OLD_ACK: "The TCP acknowledgement is old but inside the window.",
    TCP_TOO_OLD_ACK: "The TCP acknowledgement is too old.",
    TCP_ACK_UNSENT_DATA: "The TCP acknowledgement covers data that was never sent.",
    TCP_OFO_QUEUE_PRUNE: "The TCP out-of-order queue was pruned for lack of memory.",
    TCP_OFO_DROP: "The TCP data in the out-of-order queue was received meanwhile.",
    IP_OUTNOROUTES: "No route leads to the destination (output).",
    BPF_CGROUP_EGRESS: "A BPF program of the control group dropped the packet.",
    IPV6DISABLED: "IPv6 is disabled on the device.",
    NEIGH_CREATEFAIL: "The neighbour entry could not be created.",
    NEIGH_FAILED: "The neighbour does not answer.",
    NEIGH_QUEUEFULL: "Too many packets wait for the neighbour's address.",
    NEIGH_DEAD: "The neighbour entry was removed while the packet waited.",
    NEIGH_HH_FILLFAIL: "The link-layer header could not be filled from the neighbour entry.",
    TC_EGRESS: "A tc filter or action dropped the packet at egress.",
    SECURITY_HOOK: "A security module refused the packet.",
    QDISC_DROP: "The queueing discipline dropped the packet.",
    QDISC_BURST_DROP: "Too many packets are waiting for the queueing discipline's lock.",
    QDISC_OVERLIMIT: "The queueing discipline's buffer limit is reached.",
    QDISC_CONGESTED: "Active queue management dropped the packet for congestion.",
    CAKE_FLOOD: "CAKE's flood protection dropped the packet.",
    FQ_BAND_LIMIT: "The band of the fq qdisc is full.",
    FQ_HORIZON_LIMIT: "The packet's departure time is beyond fq's horizon.",
    FQ_FLOW_LIMIT: "The flow's queue in the fq qdisc is full.",
    CPU_BACKLOG: "The CPU's input queue is full.",
    XDP: "An XDP program dropped the packet.",
    TC_INGRESS: "A tc filter or action dropped the packet at ingress.",
    UNHANDLED_PROTO: "There is no handler for the ethertype.",
    SKB_CSUM: "The checksum could not be computed.",
    SKB_GSO_SEG: "The packet could not be segmented.",
    SKB_UCOPY_FAULT: "The data could not be copied from user space.",
    DEV_HDR: "The device's own header is invalid.",
    DEV_READY: "The device is not up or not ready.",
    FULL_RING: "The ring is full.",
    NOMEM: "The memory budget is exhausted.",
    HDR_TRUNC: "A header is truncated.",
    TAP_FILTER: "The filter of the tun or tap device dropped the packet.",
    TAP_TXFILTER: "The transmit filter of the tun or tap device dropped the packet.",
    ICMP_CSUM: "The ICMP checksum is wrong.",
    INVALID_PROTO: "The packet breaks a rule of its protocol, such as an ICMP request to broadcast.",
    IP_INADDRERRORS: "The destination host is unreachable (input).",
    IP_INNOROUTES: "No route leads to the destination (input).",
    IP_LOCAL_SOURCE: "The source address is one of this host's own.",
    IP_INVALID_SOURCE: "The source address is multicast, broadcast, or zero.",
    IP_LOCALNET: "A packet with a loopback address arrived from outside.",
    IP_INVALID_DEST: "The destination address is invalid.",
    PKT_TOO_BIG: "The packet is larger than the MTU and may not be fragmented.",
    DUP_FRAG: "The fragment was received before, or overlaps one.",
    FRAG_REASM_TIMEOUT: "Not all fragments arrived in time.",
    FRAG_TOO_FAR: "The IPv4 fragment is too far behind the others of its source.",
    TCP_MINTTL: "The TTL or hop limit is below what the socket demands.",
    IPV6_BAD_EXTHDR: "An IPv6 extension header is malformed or not allowed here.",
    IPV6_NDISC_FRAG: "A neighbour discovery message is fragmented.",
    IPV6_NDISC_HOP_LIMIT: "A neighbour discovery message has a hop limit other than 255.",
    IPV6_NDISC_BAD_CODE: "A neighbour discovery message has an ICMPv6 code other than 0.",
    IPV6_NDISC_BAD_OPTIONS: "A neighbour discovery message has malformed options.",
    IPV6_NDISC_NS_OTHERHOST: "The neighbour solicitation asks for another host.",
    QUEUE_PURGE: "The queue was purged.",
    TC_COOKIE_ERROR: "The state that tc kept for the packet was lost.",
    PACKET_SOCK_ERROR: "A packet socket failed after its filter had accepted the packet.",
    TC_CHAIN_NOTFOUND: "The target tc chain does not exist.",
    TC_RECLASSIFY_LOOP: "tc reclassified the packet too often.",
    VXLAN_INVALID_HDR: "The VXLAN header is invalid.",
    VXLAN_VNI_NOT_FOUND: "No VXLAN device has this network identifier.",
    MAC_INVALID_SOURCE: "The source MAC address is invalid.",
    VXLAN_ENTRY_EXISTS: "The VXLAN forwarding entry for the source already exists elsewhere.",
    VXLAN_NO_REMOTE: "No VXLAN remote is known for the destination.",
    NO_TX_TARGET: "No target to transmit to is known.",
    IP_TUNNEL_ECN: "The ECN bits of the inner and outer header contradict each other.",
    TUNNEL_TXINFO: "The packet lacks the tunnel information needed to send it.",
    LOCAL_MAC: "The source MAC address is that of the local device.",
    ARP_PVLAN_DISABLE: "The ARP packet would go back out of its device and proxy_arp_pvlan is off.",
    MAC_IEEE_MAC_CONTROL: "The destination is an IEEE MAC control address.",
    BRIDGE_INGRESS_STP_STATE: "The bridge port's spanning tree state does not accept frames.",
    CAN_RX_INVALID_FRAME: "The CAN frame is malformed.",
    CANFD_RX_INVALID_FRAME: "The CAN FD frame is malformed.",
    CANXL_RX_INVALID_FRAME: "The CAN XL frame is malformed.",
    PFMEMALLOC: "The packet used the memory reserve, which its socket may not use.",
    DUALPI2_STEP_DROP: "DualPI2's step threshold dropped the packet.",
    PSP_INPUT: "The PSP checks on input failed.",
    PSP_OUTPUT: "The PSP checks on output failed.",
    RECURSION_LIMIT: "The packet passed through too many stacked devices.",
    CT_NOT_IP: "The action ct got a packet that is not IP.",
    CT_FRAGMENT: "The action ct got a fragment where it cannot reassemble packets.",
    CT_TABLE_FULL: "The connection table is full, and no connection can be removed early.",
    CT_CLASH: "Another connection has the key of the packet's new connection.",
    CT_NO_PORT: "The range of an address translation has no free port.",
    CT_UNTRANSLATABLE: "The packet's address cannot be translated, as in an ICMP redirect.",
    CT_GONE: "The packet's connection ended while it was tracked.",
}

impl DropReason {
    /// The number of reasons: the length of a table of counters.
    pub const COUNT: usize = DropReason::ALL.len();

    /// Returns the index in a table of counters, below [`COUNT`](Self::COUNT).
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the reason with this index.
    pub fn from_index(index: usize) -> Option<DropReason> {
        DropReason::ALL.get(index).copied()
    }

    /// Returns the reason with this name, with or without `SKB_DROP_REASON_`.
    pub fn from_name(name: &str) -> Option<DropReason> {
        let name = name.strip_prefix("SKB_DROP_REASON_").unwrap_or(name);
        DropReason::ALL.iter().copied().find(|r| r.name() == name)
    }
}

impl DropReason {
    /// Returns the meaning of the drop to a user of the network.
    pub const fn class(self) -> DropClass {
        match self {
            Self::TC_INGRESS | Self::TC_EGRESS | Self::NETFILTER_DROP | Self::IP_RPFILTER => {
                DropClass::Rule
            }
            Self::OTHERHOST
            | Self::UNHANDLED_PROTO
            | Self::IP_INADDRERRORS
            | Self::IPV6_NDISC_NS_OTHERHOST
            | Self::UNICAST_IN_L2_MULTICAST => DropClass::NotForUs,
            _ => DropClass::Fault,
        }
    }
}

impl std::fmt::Display for DropReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_consistent() {
        for (i, r) in DropReason::ALL.iter().enumerate() {
            assert_eq!(r.index(), i);
            assert_eq!(DropReason::from_index(i), Some(*r));
            assert_eq!(DropReason::from_name(r.name()), Some(*r));
            assert!(r.sentence().ends_with('.'), "{r}");
        }
        assert_eq!(
            DropReason::from_name("SKB_DROP_REASON_IP_CSUM"),
            Some(DropReason::IP_CSUM)
        );
        assert_eq!(DropReason::from_name("MAX"), None);
        assert_eq!(DropReason::from_index(DropReason::COUNT), None);
    }
}
