// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node: a selector of keys, the actions if they match, and counters.

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

/// The number of keys whose counters are in the node's own cache lines.
const NEAR: usize = 10;

/// The keys a packet must match, and the computation of the next offsets (`struct tc_u32_sel`).
pub struct Selector {
    /// The header of the selector as given.
    pub head: TcU32Sel,
    /// The keys.
    pub keys: Box<[TcU32Key]>,
    /// The position of the lowest bit of the hash mask.
    pub shift: u32,
}

impl Selector {
    /// Parses `TCA_U32_SEL`.
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

/// The counters of a node on one CPU.
#[derive(Debug, Default)]
pub struct Counts {
    /// How often the node was tried.
    pub met: AtomicU64,
    /// How often the node matched.
    pub taken: AtomicU64,
    /// How often the mark matched.
    pub mark: AtomicU64,
    near: [AtomicU64; NEAR],
    far: OnceLock<Box<[AtomicU64]>>,
}

impl Counts {
    /// Increments a counter. Only this CPU writes it.
    #[inline]
    pub fn up(counter: &AtomicU64) {
        counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Counts a match of one of `keys` keys.
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

/// The counters of a node; a node that replaces it keeps them.
pub type Stats = PerCpu<Counts>;

/// A filter in a bucket.
pub struct Node {
    /// The table, bucket and id.
    pub handle: u32,
    /// `TCA_CLS_FLAGS_*`
    pub flags: u32,
    /// The device that must have received the packet, 0 for any.
    pub ifindex: u32,
    /// The value and mask of the packet's mark.
    pub mark: (u32, u32),
    /// The keys.
    pub selector: Arc<Selector>,
    /// The table to continue with.
    pub down: Option<Arc<Table>>,
    /// The actions and the class.
    pub exts: Exts,
    /// The counters.
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
