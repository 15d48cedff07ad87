// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocol counters: `snmp`, `snmp6`, `netstat`, `dev_snmp6/DEV`, `sockstat` and `sockstat6`, with the names and columns
//! of Linux 6.1 (`net/ipv4/proc.c`, `net/ipv6/proc.c`).
//!
//! A counter that nothing increments is shown as 0.

use std::fmt::Write as _;
use std::sync::Arc;

use weir_stack::ipv4::WithIpv4;
use weir_stack::ipv6::WithIpv6;
use weir_stack::mib::{Counter, Datagram, Ext, Icmp, Ip, Tcp, Udp, Value6, Way, WithMib};
use weir_stack::socket::shown::Kind;
use weir_stack::sysctl::{HasIp, Ipv4, Ipv4Conf, WithSettings};
use weir_stack::{Device, Namespace, Stack};

/// `snmp4_ipstats_list`. RFC 4293 and `snmp6` call `ForwDatagrams` `OutForwDatagrams`.
const IP: &str = "InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards InDelivers OutRequests \
    OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates";

/// `snmp4_ipextstats_list`
const IP_EXT: &str = "InNoRoutes InTruncatedPkts InMcastPkts OutMcastPkts InBcastPkts OutBcastPkts InOctets OutOctets \
    InMcastOctets OutMcastOctets InBcastOctets OutBcastOctets InCsumErrors InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts \
    ReasmOverlaps";

/// `icmpmibmap`
const ICMP_TYPES: &[(&str, u8)] = &[
    ("DestUnreachs", 3),
    ("TimeExcds", 11),
    ("ParmProbs", 12),
    ("SrcQuenchs", 4),
    ("Redirects", 5),
    ("Echos", 8),
    ("EchoReps", 0),
    ("Timestamps", 13),
    ("TimestampReps", 14),
    ("AddrMasks", 17),
    ("AddrMaskReps", 18),
];

/// `snmp4_tcp_list`
const TCP: &str = "RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs \
    OutSegs RetransSegs InErrs OutRsts InCsumErrors";

/// `snmp4_udp_list`
const UDP: &str = "InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors";

/// `snmp4_net_list`
const TCP_EXT: &str = "SyncookiesSent SyncookiesRecv SyncookiesFailed EmbryonicRsts PruneCalled RcvPruned OfoPruned \
    OutOfWindowIcmps LockDroppedIcmps ArpFilter TW TWRecycled TWKilled PAWSActive PAWSEstab DelayedACKs DelayedACKLocked \
    DelayedACKLost ListenOverflows ListenDrops TCPHPHits TCPPureAcks TCPHPAcks TCPRenoRecovery TCPSackRecovery \
    TCPSACKReneging TCPSACKReorder TCPRenoReorder TCPTSReorder TCPFullUndo TCPPartialUndo TCPDSACKUndo TCPLossUndo \
    TCPLostRetransmit TCPRenoFailures TCPSackFailures TCPLossFailures TCPFastRetrans TCPSlowStartRetrans TCPTimeouts \
    TCPLossProbes TCPLossProbeRecovery TCPRenoRecoveryFail TCPSackRecoveryFail TCPRcvCollapsed TCPBacklogCoalesce \
    TCPDSACKOldSent TCPDSACKOfoSent TCPDSACKRecv TCPDSACKOfoRecv TCPAbortOnData TCPAbortOnClose TCPAbortOnMemory \
    TCPAbortOnTimeout TCPAbortOnLinger TCPAbortFailed TCPMemoryPressures TCPMemoryPressuresChrono TCPSACKDiscard \
    TCPDSACKIgnoredOld TCPDSACKIgnoredNoUndo TCPSpuriousRTOs TCPMD5NotFound TCPMD5Unexpected TCPMD5Failure TCPSackShifted \
    TCPSackMerged TCPSackShiftFallback TCPBacklogDrop PFMemallocDrop TCPMinTTLDrop TCPDeferAcceptDrop IPReversePathFilter \
    TCPTimeWaitOverflow TCPReqQFullDoCookies TCPReqQFullDrop TCPRetransFail TCPRcvCoalesce TCPOFOQueue TCPOFODrop \
    TCPOFOMerge TCPChallengeACK TCPSYNChallenge TCPFastOpenActive TCPFastOpenActiveFail TCPFastOpenPassive \
    TCPFastOpenPassiveFail TCPFastOpenListenOverflow TCPFastOpenCookieReqd TCPFastOpenBlackhole TCPSpuriousRtxHostQueues \
    BusyPollRxPackets TCPAutoCorking TCPFromZeroWindowAdv TCPToZeroWindowAdv TCPWantZeroWindowAdv TCPSynRetrans \
    TCPOrigDataSent TCPHystartTrainDetect TCPHystartTrainCwnd TCPHystartDelayDetect TCPHystartDelayCwnd \
    TCPACKSkippedSynRecv TCPACKSkippedPAWS TCPACKSkippedSeq TCPACKSkippedFinWait2 TCPACKSkippedTimeWait \
    TCPACKSkippedChallenge TCPWinProbe TCPKeepAlive TCPMTUPFail TCPMTUPSuccess TCPDelivered TCPDeliveredCE \
    TCPAckCompressed TCPZeroWindowDrop TCPRcvQDrop TCPWqueueTooBig TCPFastOpenPassiveAltKey TcpTimeoutRehash \
    TcpDuplicateDataRehash TCPDSACKRecvSegs TCPDSACKIgnoredDubious TCPMigrateReqSuccess TCPMigrateReqFailure";

