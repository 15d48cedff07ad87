// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sysctls that affect the datapath, as slots of atomics.
//!
//! A slot is one `int` of Linux's `net.ipv4`, `net.ipv6` or `net.core`. The tables in [`tree`] give
//! each slot its path, range and default, and list the names that are accepted and stored without
//! effect. Per-device values (`conf/DEV`) are stored in the device, those of `conf/all` and
//! `conf/default` in the namespace. Reading a slot is one relaxed load.

pub mod tree;

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

macro_rules! slots {
    ($(#[$doc:meta])* $name:ident { $($(#[$slot_doc:meta])* $slot:ident = $default:expr, $path:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $name { $($(#[$slot_doc])* #[doc = concat!("`", $path, "`, default `", stringify!($default), "`")] $slot,)* }

        impl $name {
            /// All slots: (slot, last part of the path, default).
            pub const ALL: &'static [($name, &'static str, i32)] = &[$(($name::$slot, $path, $default),)*];
        }

        impl Slot for $name {
            const COUNT: usize = Self::ALL.len();
            fn index(self) -> usize { self as usize }
            fn defaults() -> impl Iterator<Item = i32> { Self::ALL.iter().map(|(_, _, default)| *default) }
        }
    };
}

/// A family of slots.
pub trait Slot: Copy {
    /// The number of slots in the family.
    const COUNT: usize;
    /// Returns the index of the slot.
    fn index(self) -> usize;
    /// Returns the defaults, in the order of the slots.
    fn defaults() -> impl Iterator<Item = i32>;
}

slots! {
    /// Sysctls per namespace, `net.core.*`.
    Core {
        /// The maximum number of packets waiting in front of a qdisc's lock.
        QdiscMaxBurst = 1000, "qdisc_max_burst";
        /// How long a CPU works for one qdisc before it does its other work; see
        /// `datapath/queue.rs`.
        DevWeight = 64, "dev_weight";
        /// The multiplier of `dev_weight` for that.
        DevWeightTxBias = 1, "dev_weight_tx_bias";
    }
}

slots! {
    /// Sysctls per namespace, `net.ipv4.*`.
    Ipv4 {
        DefaultTtl = 64, "ip_default_ttl";
        NoPmtuDisc = 0, "ip_no_pmtu_disc";
        ForwardUsePmtu = 0, "ip_forward_use_pmtu";
        ForwardUpdatePriority = 1, "ip_forward_update_priority";
        IcmpEchoIgnoreAll = 0, "icmp_echo_ignore_all";
        IcmpEchoIgnoreBroadcasts = 1, "icmp_echo_ignore_broadcasts";
        IcmpIgnoreBogusErrorResponses = 1, "icmp_ignore_bogus_error_responses";
        IcmpErrorsUseInboundIfaddr = 0, "icmp_errors_use_inbound_ifaddr";
        /// The time in milliseconds between rate-limited ICMP errors to one destination.
        IcmpRateLimit = 1000, "icmp_ratelimit";
        /// A bitmap of the ICMP types that are rate-limited.
        IcmpRateMask = 6168, "icmp_ratemask";
        IcmpMsgsPerSec = 1000, "icmp_msgs_per_sec";
        IcmpMsgsBurst = 50, "icmp_msgs_burst";
        FibMultipathHashPolicy = 0, "fib_multipath_hash_policy";
        FibMultipathHashFields = 7, "fib_multipath_hash_fields";
        FibMultipathUseNeigh = 0, "fib_multipath_use_neigh";
        IpfragTime = 30, "ipfrag_time";
        IpfragMaxDist = 64, "ipfrag_max_dist";
    }
}

slots! {
    /// Sysctls per namespace and device, `net.ipv4.conf.DEV.*`.
    Ipv4Conf {
        Forwarding = 0, "forwarding";
        AcceptLocal = 0, "accept_local";
        AcceptRedirects = 1, "accept_redirects";
        AcceptSourceRoute = 0, "accept_source_route";
        ArpAccept = 0, "arp_accept";
        ArpAnnounce = 0, "arp_announce";
        ArpEvictNocarrier = 1, "arp_evict_nocarrier";
        ArpFilter = 0, "arp_filter";
        ArpIgnore = 0, "arp_ignore";
        ArpNotify = 0, "arp_notify";
        BcForwarding = 0, "bc_forwarding";
        DisablePolicy = 0, "disable_policy";
        DisableXfrm = 0, "disable_xfrm";
        DropGratuitousArp = 0, "drop_gratuitous_arp";
        DropUnicastInL2Multicast = 0, "drop_unicast_in_l2_multicast";
        IgnoreRoutesWithLinkdown = 0, "ignore_routes_with_linkdown";
        LogMartians = 0, "log_martians";
        McForwarding = 0, "mc_forwarding";
        MediumId = 0, "medium_id";
        PromoteSecondaries = 0, "promote_secondaries";
        ProxyArp = 0, "proxy_arp";
        ProxyArpPvlan = 0, "proxy_arp_pvlan";
        RouteLocalnet = 0, "route_localnet";
        RpFilter = 0, "rp_filter";
        SecureRedirects = 1, "secure_redirects";
        SendRedirects = 1, "send_redirects";
        SharedMedia = 1, "shared_media";
        SrcValidMark = 0, "src_valid_mark";
        Tag = 0, "tag";
    }
}

