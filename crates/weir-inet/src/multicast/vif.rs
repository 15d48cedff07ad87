// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual interfaces (`struct vif_device`): the devices that multicast packets are routed between, by small numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Family;
use super::cache::MAX_VIFS;
use crate::device::Device;

/// The flag of a VIF that no daemon has made (`VIFF_STATIC`).
pub const STATIC: u16 = 0x8000;

/// Packets and bytes.
#[derive(Debug, Default)]
pub(super) struct Count {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    pub fn add(&self, bytes: usize) {
        self.packets.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    fn get(&self) -> (u64, u64) {
        (self.packets.load(Relaxed), self.bytes.load(Relaxed))
    }
}

/// A VIF.
#[derive(Debug)]
pub struct Vif<F: Family> {
    /// Its number, below [`MAX_VIFS`].
    pub number: u8,
    /// The device.
    pub device: Arc<Device>,
    /// `VIFF_*`, `MIFF_*`
    pub flags: u16,
    /// What the request said of its addresses.
    pub ends: F::Ends,
    pub(super) input: Count,
    pub(super) output: Count,
}

impl<F: Family> Vif<F> {
    /// Returns the packets and the bytes that came by it to be forwarded.
    pub fn received(&self) -> (u64, u64) {
        self.input.get()
    }

    /// Returns the device if it comes and goes with the VIF.
    pub(super) fn own_device(&self) -> Option<Arc<Device>> {
        (self.flags & F::OWNED != 0).then(|| self.device.clone())
    }

    /// Counts a packet that leaves by it.
    pub(crate) fn count_sent(&self, bytes: usize) {
        self.output.add(bytes);
    }

    /// Returns the packets and the bytes that left by it.
    pub fn sent(&self) -> (u64, u64) {
        self.output.get()
    }
}

/// The VIFs of a table by their numbers.
#[derive(Debug)]
pub struct Vifs<F: Family>([Option<Arc<Vif<F>>>; MAX_VIFS]);

impl<F: Family> Default for Vifs<F> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| None))
    }
}

impl<F: Family> Vifs<F> {
    /// Returns the VIF of a number.
    #[inline]
    pub fn get(&self, number: u8) -> Option<&Arc<Vif<F>>> {
        self.0.get(usize::from(number))?.as_ref()
    }

    /// Returns all in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Vif<F>>> {
        self.0.iter().flatten()
    }

    /// Returns the VIF whose packets the daemon gets as a whole, which this has only while the daemon speaks PIM
    /// (`mroute_reg_vif_num`).
    pub fn register(&self) -> Option<&Arc<Vif<F>>> {
        self.iter().find(|vif| vif.flags & F::REGISTER != 0)
    }

    /// Returns the highest number plus one (`maxvif`).
    pub fn end(&self) -> usize {
        let last = self.0.iter().rposition(Option::is_some);
        last.map_or(0, |last| last + 1)
    }

    /// Returns the highest number of a device (`ipmr_find_vif`).
    #[inline]
    pub fn of(&self, device: &Device) -> Option<u8> {
        let is = |vif: &Option<Arc<Vif<F>>>| {
            vif.as_ref()
                .is_some_and(|vif| std::ptr::eq(&*vif.device, device))
        };
        Some(self.0.iter().rposition(is)? as u8)
    }

    /// Returns these with another VIF at a number, or none.
    pub(super) fn with(&self, number: u8, vif: Option<Arc<Vif<F>>>) -> Self {
        let mut changed = Self(self.0.clone());
        if let Some(place) = changed.0.get_mut(usize::from(number)) {
            *place = vif;
        }
        changed
    }
}
