// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings of IPv4, IPv6 and their neighbours that the data path obeys (`struct ipv4_devconf`,
//! `struct ipv6_devconf`, `struct neigh_parms`).
//!
//! A device holds its own values (`conf/DEV`, `neigh/DEV`). A namespace holds those of `all` and `default`.
//! Both are read through [`WithSettings`]. Control (`weir-stack/src/sysctl`) knows the paths and ranges, and
//! keeps the values that nothing here obeys.

mod inherit;
pub(crate) mod written;

use weir_netlink::ifla::iff;

use crate::device::Device;
use crate::layers::Module;
use crate::namespace::Namespace;
use crate::parts::Key;

use crate::conf::Special;
pub use crate::conf::{Conf, Slot, Target};
pub use inherit::inherit;

crate::slots! {
    /// Per namespace, `net.ipv4.*`.
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
        NexthopCompatMode = 1, "nexthop_compat_mode";
        IpfragTime = 30, "ipfrag_time";
        IpfragMaxDist = 64, "ipfrag_max_dist";
        IgmpLinkLocalMcastReports = 1, "igmp_link_local_mcast_reports";
        IgmpMaxMemberships = 20, "igmp_max_memberships";
        IgmpQrv = 2, "igmp_qrv";
    }
}

crate::slots! {
    /// Per namespace and device, `net.ipv4.conf.DEV.*`.
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
        ForceIgmpVersion = 0, "force_igmp_version";
        Igmpv2UnsolicitedReportInterval = 10_000, "igmpv2_unsolicited_report_interval";
        Igmpv3UnsolicitedReportInterval = 1_000, "igmpv3_unsolicited_report_interval";
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

crate::slots! {
    /// Per namespace, `net.ipv6.*`.
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

crate::slots! {
    /// Per namespace and device, `net.ipv6.conf.DEV.*`.
    Ipv6Conf {
        Forwarding = 0, "forwarding";
        HopLimit = 64, "hop_limit";
        Mtu = 1280, "mtu";
        AcceptRa = 1, "accept_ra";
        AcceptRaDefrtr = 1, "accept_ra_defrtr";
        AcceptRaFromLocal = 0, "accept_ra_from_local";
        AcceptRaMinHopLimit = 1, "accept_ra_min_hop_limit";
        AcceptRaMinLft = 0, "accept_ra_min_lft";
        AcceptRaMtu = 1, "accept_ra_mtu";
        AcceptRaPinfo = 1, "accept_ra_pinfo";
        AcceptRaRtInfoMaxPlen = 0, "accept_ra_rt_info_max_plen";
        AcceptRaRtInfoMinPlen = 0, "accept_ra_rt_info_min_plen";
        AcceptRaRtrPref = 1, "accept_ra_rtr_pref";
        AcceptRedirects = 1, "accept_redirects";
        AcceptDad = 1, "accept_dad";
        AcceptSourceRoute = 0, "accept_source_route";
        AddrGenMode = 0, "addr_gen_mode";
        Autoconf = 1, "autoconf";
        DadTransmits = 1, "dad_transmits";
        DisableIpv6 = 0, "disable_ipv6";
        DropUnicastInL2Multicast = 0, "drop_unicast_in_l2_multicast";
        DropUnsolicitedNa = 0, "drop_unsolicited_na";
        ForceMldVersion = 0, "force_mld_version";
        IgnoreRoutesWithLinkdown = 0, "ignore_routes_with_linkdown";
        KeepAddrOnDown = 0, "keep_addr_on_down";
        MaxAddresses = 16, "max_addresses";
        /// In seconds.
        MaxDesyncFactor = 600, "max_desync_factor";
        McForwarding = 0, "mc_forwarding";
        Mldv1UnsolicitedReportInterval = 10_000, "mldv1_unsolicited_report_interval";
        Mldv2UnsolicitedReportInterval = 1_000, "mldv2_unsolicited_report_interval";
        ProxyNdp = 0, "proxy_ndp";
        /// The metric of default routes from router advertisements.
        RaDefrtrMetric = 1024, "ra_defrtr_metric";
        RegenMaxRetry = 3, "regen_max_retry";
        RouterSolicitationDelay = 1, "router_solicitation_delay";
        RouterSolicitationInterval = 4, "router_solicitation_interval";
        RouterSolicitationMaxInterval = 3_600, "router_solicitation_max_interval";
        RouterSolicitations = -1, "router_solicitations";
        /// In seconds.
        TempPreferedLft = 86_400, "temp_prefered_lft";
        /// In seconds.
        TempValidLft = 604_800, "temp_valid_lft";
        UseTempaddr = 0, "use_tempaddr";
    }
}

crate::slots! {
    /// Per family and device (and `default`), `net.{ipv4,ipv6}.neigh.DEV.*`; times in milliseconds.
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

/// The settings of a device, or of devices made later (`default`).
#[derive(Debug, Clone)]
pub struct DeviceConf {
    /// `net.ipv4.conf.*`
    pub ipv4: Conf<Ipv4Conf>,
    /// `net.ipv6.conf.*`
    pub ipv6: Conf<Ipv6Conf>,
    /// `net.ipv4.neigh.*`
    pub neigh4: Conf<Neigh>,
    /// `net.ipv6.neigh.*`
    pub neigh6: Conf<Neigh>,
}

impl Default for DeviceConf {
    fn default() -> Self {
        Self {
            ipv4: Conf::with_defaults(&DEVICES4),
            ipv6: Conf::default(),
            neigh4: Conf::default(),
            neigh6: Conf::with_defaults(&NEIGH6),
        }
    }
}

impl DeviceConf {
    /// The settings that a loopback device begins with. Those of its namespace are copied when it enters.
    fn of_loopback() -> Self {
        Self {
            ipv4: Conf::with_defaults(&LOOPBACK4),
            ipv6: Conf::with_defaults(&LOOPBACK6),
            ..Self::default()
        }
    }
}

static DEVICES4: [i32; Ipv4Conf::ALL.len()] = IPV4_OF_DEVICES;

/// Where `ipv4_devconf_dflt` differs from `ipv4_devconf`.
const IPV4_OF_DEVICES: [i32; Ipv4Conf::ALL.len()] =
    Ipv4Conf::with(Ipv4Conf::DEFAULTS, [(Ipv4Conf::AcceptSourceRoute, 1)]);
/// The values that IPv4 gives a loopback device (`inetdev_init`).
const IPV4_OF_LOOPBACK: [(Ipv4Conf, i32); 2] =
    [(Ipv4Conf::DisableXfrm, 1), (Ipv4Conf::DisablePolicy, 1)];
/// The values that IPv6 gives a loopback device (`ipv6_add_dev`): it detects no duplicates and has no temporary addresses.
const IPV6_OF_LOOPBACK: [(Ipv6Conf, i32); 2] =
    [(Ipv6Conf::AcceptDad, -1), (Ipv6Conf::UseTempaddr, -1)];
/// What the settings of a loopback device begin with, so that it needs no values of its own.
static LOOPBACK4: [i32; Ipv4Conf::ALL.len()] = Ipv4Conf::with(IPV4_OF_DEVICES, IPV4_OF_LOOPBACK);
static LOOPBACK6: [i32; Ipv6Conf::ALL.len()] = Ipv6Conf::with(Ipv6Conf::DEFAULTS, IPV6_OF_LOOPBACK);

/// How a loopback device's settings differ from those of others.
pub(crate) static SPECIAL4: Special<Ipv4Conf> = Special {
    values: &IPV4_OF_LOOPBACK,
    of: || &DEVICES4,
    defaults: &LOOPBACK4,
};
pub(crate) static SPECIAL6: Special<Ipv6Conf> = Special {
    values: &IPV6_OF_LOOPBACK,
    of: Ipv6Conf::defaults,
    defaults: &LOOPBACK6,
};

/// Of the tables of the two families (`arp_tbl`, `nd_tbl`) this differs.
static NEIGH6: [i32; Neigh::ALL.len()] = Neigh::with(Neigh::DEFAULTS, [(Neigh::Locktime, 0)]);
/// `ipv6_devconf` differs here from `ipv6_devconf_dflt`.
static IPV6_OF_ALL: [i32; Ipv6Conf::ALL.len()] =
    Ipv6Conf::with(Ipv6Conf::DEFAULTS, [(Ipv6Conf::AcceptDad, 0)]);

/// The values of `net.ipv{4,6}.conf.all`.
#[derive(Debug)]
pub struct AllConf {
    /// `net.ipv4.conf.all`
    pub ipv4: Conf<Ipv4Conf>,
    /// `net.ipv6.conf.all`
    pub ipv6: Conf<Ipv6Conf>,
}

impl Default for AllConf {
    fn default() -> Self {
        Self {
            ipv4: Conf::default(),
            ipv6: Conf::with_defaults(&IPV6_OF_ALL),
        }
    }
}

/// A namespace's settings.
#[derive(Debug, Default)]
pub struct NamespaceConf {
    /// `net.ipv4.*`
    pub ipv4: Conf<Ipv4>,
    /// `net.ipv6.*`
    pub ipv6: Conf<Ipv6>,
    /// `conf/all`
    pub all: AllConf,
    /// `conf/default` and `neigh/default`
    pub default: DeviceConf,
}

static DEVICE: Key<DeviceConf, 0> = Key::new();
static NAMESPACE: Key<NamespaceConf, 0> = Key::new();

/// The settings' places in the stack.
pub static MODULE: Module = Module {
    stack: Some(|parts| parts.fill(&written::WRITTEN, written::Written::default())),
    namespace: Some(|parts, new| parts.fill(&NAMESPACE, inherit::begin(new))),
    device: Some(|parts, _, ns, flags| {
        let conf = match flags & iff::LOOPBACK {
            0 => ns.conf().default.clone(),
            _ => DeviceConf::of_loopback(),
        };
        parts.fill(&DEVICE, conf);
    }),
    ..Module::NONE
};

/// A holder of settings: a device or a namespace.
pub trait WithSettings {
    /// The type of the holder's settings.
    type Conf;
    /// Returns the settings.
    fn conf(&self) -> &Self::Conf;
}

impl WithSettings for Device {
    type Conf = DeviceConf;
    #[inline]
    fn conf(&self) -> &DeviceConf {
        self.parts.get(&DEVICE)
    }
}

impl WithSettings for Namespace {
    type Conf = NamespaceConf;
    #[inline]
    fn conf(&self) -> &NamespaceConf {
        self.parts.get(&NAMESPACE)
    }
}

/// The smallest MTU of IPv4 (`IPV4_MIN_MTU`).
pub const IPV4_MIN_MTU: u32 = 68;

/// The smallest MTU of IPv6 (`IPV6_MIN_MTU`).
pub const IPV6_MIN_MTU: u32 = 1280;

/// Tells whether IP is enabled on a device.
pub trait HasIp {
    /// Returns whether the device has IPv4 (`struct in_device`). A device with too small an MTU has not.
    fn has_ipv4(&self) -> bool;
    /// Returns whether the device has IPv6 (`struct inet6_dev`). A device with too small an MTU has not,
    /// unless it is the loopback device.
    fn has_ipv6(&self) -> bool;
    /// Returns whether the device has IPv6, or IPv4.
    fn has_ip(&self, ipv6: bool) -> bool {
        match ipv6 {
            false => self.has_ipv4(),
            true => self.has_ipv6(),
        }
    }
}

impl HasIp for Device {
    #[inline]
    fn has_ipv4(&self) -> bool {
        self.mtu() >= IPV4_MIN_MTU
    }

    #[inline]
    fn has_ipv6(&self) -> bool {
        self.mtu() >= IPV6_MIN_MTU || self.flags() & iff::LOOPBACK != 0
    }
}