slots! {
    /// Sysctls per namespace, `net.ipv6.*`.
    Ipv6 {
        BindV6Only = 0, "bindv6only";
        AutoFlowlabels = 1, "auto_flowlabels";
        IcmpRateLimit = 1000, "icmp/ratelimit";
        IcmpEchoIgnoreAll = 0, "icmp/echo_ignore_all";
        IcmpEchoIgnoreMulticast = 0, "icmp/echo_ignore_multicast";
        IcmpEchoIgnoreAnycast = 0, "icmp/echo_ignore_anycast";
        FibMultipathHashPolicy = 0, "fib_multipath_hash_policy";
        FibMultipathHashFields = 7, "fib_multipath_hash_fields";
        Ip6fragTime = 60, "ip6frag_time";
        MaxHbhOptsNumber = 8, "max_hbh_opts_number";
        MaxDstOptsNumber = 8, "max_dst_opts_number";
    }
}

slots! {
    /// Sysctls per namespace and device, `net.ipv6.conf.DEV.*`.
    Ipv6Conf {
        Forwarding = 0, "forwarding";
        HopLimit = 64, "hop_limit";
        Mtu = 1280, "mtu";
        AcceptRa = 1, "accept_ra";
        AcceptRedirects = 1, "accept_redirects";
        AcceptDad = 1, "accept_dad";
        AcceptSourceRoute = 0, "accept_source_route";
        AddrGenMode = 0, "addr_gen_mode";
        Autoconf = 1, "autoconf";
        DadTransmits = 1, "dad_transmits";
        DisableIpv6 = 0, "disable_ipv6";
        DropUnicastInL2Multicast = 0, "drop_unicast_in_l2_multicast";
        DropUnsolicitedNa = 0, "drop_unsolicited_na";
        IgnoreRoutesWithLinkdown = 0, "ignore_routes_with_linkdown";
        KeepAddrOnDown = 0, "keep_addr_on_down";
        ProxyNdp = 0, "proxy_ndp";
        RouterSolicitations = -1, "router_solicitations";
        UseTempaddr = 0, "use_tempaddr";
    }
}

slots! {
    /// Sysctls per family and device (and `default`), `net.{ipv4,ipv6}.neigh.DEV.*`. Times are in
    /// milliseconds.
    Neigh {
        McastSolicit = 3, "mcast_solicit";
        UcastSolicit = 3, "ucast_solicit";
        AppSolicit = 0, "app_solicit";
        McastResolicit = 0, "mcast_resolicit";
        RetransTime = 1000, "retrans_time_ms";
        BaseReachableTime = 30_000, "base_reachable_time_ms";
        DelayFirstProbeTime = 5_000, "delay_first_probe_time";
        IntervalProbeTime = 5_000, "interval_probe_time_ms";
        GcStaleTime = 60_000, "gc_stale_time";
        /// The maximum number of bytes waiting for one neighbour.
        UnresQlenBytes = 212_992, "unres_qlen_bytes";
        ProxyQlen = 64, "proxy_qlen";
        AnycastDelay = 1_000, "anycast_delay";
        ProxyDelay = 800, "proxy_delay";
        Locktime = 1_000, "locktime";
    }
}

/// The values of one family of slots.
pub struct Conf<S: Slot> {
    values: Box<[AtomicI32]>,
    family: std::marker::PhantomData<fn(S)>,
}

impl<S: Slot> Default for Conf<S> {
    fn default() -> Self {
        Self {
            values: S::defaults().map(AtomicI32::new).collect(),
            family: std::marker::PhantomData,
        }
    }
}

impl<S: Slot> Clone for Conf<S> {
    fn clone(&self) -> Self {
        let values = self
            .values
            .iter()
            .map(|v| AtomicI32::new(v.load(Relaxed)))
            .collect();
        Self {
            values,
            family: std::marker::PhantomData,
        }
    }
}

impl<S: Slot> Conf<S> {
    /// Returns the value of a slot.
    #[inline]
    pub fn get(&self, slot: S) -> i32 {
        self.values[slot.index()].load(Relaxed)
    }

    /// Returns whether the slot is not 0.
    #[inline]
    pub fn on(&self, slot: S) -> bool {
        self.get(slot) != 0
    }

    /// Copies all values of another set.
    pub fn copy(&self, from: &Self) {
        for (value, from) in self.values.iter().zip(&from.values) {
            value.store(from.load(Relaxed), Relaxed);
        }
    }

    /// Sets a slot. The caller checks the range.
    pub fn set(&self, slot: S, value: i32) {
        self.values[slot.index()].store(value, Relaxed);
    }
}

impl<S: Slot> std::fmt::Debug for Conf<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.values.iter().map(|v| v.load(Relaxed)))
            .finish()
    }
}
