// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which zones have a flow table; see [`flow`](crate::flow).

use weir_sync::spin::SpinLock;

/// The zones that have a flow table: those of the actions that there are.
#[derive(Default)]
pub struct FlowTables(SpinLock<Vec<(u16, u32)>>);

impl std::fmt::Debug for FlowTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FlowTables").field(&*self.0.lock()).finish()
    }
}

impl FlowTables {
    /// Adds an action (`tcf_ct_flow_table_get`).
    pub fn hold(&self, zone: u16) {
        let mut zones = self.0.lock();
        match zones.iter_mut().find(|(of, _)| *of == zone) {
            Some((_, actions)) => *actions += 1,
            None => zones.push((zone, 1)),
        }
    }

    /// Removes an action (`tcf_ct_flow_table_put`). Returns whether it was the last one of its zone, whose flows end.
    pub fn release(&self, zone: u16) -> bool {
        let mut zones = self.0.lock();
        let Some(at) = zones.iter().position(|(of, _)| *of == zone) else {
            return false;
        };
        zones[at].1 -= 1;
        let last = zones[at].1 == 0;
        if last {
            zones.swap_remove(at);
        }
        last
    }

    /// Whether the zone has a table.
    pub(crate) fn has(&self, zone: u16) -> bool {
        self.0.lock().iter().any(|(of, _)| *of == zone)
    }
}
