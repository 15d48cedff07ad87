// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A filter in front of a short list behind a lock.
//!
//! One load tells that an absent key is absent, for most of them, so packets to groups of others take no lock
//! (`mc_hash` in Linux). A key that passes is looked up in the list.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A bit for each of the list's addresses. Changes are made under the list's lock.
#[derive(Debug, Default)]
pub(crate) struct Sketch(AtomicU64);

fn bit(address: IpAddr) -> u64 {
    let word = match address {
        IpAddr::V4(address) => u64::from(u32::from(address)),
        IpAddr::V6(address) => {
            let bits = u128::from(address);
            (bits >> 64) as u64 ^ bits as u64
        }
    };
    // The golden ratio spreads the last octets, in which groups differ.
    1 << (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

impl Sketch {
    /// Returns whether an address may be in the list.
    #[inline]
    pub(crate) fn may_have(&self, address: impl Into<IpAddr>) -> bool {
        self.0.load(Relaxed) & bit(address.into()) != 0
    }

    /// Takes an address that joins the list.
    pub(crate) fn add(&self, address: impl Into<IpAddr>) {
        self.0.fetch_or(bit(address.into()), Relaxed);
    }

    /// Takes the addresses of the list as it is now.
    pub(crate) fn set<A: Into<IpAddr>>(&self, addresses: impl Iterator<Item = A>) {
        let bits = addresses.fold(0, |bits, address| bits | bit(address.into()));
        self.0.store(bits, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_passes_and_most_of_the_rest_does_not() {
        let sketch = Sketch::default();
        let group = |n: u8| IpAddr::from([239, 1, 1, n]);
        assert!((0..=255).all(|n| !sketch.may_have(group(n))));
        sketch.set([3, 77].into_iter().map(group));
        assert!(sketch.may_have(group(3)) && sketch.may_have(group(77)));
        let passing = (0..=255).filter(|n| sketch.may_have(group(*n))).count();
        assert!(passing < 26, "{passing}");
        sketch.set([77].into_iter().map(group));
        assert!(!sketch.may_have(group(3)) && sketch.may_have(group(77)));
        sketch.add(group(3));
        assert!(sketch.may_have(group(3)) && sketch.may_have(group(77)));
    }
}
