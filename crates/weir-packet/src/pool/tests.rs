// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::packet::HEADROOM;

fn small() -> Pool {
    Pool::new(PoolConfig {
        limit: 2 * PAGE,
        ..PoolConfig::default()
    })
}

fn assert_all_free(pool: &Pool) {
    let s = pool.stats();
    assert_eq!((s.frames_free, s.jumbos_free), (s.frames, s.jumbos));
}

#[test]
fn budget_is_kept_and_nothing_leaks() {
    let pool = small();
    let mut held = Vec::new();
    while let Some(p) = pool.alloc(60) {
        held.push(p);
    }
    assert_eq!(held.len(), 2 * 992);
    let s = pool.stats();
    assert_eq!((s.frames_free, s.refused, s.committed), (0, 1, 2 * PAGE));
    assert!(pool.alloc(9000).is_none(), "no page left for jumbo frames");
    drop(held);
    assert_all_free(&pool);
    assert!(pool.alloc(60).is_some());
}

#[test]
fn frames_do_not_overlap() {
    let pool = small();
    let mut held: Vec<Packet> = (0..992u32).map_while(|_| pool.alloc(FRAME_DATA)).collect();
    held.extend((0..29).map_while(|_| pool.alloc(JUMBO_DATA)));
    assert_eq!(held.len(), 992 + 29);
    for (i, p) in held.iter_mut().enumerate() {
        p.data_mut().fill(i as u8);
        assert!(p.push(HEADROOM).is_some_and(|h| {
            h.fill(i as u8);
            true
        }));
        p.mark = i as u32;
    }
    for (i, p) in held.iter().enumerate() {
        assert!(p.data().iter().all(|b| *b == i as u8) && p.mark == i as u32);
        assert_eq!((p.headroom(), p.tailroom()), (0, 0));
    }
}

#[test]
fn alloc_writes_all_metadata() {
    let pool = small();
    let mut cache = pool.cache();
    let mut p = cache.alloc(100).unwrap();
    (p.mark, p.time, p.iif, p.dev, p.hash) = (1, 2, 3, 4, 5);
    (p.protocol, p.queue, p.nest, p.chain, p.cb) = (6, 7, 8, 9, 10);
    p.set_vlan(Some(crate::VlanTag {
        proto: 0x88a8,
        tci: 5,
    }));
    p.reset_mac();
    cache.free(p);
    let p = cache.alloc(7).unwrap();
    assert_eq!((p.mark, p.time, p.iif, p.dev, p.hash), (0, 0, 0, 0, 0));
    assert_eq!(
        (p.protocol, p.queue, p.nest, p.chain, p.cb),
        (0, 0, 0, 0, 0)
    );
    assert_eq!((p.len(), p.headroom(), p.vlan()), (7, HEADROOM, None));
    assert!(!p.has_mac() && !p.has_network() && !p.has_transport());
}

#[test]
fn cache_bulk_and_foreign_packets() {
    let (a, b) = (small(), small());
    let mut cache = a.cache();
    let mut batch = Batch::new();
    assert_eq!(cache.alloc_bulk(&mut batch, 60), 60);
    for _ in 0..4 {
        batch.push(b.alloc(1).unwrap()).unwrap();
    }
    assert!(batch.push(b.alloc(1).unwrap()).is_err());
    cache.free_bulk(&mut batch);
    assert!(batch.is_empty());
    assert_all_free(&b);
    for _ in 0..100 {
        // Allocates and then frees many batches: the magazine refills and flushes.
        let mut out: Vec<Batch> = Vec::new();
        for _ in 0..10 {
            let mut batch = Batch::new();
            assert_eq!(cache.alloc_bulk(&mut batch, 64), 64);
            out.push(batch);
        }
        for batch in &mut out {
            cache.free_bulk(batch);
        }
    }
    cache.free(a.alloc(9000).unwrap());
    drop(cache);
    assert_all_free(&a);
    assert_eq!(a.stats().jumbos, 29);
}

#[test]
fn a_short_bulk_takes_all_free_frames() {
    let pool = Pool::new(PoolConfig {
        limit: 1,
        ..PoolConfig::default()
    });
    let mut cache = pool.cache();
    let mut all = Vec::new();
    loop {
        let mut batch = Batch::new();
        let n = cache.alloc_bulk(&mut batch, 64);
        assert_eq!(n, batch.len());
        if n == 0 {
            break;
        }
        all.push(batch);
    }
    assert_eq!(all.iter().map(Batch::len).sum::<usize>(), 992);
    drop(all);
    drop(cache);
    assert_all_free(&pool);
}