/// `snmp6_ipstats_list`
const IP6: &str = "InReceives InHdrErrors InTooBigErrors InNoRoutes InAddrErrors InUnknownProtos InTruncatedPkts InDiscards \
    InDelivers OutForwDatagrams OutRequests OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs \
    FragFails FragCreates InMcastPkts OutMcastPkts InOctets OutOctets InMcastOctets OutMcastOctets InBcastOctets \
    OutBcastOctets InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts";

/// `snmp6_icmp6_list`
const ICMP6: &str = "InMsgs InErrors OutMsgs OutErrors InCsumErrors OutRateLimitHost";

/// `icmp6type2name`
const ICMP6_TYPES: &[(&str, u8)] = &[
    ("DestUnreachs", 1),
    ("PktTooBigs", 2),
    ("TimeExcds", 3),
    ("ParmProblems", 4),
    ("Echos", 128),
    ("EchoReplies", 129),
    ("GroupMembQueries", 130),
    ("GroupMembResponses", 131),
    ("GroupMembReductions", 132),
    ("RouterSolicits", 133),
    ("RouterAdvertisements", 134),
    ("NeighborSolicits", 135),
    ("NeighborAdvertisements", 136),
    ("Redirects", 137),
    ("MLDv2Reports", 143),
];

/// Returns the counter with a name.
fn named<C: Counter>(name: &str) -> Option<C> {
    C::ALL
        .iter()
        .copied()
        .find(|counter| counter.name() == name)
}

/// Appends a line of names and a line of values.
fn two_lines<V: std::fmt::Display>(
    text: &mut String,
    title: &str,
    names: &str,
    value: impl Fn(&str) -> V,
) {
    let _ = write!(text, "{title}: {names}\n{title}:");
    for name in names.split(' ') {
        let _ = write!(text, " {}", value(name));
    }
    text.push('\n');
}

fn ip(ns: &Namespace, name: &str) -> u64 {
    named::<Ip>(name).map_or(0, |counter| ns.mib().ip(counter))
}

/// `/proc/net/snmp` (`snmp_seq_show`)
pub fn snmp(_: &Stack, ns: &Arc<Namespace>) -> String {
    let mut text = String::new();
    let names = format!("Forwarding DefaultTTL {IP}");
    two_lines(&mut text, "Ip", &names, |name| match name {
        "Forwarding" if ns.conf().all.ipv4.on(Ipv4Conf::Forwarding) => 1,
        "Forwarding" => 2,
        "DefaultTTL" => ns.conf().ipv4.get(Ipv4::DefaultTtl).max(0) as u64,
        "ForwDatagrams" => ns.mib().ip(Ip::OutForwDatagrams),
        _ => ip(ns, name),
    });
    icmp(&mut text, ns);
    two_lines(&mut text, "Tcp", TCP, |name| match name {
        "RtoAlgorithm" => 1,
        "RtoMin" => 200,
        "RtoMax" => 120_000,
        "MaxConn" => -1,
        _ => named::<Tcp>(name).map_or(0, |counter| ns.mib().tcp(counter) as i64),
    });
    for (title, which) in [("Udp", Datagram::Udp), ("UdpLite", Datagram::UdpLite)] {
        two_lines(&mut text, title, UDP, |name| udp(ns, which, name));
    }
    text
}

