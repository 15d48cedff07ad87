// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of batches that look up and delete.

use super::*;

fn map(kind: Kind, entries: u32) -> Map {
    let map = Map::new(MapOptions {
        kind,
        key_size: 4,
        value_size: 8,
        max_entries: 2 * entries,
        lru: LruOptions::default(),
    })
    .unwrap();
    for key in 0..entries {
        let value = u64::from(!key).to_ne_bytes();
        map.update(&key.to_ne_bytes(), &value, Update::Any).unwrap();
    }
    map
}

/// Takes batches of 3 until there are no more entries. Returns their keys, after a look at their values.
fn drain(map: &Map) -> Vec<u32> {
    let (mut cursor, mut all) = (Cursor::default(), Vec::new());
    loop {
        let (mut keys, mut values) = ([0; 12], [0; 24]);
        let result = map.take_batch(&mut cursor, &mut keys, &mut values);
        let done = match result {
            Ok(done) => done,
            Err((done, error)) => {
                assert_eq!(error, Error::NoEnt);
                done
            }
        };
        let found = keys.as_chunks().0.iter().zip(values.as_chunks().0);
        for (&key, &value) in found.take(done) {
            let key = u32::from_ne_bytes(key);
            assert_eq!(u64::from_ne_bytes(value), u64::from(!key));
            all.push(key);
        }
        if result.is_err() {
            return all;
        }
        assert_eq!(done, 3);
    }
}

#[test]
fn batches_take_every_entry_and_end_with_the_last() {
    for kind in [Kind::Hash, Kind::LruHash] {
        let map = map(kind, 6);
        let mut cursor = Cursor::default();
        let (mut keys, mut values) = ([0; 12], [0; 24]);
        assert_eq!(map.take_batch(&mut cursor, &mut [], &mut []), Ok(0));
        assert_eq!(map.take_batch(&mut cursor, &mut keys, &mut values), Ok(3));
        // The second three are the last ones, which the call says at once.
        let last = Err((3, Error::NoEnt));
        assert_eq!(map.take_batch(&mut cursor, &mut keys, &mut values), last);
        // The end stays the end, whatever is inserted.
        map.update(&[7; 4], &[7; 8], Update::Any).unwrap();
        let end = Err((0, Error::NoEnt));
        assert_eq!(map.take_batch(&mut cursor, &mut keys, &mut values), end);
        let mut cursor = Cursor::default();
        let again = Err((1, Error::NoEnt));
        assert_eq!(map.take_batch(&mut cursor, &mut keys, &mut values), again);
        assert_eq!(
            (keys[..4].to_vec(), values[..8].to_vec()),
            (vec![7; 4], vec![7; 8])
        );
    }
}

#[test]
fn batches_are_refused_with_the_kernels_errors() {
    let refused = |map: &Map, values: usize| {
        let mut cursor = Cursor::default();
        map.take_batch(&mut cursor, &mut [0; 8], &mut vec![0; values])
    };
    assert_eq!(refused(&map(Kind::Array, 6), 16), Err((0, Error::NotSupp)));
    let hash = map(Kind::Hash, 6);
    assert_eq!(refused(&hash, 15), Err((0, Error::Inval)));
    hash.freeze().unwrap();
    assert_eq!(refused(&hash, 16), Err((0, Error::Perm)));
    // A frozen map refuses before its kind does.
    let array = map(Kind::Array, 6);
    array.freeze().unwrap();
    assert_eq!(refused(&array, 16), Err((0, Error::Perm)));
    assert_eq!(array.delete_batch(&[0; 4]), Err((0, Error::Perm)));
}

#[test]
fn threads_that_drain_a_map_share_its_entries() {
    const ENTRIES: u32 = if cfg!(miri) { 200 } else { 20_000 };
    for kind in [Kind::Hash, Kind::LruHash] {
        let map = map(kind, ENTRIES);
        let mut all = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| drain(&map))).collect();
            let parts = threads.into_iter().map(|thread| thread.join().unwrap());
            parts.collect::<Vec<_>>().concat()
        });
        all.sort_unstable();
        assert!(all.into_iter().eq(0..ENTRIES), "{kind:?}");
    }
}
