// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flow table of the action `ct` (net/sched/act_ct.c, net/netfilter/nf_flow_table_core.c).
//!
//! `ct` puts connections into a flow table: TCP once it is established and assured, UDP with its first packet, GRE of
//! version 0 once it is assured. A packet of a flow has its connection at once: nothing checks its checksum, flags or
//! window, and the state machine of its protocol does not see it. The following packets go the usual way:
//!
//! - those with IP options or extension headers, and those whose TTL is 1 or less;
//! - TCP with FIN or RST, which ends the flow first;
//! - all packets of a connection that is not assured.
//!
//! A zone has a flow table while it has actions ([`FlowTables`](crate::FlowTables)).
//!
//! A flow ends without packets for `nf_flowtable_{tcp,udp}_timeout` seconds (30 for GRE), with the last action of its
//! zone, or with its connection. TCP's windows are learned anew after that, and bind nobody any more.
//!
//! In Linux a flow is an object beside the connection. Here it is the bit `IPS_OFFLOAD` of the connection, and while
//! that is set, the deadline in the entry is the flow's. So a look-up of a flow is that of its connection. After its
//! flow has ended, the connection has its own time-out, which counts from the last packet that its state machine saw, but
//! is renewed to a day when less than half of one is left. Linux does not remove flows early, so that datagrams without
//! an answer can fill its table; here a connection that is not assured goes early as any other.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use weir_packet::ConnInfo;

use crate::clock;
use crate::connection::Handle;
use crate::conntrack::Conntrack;
use crate::deadline::{DAY, own};
use crate::settings::{Setting, Settings};
use crate::status::{TcpState, ips, tcp_flag};
use crate::store::Slot;
use crate::tcp::Tcp;
use crate::track::Subject;
use crate::tuple::{Direction, Family, GRE, TCP, UDP};

/// The time-out of a flow of another protocol than TCP and UDP, in seconds (`NF_FLOW_TIMEOUT`).
const OTHER: u32 = 30;

/// The time-out of a protocol's flows in seconds (`flow_offload_get_timeout`).
fn timeout(settings: &Settings, protocol: u8) -> u32 {
    match protocol {
        TCP => settings.get(Setting::flowtable_tcp_timeout),
        UDP => settings.get(Setting::flowtable_udp_timeout),
        _ => OTHER,
    }
}

impl Conntrack {
    /// Puts a connection into the flow table, if it is of the kind (`tcf_ct_flow_table_process_conn`). `info` is what a
    /// packet is for it.
    #[inline]
    pub(crate) fn begin_flow(&self, handle: Handle, info: ConnInfo, now: u64) {
        let Some(slot) = self.slot(handle) else {
            return;
        };
        let status = slot.status();
        let wanted = match slot.protocol() {
            TCP | GRE if status & ips::ASSURED == 0 => false,
            TCP => matches!(info, ConnInfo::Established | ConnInfo::EstablishedReply),
            GRE => {
                let tuple = slot.tuple(Direction::Original);
                matches!(info, ConnInfo::Established | ConnInfo::EstablishedReply)
                    && status & ips::NAT_MASK == 0
                    && tuple.src_port | tuple.dst_port == 0
            }
            UDP => true,
            _ => false,
        };
        if wanted && status & (ips::OFFLOAD | ips::DYING) == 0 {
            self.enter(&slot, handle, now);
        }
    }

    fn enter(&self, slot: &Slot<'_>, handle: Handle, now: u64) {
        if !self.settings().flow_tables.has(slot.zone().id) {
            return;
        }
        let protocol = slot.protocol();
        let lock = slot.lock();
        let status = slot.status();
        if slot.entry.generation.load(Relaxed) != handle.generation
            || status & (ips::OFFLOAD | ips::DYING) != 0
        {
            return;
        }
        let ticks = clock::ticks(now);
        let day = clock::seconds(DAY);
        // `nf_ct_offload_timeout`
        let mut own = slot.entry.deadline.load(Relaxed);
        if (own.wrapping_sub(ticks) as i32) < day as i32 / 2 {
            own = ticks.wrapping_add(day);
        }
        match protocol {
            TCP => {
                let mut tcp = Tcp::load(slot);
                if tcp.state != TcpState::Established {
                    return;
                }
                for seen in &mut tcp.seen {
                    seen.flags |= tcp_flag::BE_LIBERAL;
                }
                tcp.set_own_deadline(own);
                tcp.save(slot);
            }
            GRE => slot.stream().store(own, Relaxed),
            _ => {}
        }
        let seconds = clock::seconds(timeout(self.settings(), protocol));
        let deadline = ticks.wrapping_add(seconds);
        slot.entry.deadline.store(deadline, Relaxed);
        lock.add_status(ips::OFFLOAD);
    }

