// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a bond and its ports count of LACP (`struct bond_3ad_stats`, `bond_3ad_stats_fill`).

use weir_netlink::Writer;
use weir_netlink::ifla::bond_xstats as attr;

/// What is counted, as numbers of attributes (`BOND_3AD_STAT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are Linux's.
pub enum Count {
    LacpduRx,
    LacpduTx,
    LacpduUnknownRx,
    LacpduIllegalRx,
    MarkerRx,
    MarkerTx,
    MarkerRespRx,
    MarkerRespTx,
    MarkerUnknownRx,
}

/// The counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts([u64; 9]);

impl Counts {
    /// Counts one.
    pub fn add(&mut self, what: Count) {
        if let Some(count) = self.0.get_mut(what as usize) {
            *count += 1;
        }
    }

    /// Writes `BOND_XSTATS_3AD`.
    pub fn fill(&self, out: &mut Writer) {
        let nest = out.nest_noflag(attr::AD);
        for (ty, count) in (0..).zip(self.0) {
            out.put_u64_pad(ty, count, attr::PAD);
        }
        out.end(nest);
    }
}
