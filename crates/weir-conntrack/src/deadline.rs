// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When a connection expires. While it is in the flow table, the deadline in its entry is the flow's, and its own is
//! elsewhere; see [`flow`](crate::flow).

use std::sync::atomic::Ordering::Relaxed;

use crate::clock;
use crate::status::ips;
use crate::store::Slot;
use crate::tcp::Tcp;
use crate::tuple::{GRE, TCP};

/// What a connection in a flow table has left at least when it enters, in seconds (`NF_CT_DAY`).
pub(crate) const DAY: u32 = 86_400;

/// When a connection in the flow table expires by its own time-out, in ticks. Of UDP that is not kept: it has a day.
pub(crate) fn own(slot: &Slot<'_>, ticks: u32) -> u32 {
    let half = clock::seconds(DAY / 2);
    let mut own = match slot.protocol() {
        TCP => Tcp::load(slot).own_deadline(),
        GRE => slot.stream().load(Relaxed),
        _ => ticks.wrapping_add(2 * half),
    };
    // `nf_ct_offload_timeout`, which Linux calls from time to time.
    while (own.wrapping_sub(ticks) as i32) < half as i32 {
        own = own.wrapping_add(half);
    }
    own
}

/// The seconds that a connection has left by its own time-out.
pub(crate) fn left(slot: &Slot<'_>, ticks: u32) -> u32 {
    let deadline = match slot.status() & ips::OFFLOAD {
        0 => slot.entry.deadline.load(Relaxed),
        _ => own(slot, ticks),
    };
    clock::left(deadline, ticks)
}

/// Sets when a connection expires by its own time-out, in ticks. The caller holds its lock.
pub(crate) fn set(slot: &Slot<'_>, deadline: u32) {
    match slot.protocol() {
        _ if slot.status() & ips::OFFLOAD == 0 => slot.entry.deadline.store(deadline, Relaxed),
        TCP => {
            let mut tcp = Tcp::load(slot);
            tcp.set_own_deadline(deadline);
            tcp.save(slot);
        }
        GRE => slot.stream().store(deadline, Relaxed),
        _ => {}
    }
}
