// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses, routes, rules, neighbours and the rest of IP control.

use super::fixed;

fixed! {
    /// `struct rtgenmsg`: the family byte every rtnetlink message begins with.
    RtGenMsg(1) { family: u8 }

    /// `struct ifaddrmsg`: `RTM_*ADDR`.
    IfAddrMsg(8) {
        family: u8,
        prefixlen: u8,
        flags: u8,
        scope: u8,
        index: u32,
    }

    /// `struct ifa_cacheinfo`: lifetimes in seconds, stamps in 1/100 s since boot.
    IfaCacheInfo(16) { preferred: u32, valid: u32, cstamp: u32, tstamp: u32 }

    /// `struct rtmsg`: `RTM_*ROUTE`.
    RtMsg(12) {
        family: u8,
        dst_len: u8,
        src_len: u8,
        tos: u8,
        table: u8,
        protocol: u8,
        scope: u8,
        ty: u8,
        flags: u32,
    }

    /// `struct rtnexthop`: one path of `RTA_MULTIPATH`, followed by its attributes.
    RtNextHop(8) { len: u16, flags: u8, hops: u8, ifindex: i32 }

    /// `struct rta_cacheinfo`.
    RtaCacheInfo(32) {
        clntref: u32,
        lastuse: u32,
        expires: i32,
        error: u32,
        used: u32,
        id: u32,
        ts: u32,
        tsage: u32,
    }

    /// `struct fib_rule_hdr`: `RTM_*RULE`.
    FibRuleHdr(12) {
        family: u8,
        dst_len: u8,
        src_len: u8,
        tos: u8,
        table: u8,
        res1: u8,
        res2: u8,
        action: u8,
        flags: u32,
    }

    /// `struct fib_rule_uid_range`.
    FibRuleUidRange(8) { start: u32, end: u32 }

    /// `struct fib_rule_port_range`.
    FibRulePortRange(4) { start: u16, end: u16 }

    /// `struct ndmsg`: `RTM_*NEIGH`.
    NdMsg(12) {
        family: u8,
        pad1: u8,
        pad2: u16,
        ifindex: i32,
        state: u16,
        flags: u8,
        ty: u8,
    }

    /// `struct nda_cacheinfo`: ages in 1/100 s.
    NdaCacheInfo(16) { confirmed: u32, used: u32, updated: u32, refcnt: u32 }

    /// `struct ndtmsg`: `RTM_*NEIGHTBL`.
    NdtMsg(4) { family: u8, pad1: u8, pad2: u16 }

    /// `struct ndt_config`.
    NdtConfig(32) {
        key_len: u16,
        entry_size: u16,
        entries: u32,
        last_flush: u32,
        last_rand: u32,
        hash_rnd: u32,
        hash_mask: u32,
        hash_chain_gc: u32,
        proxy_qlen: u32,
    }

    /// `struct ndt_stats`.
    NdtStats(88) {
        allocs: u64,
        destroys: u64,
        hash_grows: u64,
        res_failed: u64,
        lookups: u64,
        hits: u64,
        rcv_probes_mcast: u64,
        rcv_probes_ucast: u64,
        periodic_gc_runs: u64,
        forced_gc_runs: u64,
        table_fulls: u64,
    }

    /// `struct netconfmsg`: `RTM_*NETCONF`.
    NetConfMsg(1) { family: u8 }

    /// `struct prefixmsg`: `RTM_NEWPREFIX`.
    PrefixMsg(12) {
        family: u8,
        pad1: u8,
        pad2: u16,
        ifindex: i32,
        ty: u8,
        len: u8,
        flags: u8,
        pad3: u8,
    }

    /// `struct prefix_cacheinfo`.
    PrefixCacheInfo(8) { preferred: u32, valid: u32 }

    /// `struct nduseroptmsg`: `RTM_NEWNDUSEROPT`.
    NdUserOptMsg(16) {
        family: u8,
        pad1: u8,
        opts_len: u16,
        ifindex: i32,
        icmp_type: u8,
        icmp_code: u8,
        pad2: u16,
        pad3: u32,
    }

    /// `struct ifaddrlblmsg`: `RTM_*ADDRLABEL`.
    IfAddrLblMsg(12) {
        family: u8,
        reserved: u8,
        prefixlen: u8,
        flags: u8,
        index: u32,
        seq: u32,
    }

    /// `struct nhmsg`: `RTM_*NEXTHOP`.
    NhMsg(8) { family: u8, scope: u8, protocol: u8, resvd: u8, flags: u32 }

    /// `struct nexthop_grp`: an entry of `NHA_GROUP`.
    NextHopGrp(8) { id: u32, weight: u8, resvd1: u8, resvd2: u16 }

    /// `struct br_port_msg`: `RTM_*MDB`.
    BrPortMsg(8) { family: u8, pad: [u8; 3], ifindex: u32 }

    /// `struct br_vlan_msg`: `RTM_*VLAN`.
    BrVlanMsg(8) { family: u8, reserved1: u8, reserved2: u16, ifindex: u32 }

    /// `struct tunnel_msg`: `RTM_*TUNNEL`.
    TunnelMsg(8) { family: u8, flags: u8, reserved2: u16, ifindex: u32 }

    /// `struct genlmsghdr`: every generic netlink message.
    GenlMsg(4) { cmd: u8, version: u8, reserved: u16 }

    /// `struct nfgenmsg`: every message of netfilter's family. The resource is in network byte order.
    NfGenMsg(4) { family: u8, version: u8, res_id: [u8; 2] }
}
