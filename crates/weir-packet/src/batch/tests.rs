// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::{Pool, PoolConfig};

fn pool() -> Pool {
    Pool::new(PoolConfig {
        limit: 1,
        ..PoolConfig::default()
    })
}

fn batch(pool: &Pool, n: u32) -> Batch {
    let mut b = Batch::new();
    for i in 0..n {
        let mut p = pool.alloc(10).unwrap();
        p.mark = i;
        b.push(p).unwrap();
    }
    b
}

fn marks(b: &Batch) -> Vec<u32> {
    b.iter().map(|p| p.mark).collect()
}

#[test]
fn fills_up_and_empties() {
    let pool = pool();
    let mut b = batch(&pool, 64);
    assert!(b.is_full() && b.room() == 0 && b.bytes() == 640);
    assert!(b.push(pool.alloc(1).unwrap()).is_err());
    assert_eq!(b.pop().map(|p| p.mark), Some(63));
    assert_eq!(b.swap_remove(1).map(|p| p.mark), Some(1));
    assert_eq!(
        (b[..3].iter().map(|p| p.mark).collect::<Vec<_>>(), b.len()),
        (vec![0, 62, 2], 62)
    );
    assert!(b.swap_remove(62).is_none());
    b.prefetch_all();
    b.prefetch(1000);
    drop(b);
    let s = pool.stats();
    assert_eq!(s.frames, s.frames_free);
}

#[test]
fn a_drain_shows_what_is_left() {
    let pool = pool();
    let mut b = batch(&pool, 3);
    let mut drain = b.drain();
    assert_eq!(drain.next().map(|p| p.mark), Some(0));
    let left: Vec<_> = drain.as_slice().iter().map(|p| p.mark).collect();
    assert_eq!(left, [1, 2]);
    assert_eq!((drain.by_ref().count(), drain.as_slice().len()), (2, 0));
}

#[test]
fn splits_keep_order() {
    let pool = pool();
    let mut b = batch(&pool, 10);
    let mut odd = Vec::new();
    b.split(|p| p.mark % 2 == 0, |p| odd.push(p.mark));
    assert_eq!((marks(&b), odd), (vec![0, 2, 4, 6, 8], vec![1, 3, 5, 7, 9]));
    b.retain(|p| p.mark > 2);
    assert_eq!(marks(&b), [4, 6, 8]);
    let mut to = batch(&pool, 62);
    assert_eq!(b.move_to(&mut to), 2);
    assert_eq!((marks(&b), to.len(), to[63].mark), (vec![8], 64, 6));
    let all = b.take();
    assert!(b.is_empty());
    assert_eq!(all.into_iter().map(|p| p.mark).collect::<Vec<_>>(), [8]);
    assert_eq!(marks(&Batch::from(pool.alloc(1).unwrap())), [0]);
}

#[test]
fn iterators_drop_the_packets_they_do_not_return() {
    let pool = pool();
    let mut b = batch(&pool, 5);
    assert_eq!(b.drain().next().map(|p| p.mark), Some(0));
    assert!(b.is_empty());
    assert_eq!(batch(&pool, 5).into_iter().nth(1).map(|p| p.mark), Some(1));
    let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        b = batch(&pool, 3);
        b.retain(|_| panic!("the caller's"));
    }));
    assert!(r.is_err() && b.is_empty());
    drop(b);
    // Only the two packets after the current one leak.
    let s = pool.stats();
    assert_eq!(s.frames, s.frames_free + 2);
}