fn udp(ns: &Namespace, which: Datagram, name: &str) -> u64 {
    named::<Udp>(name).map_or(0, |counter| ns.mib().datagrams(which, counter))
}

/// `icmp_put`, `icmpmsg_put`
fn icmp(text: &mut String, ns: &Namespace) {
    let mib = ns.mib();
    let types = |way, prefix: &str| {
        let names = ICMP_TYPES
            .iter()
            .map(|(name, _)| format!(" {prefix}{name}"));
        let values = ICMP_TYPES
            .iter()
            .map(|(_, ty)| format!(" {}", mib.messages(way, *ty)));
        (names.collect::<String>(), values.collect::<String>())
    };
    let (in_names, in_values) = types(Way::In, "In");
    let (out_names, out_values) = types(Way::Out, "Out");
    let _ = writeln!(
        text,
        "Icmp: InMsgs InErrors InCsumErrors{in_names} OutMsgs OutErrors OutRateLimitGlobal OutRateLimitHost{out_names}\n\
         Icmp: {} {} {}{in_values} {} {} {} {}{out_values}",
        mib.icmp(Icmp::InMsgs),
        mib.icmp(Icmp::InErrors),
        mib.icmp(Icmp::InCsumErrors),
        mib.icmp(Icmp::OutMsgs),
        mib.icmp(Icmp::OutErrors),
        mib.icmp(Icmp::OutRateLimitGlobal),
        mib.icmp(Icmp::OutRateLimitHost),
    );
    let all = [(Way::In, "In"), (Way::Out, "Out")].into_iter();
    let all = all.flat_map(|(way, prefix)| (0..=255).map(move |ty| (way, prefix, ty)));
    let seen: Vec<(String, u64)> = all
        .map(|(way, prefix, ty)| (format!("{prefix}Type{ty}"), mib.messages(way, ty)))
        .filter(|(_, count)| *count > 0)
        .collect();
    for line in seen.chunks(16) {
        let names: Vec<&str> = line.iter().map(|(name, _)| name.as_str()).collect();
        let values: Vec<String> = line.iter().map(|(_, count)| count.to_string()).collect();
        let _ = writeln!(
            text,
            "IcmpMsg: {}\nIcmpMsg: {}",
            names.join(" "),
            values.join(" ")
        );
    }
}

/// `/proc/net/netstat` (`netstat_seq_show`)
pub fn netstat(_: &Stack, ns: &Arc<Namespace>) -> String {
    let mut text = String::new();
    two_lines(&mut text, "TcpExt", TCP_EXT, |name| {
        named::<Ext>(name).map_or(0, |counter| ns.mib().ext(counter))
    });
    two_lines(&mut text, "IpExt", IP_EXT, |name| ip(ns, name));
    text
}

fn line6(text: &mut String, name: &str, value: u64) {
    let _ = writeln!(text, "{name:<32}\t{value}");
}

/// Appends the lines that a namespace and a device have in common.
fn common6(text: &mut String, value: impl Fn(Value6) -> u64) {
    for name in IP6.split(' ') {
        let count = named(name).map_or(0, |counter| value(Value6::Ip(counter)));
        line6(text, &format!("Ip6{name}"), count);
    }
    for name in ICMP6.split(' ') {
        let count = named(name).map_or(0, |counter| value(Value6::Icmp(counter)));
        line6(text, &format!("Icmp6{name}"), count);
    }
    let ways = [(Way::In, "In"), (Way::Out, "Out")];
    for (way, prefix) in ways {
        for (name, ty) in ICMP6_TYPES {
            line6(
                text,
                &format!("Icmp6{prefix}{name}"),
                value(Value6::Messages(way, *ty)),
            );
        }
    }
    for (way, prefix) in ways {
        for ty in 0..=255 {
            let count = value(Value6::Messages(way, ty));
            if count > 0 {
                line6(text, &format!("Icmp6{prefix}Type{ty}"), count);
            }
        }
    }
}

