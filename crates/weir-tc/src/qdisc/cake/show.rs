// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The statistics of `cake`: of the qdisc, a tin and a flow (`cake_dump_stats`,
//! `cake_dump_class_stats`).

use weir_netlink::Writer;
use weir_netlink::tca::cake::{stats, tin_stats};

use super::tin::{Flow, Tin};
use super::{Cake, diffserv};

impl Cake {
    /// Returns the attributes of the qdisc.
    pub(super) fn put_stats(&self) -> Vec<u8> {
        let mut w = Writer::new();
        let lengths = &self.lengths;
        w.put_u64_pad(stats::CAPACITY_ESTIMATE64, self.estimate.peak, stats::PAD);
        w.put_u32(stats::MEMORY_LIMIT, self.memory_limit);
        w.put_u32(stats::MEMORY_USED, self.memory_max);
        w.put_u32(
            stats::AVG_NETOFF,
            self.net_offset.wrapping_add(0x8000) >> 16,
        );
        w.put_u32(stats::MAX_NETLEN, u32::from(lengths.net.1));
        w.put_u32(stats::MAX_ADJLEN, u32::from(lengths.adjusted.1));
        w.put_u32(stats::MIN_NETLEN, u32::from(lengths.net.0));
        w.put_u32(stats::MIN_ADJLEN, u32::from(lengths.adjusted.0));
        let all = w.nest_noflag(stats::TIN_STATS);
        for (number, at) in (1..).zip(diffserv::order(self.options.tins)) {
            let nest = w.nest_noflag(number);
            self.tins[usize::from(*at)].put_stats(&mut w);
            w.end(nest);
        }
        w.end(all);
        w.into_vec()
    }
}

impl Flow {
    /// Returns the attributes of a flow at time `now`, in ns.
    pub(super) fn put_stats(&self, now: i64) -> Vec<u8> {
        let vars = &self.vars;
        let since = |time: i64| (now.wrapping_sub(time) / 1000) as i32;
        let mut w = Writer::new();
        w.put_i32(stats::DEFICIT, self.deficit);
        w.put_u32(stats::DROPPING, u32::from(vars.dropping));
        w.put_u32(stats::COBALT_COUNT, vars.count);
        w.put_u32(stats::P_DROP, vars.p_drop);
        if vars.p_drop != 0 {
            w.put_i32(stats::BLUE_TIMER_US, since(vars.blue_timer));
        }
        if vars.dropping {
            w.put_i32(stats::DROP_NEXT_US, since(vars.drop_next));
        }
        w.into_vec()
    }
}

impl Tin {
    /// Writes the attributes of a tin.
    fn put_stats(&self, w: &mut Writer) {
        let us = |ns: u64| (ns / 1000) as u32;
        let (mean, peak, base) = self.delays;
        let (hits, misses, collisions) = self.ways;
        w.put_u64_pad(
            tin_stats::THRESHOLD_RATE64,
            self.rate.per_second,
            tin_stats::PAD,
        );
        w.put_u64_pad(tin_stats::SENT_BYTES64, self.octets, tin_stats::PAD);
        w.put_u32(tin_stats::BACKLOG_BYTES, self.backlog);
        w.put_u32(tin_stats::TARGET_US, us(self.params.target));
        w.put_u32(tin_stats::INTERVAL_US, us(self.params.interval));
        w.put_u32(tin_stats::SENT_PACKETS, self.packets);
        w.put_u32(tin_stats::DROPPED_PACKETS, self.dropped);
        w.put_u32(tin_stats::ECN_MARKED_PACKETS, self.marked);
        w.put_u32(tin_stats::ACKS_DROPPED_PACKETS, self.ack_drops);
        w.put_u32(tin_stats::PEAK_DELAY_US, us(peak));
        w.put_u32(tin_stats::AVG_DELAY_US, us(mean));
        w.put_u32(tin_stats::BASE_DELAY_US, us(base));
        w.put_u32(tin_stats::WAY_INDIRECT_HITS, hits);
        w.put_u32(tin_stats::WAY_MISSES, misses);
        w.put_u32(tin_stats::WAY_COLLISIONS, collisions);
        let few = u32::from(self.sparse) + u32::from(self.decaying);
        w.put_u32(tin_stats::SPARSE_FLOWS, few);
        w.put_u32(tin_stats::BULK_FLOWS, u32::from(self.bulk));
        w.put_u32(tin_stats::UNRESPONSIVE_FLOWS, u32::from(self.unresponsive));
        w.put_u32(tin_stats::MAX_SKBLEN, self.max_len);
        w.put_u32(tin_stats::FLOW_QUANTUM, u32::from(self.flow_quantum));
    }
}