#[test]
fn packets_outlive_their_pool() {
    let pool = small();
    let cache = pool.cache();
    let packets: Vec<Packet> = (0..10).map_while(|i| pool.packet(&[i; 50])).collect();
    drop(pool);
    let copy = packets[3].copy().unwrap();
    drop(cache);
    assert!(packets[3].copy().is_none(), "no handle is left");
    assert_eq!(copy.data(), [3; 50]);
    let mut batch = Batch::new();
    for p in packets {
        batch.push(p).unwrap();
    }
    drop(batch);
    assert_eq!(copy.data(), [3; 50]);
    drop(copy);
}

#[test]
fn drops_on_many_threads() {
    let pool = small();
    let rounds = if cfg!(miri) { 3 } else { 200 };
    std::thread::scope(|s| {
        for _ in 0..3 {
            let pool = pool.clone();
            s.spawn(move || {
                let mut cache = pool.cache();
                for i in 0..rounds {
                    let mut batch = Batch::new();
                    cache.alloc_bulk(&mut batch, 64);
                    let one = pool.alloc(i);
                    if i % 2 == 0 {
                        cache.free_bulk(&mut batch);
                    }
                    drop(batch);
                    drop(one);
                }
            });
        }
    });
    assert_all_free(&pool);
}

#[test]
fn last_packets_race_with_last_handle() {
    for _ in 0..if cfg!(miri) { 5 } else { 300 } {
        let pool = small();
        let a: Vec<Packet> = (0..3).map_while(|_| pool.alloc(1)).collect();
        let b: Vec<Packet> = (0..3).map_while(|_| pool.alloc(1)).collect();
        std::thread::scope(|s| {
            s.spawn(move || drop(a));
            s.spawn(move || drop(b));
            drop(pool);
        });
    }
}

#[test]
fn commit_makes_memory_usable_up_to_the_limit() {
    let pool = Pool::new(PoolConfig {
        limit: 3 * PAGE,
        ..PoolConfig::default()
    });
    pool.commit(PAGE + 1);
    assert_eq!(pool.region().1, 2 * PAGE);
    pool.commit(PAGE);
    assert_eq!(pool.region().1, 2 * PAGE);
    pool.commit(usize::MAX);
    assert_eq!(pool.region().1, 3 * PAGE);
}

#[cfg(not(loom))]
#[test]
fn buffers_become_packets_once_they_are_filled() {
    use crate::Buffers;
    let pool = Pool::new(PoolConfig::default());
    let mut cache = pool.cache();
    let mut buffers = Buffers::new();
    assert_eq!(cache.take(&mut buffers, 100), 64);
    assert_eq!((buffers.len(), buffers.room()), (64, 0));
    // Lengths around those that are copied in fixed sizes, and the longest.
    let lens = [0, 1, 14, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1500, 1792];
    let frames: Vec<Vec<u8>> = lens
        .iter()
        .map(|&len| (0..len).map(|n| (n * 7 + len) as u8).collect())
        .collect();
    let mut batch = Batch::new();
    let all = frames.iter().map(|frame| &frame[..]);
    assert_eq!(buffers.fill(&mut batch, all), lens.len());
    let fresh = pool.alloc(0).unwrap();
    for (packet, frame) in batch.iter().zip(&frames) {
        assert_eq!(packet.data(), frame);
        assert!(packet.headroom() >= fresh.headroom());
        assert!(!packet.has_mac() && !packet.has_network() && !packet.has_transport());
        let zero = (
            packet.mark,
            packet.priority,
            packet.trace,
            packet.hash,
            packet.queue,
        );
        assert_eq!(zero, (0, 0, 0, 0, 0));
        assert!(packet.vlan().is_none() && packet.tunnel().is_none());
    }
    // A frame that is too long ends the filling.
    let long = [0; 1793];
    assert_eq!(buffers.fill(&mut batch, [&long[..], &long[..10]]), 0);
    assert_eq!((batch.len(), buffers.len()), (14, 50));
    // There are no more packets than buffers.
    cache.give(&mut buffers);
    assert_eq!(cache.take(&mut buffers, 2), 2);
    assert_eq!(buffers.fill(&mut batch, [&long[..5]; 3]), 2);
    drop((batch, fresh));
    assert_eq!(cache.take(&mut buffers, 3), 3);
    drop(buffers);
    drop(cache);
    let stats = pool.stats();
    assert_eq!(stats.frames, stats.frames_free);
}

#[cfg(not(loom))]
#[test]
fn buffers_return_to_their_own_pool() {
    use crate::Buffers;
    let pools = [(); 2].map(|()| Pool::new(PoolConfig::default()));
    let [mut first, mut second] = pools.each_ref().map(Pool::cache);
    let mut buffers = Buffers::new();
    assert_eq!(first.take(&mut buffers, 5), 5);
    assert_eq!(second.take(&mut buffers, 5), 0);
    second.give(&mut buffers);
    assert!(buffers.is_empty());
    drop((first, second));
    for pool in pools {
        let stats = pool.stats();
        assert_eq!(stats.frames, stats.frames_free);
    }
}