    /// Ends a flow at a time in ticks (`flow_offload_teardown`).
    #[cold]
    pub(crate) fn end_flow(&self, slot: &Slot<'_>, handle: Handle, at: u32) {
        let lock = slot.lock();
        let status = slot.status();
        if slot.entry.generation.load(Relaxed) != handle.generation || status & ips::OFFLOAD == 0 {
            return;
        }
        let (settings, protocol) = (self.settings(), slot.protocol());
        let mut deadline = own(slot, at);
        let most = match protocol {
            TCP => {
                let mut tcp = Tcp::load(slot);
                tcp.forget_windows();
                tcp.save(slot);
                Some(settings.tcp_timeout(tcp.state))
            }
            UDP => Some(settings.get(Setting::udp_timeout_stream)),
            _ => None,
        };
        if let Some(most) = most {
            // `flow_offload_fixup_ct`
            let most = clock::seconds(most.saturating_sub(timeout(settings, protocol)));
            let left = deadline.wrapping_sub(at) as i32;
            deadline = at.wrapping_add(left.clamp(0, most as i32) as u32);
        }
        slot.entry.deadline.store(deadline, Relaxed);
        lock.set_status(status & !ips::OFFLOAD);
    }

    /// Ends all flows of a zone, whose flow table goes (`nf_flow_table_free`).
    pub fn end_flows(&self, zone: u16, now: u64) {
        for index in 0..self.entries() {
            if let Some(slot) = self.entry(index)
                && slot.status() & ips::OFFLOAD != 0
                && slot.zone().id == zone
            {
                let generation = slot.entry.generation.load(Acquire);
                self.end_flow(&slot, Handle { index, generation }, clock::ticks(now));
            }
        }
    }

    /// Returns what a packet is for its flow; `None` if it goes the usual way (`tcf_ct_flow_table_lookup`).
    #[inline]
    pub(crate) fn pass(
        &self,
        subject: &Subject<'_>,
        slot: &Slot<'_>,
        handle: Handle,
        direction: Direction,
        now: u64,
    ) -> Option<ConnInfo> {
        let headers = &subject.headers;
        let (plain, ttl) = match headers.family {
            Family::V4 => (20, subject.packet.get(8)?),
            Family::V6 => (40, subject.packet.get(7)?),
        };
        if headers.transport != plain || *ttl <= 1 {
            return None;
        }
        let segment = headers.segment(subject.packet);
        let ticks = clock::ticks(now);
        match headers.protocol {
            TCP => {
                let head: &[u8; 20] = segment.first_chunk()?;
                if head[13] & (Tcp::FIN | Tcp::RST) != 0 {
                    self.end_flow(slot, handle, ticks);
                    return None;
                }
            }
            GRE if segment.get(1)? & 7 != 0 => return None,
            _ => {}
        }
        let seconds = timeout(self.settings(), headers.protocol);
        let (old, new) = (
            slot.entry.deadline.load(Relaxed),
            ticks.wrapping_add(clock::seconds(seconds)),
        );
        if new.wrapping_sub(old) as i32 > clock::seconds(1) as i32 {
            // If the flow has just ended, its deadline is another one.
            let _ = (slot.entry.deadline).compare_exchange(old, new, Relaxed, Relaxed);
        }
        let status = slot.status();
        if status & ips::ASSURED == 0 {
            return None;
        }
        slot.count(direction, 1, headers.len as u64);
        Some(match direction {
            Direction::Reply => ConnInfo::EstablishedReply,
            Direction::Original if status & ips::SEEN_REPLY != 0 => ConnInfo::Established,
            Direction::Original => ConnInfo::New,
        })
    }

    /// Whether a connection has expired. If its flow is over, that ends first.
    #[inline(always)]
    pub(crate) fn is_over(&self, slot: &Slot<'_>, handle: Handle, ticks: u32) -> bool {
        let deadline = slot.entry.deadline.load(Relaxed);
        clock::is_over(deadline, ticks) && self.is_over_without_flow(slot, handle, deadline, ticks)
    }

    #[cold]
    fn is_over_without_flow(
        &self,
        slot: &Slot<'_>,
        handle: Handle,
        deadline: u32,
        ticks: u32,
    ) -> bool {
        if slot.status() & ips::OFFLOAD == 0 {
            return true;
        }
        self.end_flow(slot, handle, deadline);
        clock::is_over(slot.entry.deadline.load(Relaxed), ticks)
    }

    /// Ends the flow of a connection whose zone has no flow table any more.
    pub(crate) fn end_if_alone(&self, slot: &Slot<'_>, now: u64) {
        let handle = Handle {
            index: slot.index,
            generation: slot.entry.generation.load(Acquire),
        };
        if slot.status() & ips::OFFLOAD != 0 && !self.settings().flow_tables.has(slot.zone().id) {
            self.end_flow(slot, handle, clock::ticks(now));
        }
    }
}