/// `/proc/net/snmp6` (`snmp6_seq_show`)
pub fn snmp6(_: &Stack, ns: &Arc<Namespace>) -> String {
    let mut text = String::new();
    common6(&mut text, ns.mib().v6());
    for (title, which) in [("Udp6", Datagram::Udp6), ("UdpLite6", Datagram::UdpLite6)] {
        // UDP-Lite has no counter of ignored multicast datagrams.
        let names = UDP
            .split(' ')
            .filter(|name| title == "Udp6" || *name != "IgnoredMulti");
        for name in names {
            line6(&mut text, &format!("{title}{name}"), udp(ns, which, name));
        }
    }
    text
}

/// Lists `/proc/net/dev_snmp6`: the devices that have IPv6.
pub fn devices(ns: &Namespace) -> Vec<String> {
    let devices = ns.all_devices();
    let devices = devices.iter().filter(|device| device.has_ipv6());
    devices.map(|device| device.name()).collect()
}

/// `/proc/net/dev_snmp6/DEV` (`snmp6_dev_seq_show`)
pub fn device(_: &Stack, ns: &Arc<Namespace>, name: &str) -> Option<String> {
    let has = |device: &Arc<Device>| device.has_ipv6() && device.name() == name;
    let device = ns.device_by_name(name).filter(has)?;
    let mut text = String::new();
    line6(&mut text, "ifIndex", u64::from(device.ifindex()));
    common6(&mut text, device.mib().v6());
    Some(text)
}

/// `/proc/net/sockstat` (`sockstat_seq_show`)
pub fn sockstat(_: &Stack, ns: &Arc<Namespace>) -> String {
    let (datagrams, bytes) = ns.ipv4().fragments().held();
    let count = super::sockets::count(ns);
    let all = count(None, false);
    let [tcp, tcp6] = [false, true].map(|ipv6| count(Some(Kind::Tcp), ipv6));
    let [udp, raw] = [Kind::Udp, Kind::Raw].map(|kind| count(Some(kind), false));
    let alloc = tcp + tcp6;
    format!(
        "sockets: used {all}\nTCP: inuse {tcp} orphan 0 tw 0 alloc {alloc} mem 0\nUDP: inuse {udp} mem 0\n\
         UDPLITE: inuse 0\nRAW: inuse {raw}\nFRAG: inuse {datagrams} memory {bytes}\n"
    )
}

/// `/proc/net/sockstat6` (`sockstat6_seq_show`)
pub fn sockstat6(_: &Stack, ns: &Arc<Namespace>) -> String {
    let (datagrams, bytes) = ns.ipv6().fragments().held();
    let count = super::sockets::count(ns);
    let [tcp, udp, raw] = [Kind::Tcp, Kind::Udp, Kind::Raw].map(|kind| count(Some(kind), true));
    format!(
        "TCP6: inuse {tcp}\nUDP6: inuse {udp}\nUDPLITE6: inuse 0\nRAW6: inuse {raw}\n\
         FRAG6: inuse {datagrams} memory {bytes}\n"
    )
}

/// `/proc/net/softnet_stat` (`softnet_seq_show`): a line per stack CPU.
pub fn softnet_stat(stack: &Stack, _: &Arc<Namespace>) -> String {
    use std::sync::atomic::Ordering::Relaxed;
    let mut text = String::new();
    let guard = stack.domain.pin();
    for (cpu, input) in stack.softnet.cpus().enumerate() {
        let processed = stack.received.made(cpu);
        let limit = stack.softnet.flow_limit(cpu, &guard);
        let limited = limit.map_or(0, |limit| limit.dropped.load(Relaxed));
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed) as u32;
        let columns = [
            processed.map_or(0, count),
            count(&input.dropped),
            count(&input.squeezed),
            0,
            0,
            0,
            0,
            0,
            0,
            count(&input.received_rps),
            limited as u32,
            input.queue.waiting(),
            cpu as u32,
        ];
        let columns = columns.map(|column| format!("{column:08x}"));
        let _ = writeln!(text, "{}", columns.join(" "));
    }
    text
}
