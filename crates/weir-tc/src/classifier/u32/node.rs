// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node: a selector of keys, what to do when they hold, and its counters.

use std::sync::{Arc, OnceLock};

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, u32 as attr};
use weir_netlink::{Error, Fixed, TcU32Key, TcU32Mark, TcU32Sel, Writer};
use weir_sync::percpu::PerCpu;
use weir_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};

use super::table::Table;
use super::{EXTS, refuse};
use crate::classifier::Filter;
use crate::classifier::exts::Exts;
use crate::env::Env;

/// Keys whose counters lie in the node's own cache lines.
const NEAR: usize = 10;

/// What must hold of a packet, and how its offsets move on (`struct tc_u32_sel`).
pub struct Selector {
    /// As given.
    pub head: TcU32Sel,
    /// The keys.
    pub keys: Box<[TcU32Key]>,
    /// Place of the lowest bit of the hash mask.
    pub shift: u32,
}

impl Selector {
    /// From `TCA_U32_SEL`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let head = TcU32Sel::from_bytes(bytes).ok_or(Error::new(EINVAL))?;
        let keys = bytes.get(TcU32Sel::LEN..).unwrap_or_default();
        let keys = keys
            .chunks_exact(TcU32Key::LEN)
            .map_while(Fixed::from_bytes);
        let keys: Box<[TcU32Key]> = keys.take(usize::from(head.nkeys)).collect();
        if keys.len() < usize::from(head.nkeys) {
            return Err(Error::new(EINVAL));
        }
        if head.offshift >= 16 {
            return refuse(EINVAL, "cls_u32: offshift must be less than 16");
        }
        let mask = u32::from_be(head.hmask);
        let shift = if mask == 0 { 0 } else { mask.trailing_zeros() };
        Ok(Self { head, keys, shift })
    }
}

/// Counters of a node on one CPU.
#[derive(Debug, Default)]
pub struct Counts {
    /// Met.
    pub met: AtomicU64,
    /// Taken.
    pub taken: AtomicU64,
    /// Its mark held.
    pub mark: AtomicU64,
    near: [AtomicU64; NEAR],
    far: OnceLock<Box<[AtomicU64]>>,
}

impl Counts {
    /// Counts one more: only this CPU writes.
    #[inline]
    pub fn up(counter: &AtomicU64) {
        counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// A key held; `keys` are there.
    #[inline]
    pub fn key(&self, index: usize, keys: usize) {
        match self.near.get(index) {
            Some(counter) => Self::up(counter),
            None => self.far_key(index - NEAR, keys),
        }
    }

    #[cold]
    fn far_key(&self, index: usize, keys: usize) {
        let make = || (NEAR..keys).map(|_| AtomicU64::new(0)).collect();
        if let Some(counter) = self.far.get_or_init(make).get(index) {
            Self::up(counter);
        }
    }

    fn keys(&self) -> impl Iterator<Item = &AtomicU64> {
        let far = self.far.get().into_iter().flat_map(|far| far.iter());
        self.near.iter().chain(far)
    }
}

/// Counters of a node; one that takes its place goes on with them.
pub type Stats = PerCpu<Counts>;

/// A node of a bucket.
pub struct Node {
    /// Table, bucket and id.
    pub handle: u32,
    /// `TCA_CLS_FLAGS_*`
    pub flags: u32,
    /// Device the packet must have come in by, 0 any.
    pub ifindex: u32,
    /// Value and mask.
    pub mark: (u32, u32),
    /// What must hold.
    pub selector: Arc<Selector>,
    /// Table to go on with.
    pub down: Option<Arc<Table>>,
    /// Actions and class.
    pub exts: Exts,
    /// Counters.
    pub stats: Arc<Stats>,
}

impl Filter for Node {
    fn handle(&self) -> u32 {
        self.handle
    }

    fn exts(&self) -> &Exts {
        &self.exts
    }

    fn dump(&self, w: &mut Writer, _terse: bool, env: &Env<'_>) {
        let options = w.nest_noflag(tca::OPTIONS);
        let keys = &self.selector.keys;
        let mut bytes = self.selector.head.to_vec();
        for key in keys {
            bytes.extend(key.to_vec());
        }
        w.put(attr::SEL, &bytes);
        w.put_u32(attr::HASH, self.handle & !0xfff);
        if self.exts.classid != 0 {
            w.put_u32(attr::CLASSID, self.exts.classid);
        }
        if let Some(down) = &self.down {
            w.put_u32(attr::LINK, down.handle);
        }
        if self.flags != 0 {
            w.put_u32(attr::FLAGS, self.flags);
        }
        let mut sums = vec![0_u64; 2 + keys.len()];
        let mut success = 0_u64;
        for (_, counts) in self.stats.iter() {
            let all = [&counts.met, &counts.taken].into_iter();
            for (sum, counter) in sums.iter_mut().zip(all.chain(counts.keys())) {
                *sum = sum.wrapping_add(counter.load(Relaxed));
            }
            success = success.wrapping_add(counts.mark.load(Relaxed));
        }
        let (val, mask) = self.mark;
        if val != 0 || mask != 0 {
            let success = success as u32;
            w.put_fixed(attr::MARK, &TcU32Mark { val, mask, success });
        }
        self.exts.dump(w, EXTS, false, env);
        if self.ifindex != 0
            && let Some(device) = env.host.device(self.ifindex)
        {
            w.put_str(attr::INDEV, &device.name());
        }
        let sums: Vec<u8> = sums.iter().flat_map(|sum| sum.to_ne_bytes()).collect();
        w.put_64bit(attr::PCNT, &sums, attr::PAD);
        w.end(options);
    }
}
