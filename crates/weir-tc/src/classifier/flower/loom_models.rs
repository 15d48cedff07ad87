// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Masks are created with their first filter and removed with their last. Every lookup that begins
//! after an insertion finds the filter.

use loom::thread;

use super::key::Key;
use super::*;

/// Masks and their domain.
#[derive(Clone)]
struct World {
    domain: Domain,
    masks: Arc<Masks>,
}

/// Returns a mask of destination addresses.
fn mask() -> Key {
    let mut mask = Key::default();
    mask.flow.dst[..4].fill(0xff);
    mask
}

fn key(last: u8) -> Key {
    let mut key = Key::default();
    key.flow.dst[..4].copy_from_slice(&[10, 0, 0, last]);
    key
}

impl World {
    fn new() -> Self {
        let domain = Domain::default();
        Self {
            masks: Arc::new(Masks::new(&domain)),
            domain,
        }
    }

    /// Returns the mask with a reference.
    fn hold(&self) -> Arc<UnderMask> {
        self.masks
            .get(&mask(), None, None, &self.domain.pin())
            .unwrap()
    }

    fn filter(&self, under: &Arc<UnderMask>, handle: u32) -> Arc<Filter> {
        let packed = under.mask.pack(&key(handle as u8));
        let keyed = Keyed::new(handle, under.clone(), &packed);
        Arc::new(Filter::new(keyed, Exts::default()))
    }

    fn add(&self, handle: u32) -> Arc<Filter> {
        let under = self.hold();
        let filter = self.filter(&under, handle);
        assert!(under.insert(&filter, &self.domain.pin()));
        filter
    }

    fn delete(&self, filter: &Arc<Filter>) {
        let guard = self.domain.pin();
        filter.under().remove(filter, &guard);
        self.masks.put(filter.under(), &guard);
    }

    fn find(&self, handle: u32) -> Option<u32> {
        let guard = self.domain.pin();
        let found = self
            .masks
            .list(&guard)
            .find(&key(handle as u8).flow, &guard);
        found.map(|filter| filter.keyed.handle)
    }
}

#[test]
fn a_referenced_mask_is_in_the_list() {
    weir_sync::models::check(2, || {
        let world = World::new();
        let first = world.hold();
        let other = {
            let world = world.clone();
            thread::spawn(move || drop(world.add(2)))
        };
        world.masks.put(&first, &world.domain.pin());
        other.join().unwrap();
        assert_eq!(world.find(2), Some(2));
    });
}

#[test]
fn concurrent_requests_share_a_mask() {
    weir_sync::models::check(2, || {
        let world = World::new();
        let other = {
            let world = world.clone();
            thread::spawn(move || world.hold())
        };
        let one = world.add(1);
        let two = other.join().unwrap();
        assert!(Arc::ptr_eq(one.under(), &two));
        assert_eq!(world.find(1), Some(1));
        world.delete(&one);
        assert!(!world.masks.list(&world.domain.pin()).is_empty());
        world.masks.put(&two, &world.domain.pin());
        assert!(world.masks.list(&world.domain.pin()).is_empty());
    });
}

#[test]
fn a_filter_is_found_while_others_of_its_mask_are_removed() {
    weir_sync::models::check(2, || {
        let world = World::new();
        let (one, two) = (world.add(1), world.add(2));
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                assert_eq!(world.find(2), Some(2));
                assert!(matches!(world.find(1), None | Some(1)));
            })
        };
        world.delete(&one);
        world.domain.poll();
        reader.join().unwrap();
        world.delete(&two);
        assert!(world.masks.list(&world.domain.pin()).is_empty());
    });
}
