// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A port that comes and goes 1,000 times while frames arrive leaves nothing behind: no descriptor of the process,
//! no frame of the pool.

use std::io::Write;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{Scope, scope};
use std::time::{Duration, Instant};

use weir_packet::{Batch, Pool};
use weir_port::Port;

use crate::common::*;

/// The kernel takes its time to close a port, so threads share the work, each with a device of its own.
const THREADS: usize = 8;

/// How often each thread opens its port. The short form is for sanitizers.
fn rounds() -> usize {
    match std::env::var_os("WEIR_TEST_SHORT") {
        Some(_) => 200 / THREADS,
        None => 1000 / THREADS,
    }
}

/// Opens, uses and closes the port of each thread. `open` gets the thread's number.
fn thousand(pool: &Pool, open: impl Fn(usize) -> Arc<dyn Port> + Sync) {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    let one = |number: usize| {
        let mut received = 0;
        for round in 0..rounds() {
            let port = open(number);
            let mut cache = pool.cache();
            // Every tenth port waits until it has received a frame.
            let end = Instant::now() + LONG;
            loop {
                let mut batch = Batch::new();
                let mut drop_odd = |_: &[&[u8]]| 0xaaaa_aaaa_aaaa_aaaa;
                let taken = match round % 2 {
                    0 => port.receive(0, &mut cache, &mut batch),
                    _ => port.take(0, &mut cache, &mut batch, Some(&mut drop_odd)),
                };
                let taken = taken.unwrap_or_default();
                received += taken;
                // The peer of a socket may have gone.
                let _ = port.send(0, batch.as_slice());
                if taken > 0 || round % 10 != number {
                    break;
                }
                assert!(Instant::now() < end, "no frame arrives");
                wait(&[port.descriptor(0).unwrap()], Duration::from_millis(100));
            }
        }
        received
    };
    let received: usize = scope(|scope| {
        let one = &one;
        let all: Vec<_> = (0..THREADS)
            .map(|number| scope.spawn(move || one(number)))
            .collect();
        all.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(received > THREADS * rounds() / 10, "{received}");
    // Clients come and go too.
    let end = Instant::now() + LONG;
    while descriptors() > before {
        assert!(Instant::now() < end, "{} of {before}", descriptors());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `work` while a thread sends frames through `ports`.
fn flooded(ports: &[Arc<dyn Port>], pool: &Pool, work: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            let frames: Vec<_> = (0..16).map(|_| pool.packet(&[2; 200]).unwrap()).collect();
            while !stop.load(Relaxed) {
                for port in ports {
                    port.send(0, &frames).unwrap();
                }
            }
        });
        let _end = Stop(stop);
        work();
    });
}

/// Ends the senders when it is dropped, so that a failure of the test shows as one.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Sends on the devices that `name` gives.
fn senders(pool: &Pool, name: impl Fn(usize) -> String) -> Vec<Arc<dyn Port>> {
    let open = |n| port("af_packet", &format!("dev={},bypass=yes", name(n)), pool).unwrap();
    (0..THREADS).map(open).collect()
}

/// Makes pairs of veth devices, one a thread.
fn pairs() {
    run("for n in 0 1 2 3 4 5 6 7; do
            ip link add v$n type veth peer name w$n; ip link set v$n up; ip link set w$n up
        done");
}

#[test]
fn af_packet() {
    in_namespaces("thousand::af_packet_inside");
}

#[test]
#[ignore = "the other test runs it, in namespaces of its own"]
fn af_packet_inside() {
    assert_inside();
    pairs();
    let (pool, other_pool) = (pool(), pool());
    let ports = senders(&other_pool, |n| format!("v{n}"));
    flooded(&ports, &other_pool, || {
        thousand(&pool, |n| {
            port("af_packet", &format!("dev=w{n}"), &pool).unwrap()
        });
    });
}

#[test]
fn af_xdp() {
    in_network_namespace("thousand::af_xdp_inside");
}

#[test]
#[ignore = "the other test runs it, in a namespace of its own"]
fn af_xdp_inside() {
    assert_inside();
    pairs();
    let (pool, other_pool) = (pool(), pool());
    drop(crate::af_xdp::xdp("dev=w0", &pool));
    let ports = senders(&other_pool, |n| format!("v{n}"));
    flooded(&ports, &other_pool, || {
        thousand(&pool, |n| {
            // The kernel attaches and detaches programs of veth drivers one at a time and waits for a grace
            // period each, so most ports use the generic path.
            let attach = if n == 0 { "native" } else { "skb" };
            let keys = format!("dev=w{n},zero_copy=off,attach={attach}");
            crate::af_xdp::xdp(&keys, &pool)
        });
    });
}

#[test]
fn tap() {
    in_namespaces("thousand::tap_inside");
}

/// The devices persist, so that senders have them all the time.
#[test]
#[ignore = "the other test runs it, in namespaces of its own"]
fn tap_inside() {
    assert_inside();
    crate::tap::need_tun();
    run("for n in 0 1 2 3 4 5 6 7; do
            ip tuntap add dev t$n mode tap vnet_hdr; ip link set t$n up
        done");
    let (pool, other_pool) = (pool(), pool());
    let ports = senders(&other_pool, |n| format!("t{n}"));
    flooded(&ports, &other_pool, || {
        thousand(&pool, |n| {
            port("tap", &format!("name=t{n}"), &pool).unwrap()
        });
    });
}

/// Runs `work` while a thread for each path sends by `flood` until that fails, and begins again.
fn with_clients(
    path: impl Fn(usize) -> String + Sync,
    flood: impl Fn(&str) + Sync,
    work: impl FnOnce(),
) {
    let stop = AtomicBool::new(false);
    scope(|scope: &Scope<'_, '_>| {
        for n in 0..THREADS {
            let (path, flood, stop) = (path(n), &flood, &stop);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    flood(&path);
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
        }
        let _end = Stop(&stop);
        work();
    });
}

#[test]
fn streams() {
    in_namespaces("thousand::streams_inside");
}

/// It runs by itself because other tests of the process open descriptors.
#[test]
#[ignore = "the other test runs it, in namespaces of its own"]
fn streams_inside() {
    assert_inside();
    let (folder, pool) = (Folder::new(), pool());
    let path = |n| folder.path(&format!("s{n}"));
    let frames = [&60_u32.to_be_bytes()[..], &[2; 60]].concat().repeat(50);
    let flood = |path: &str| {
        if let Ok(mut client) = UnixStream::connect(path) {
            while client.write_all(&frames).is_ok() {}
        }
    };
    // The threads of clients have a descriptor each, so they begin after the count.
    with_clients(path, flood, || {
        thousand(&pool, |n| {
            port("socket", &format!("path={}", path(n)), &pool).unwrap()
        });
    });
}

#[test]
fn datagrams() {
    in_namespaces("thousand::datagrams_inside");
}

#[test]
#[ignore = "the other test runs it, in namespaces of its own"]
fn datagrams_inside() {
    assert_inside();
    let (folder, pool) = (Folder::new(), pool());
    let path = |n| folder.path(&format!("s{n}"));
    let flood = |path: &str| {
        let client = UnixDatagram::unbound().unwrap();
        while client.send_to(&[2; 60], path).is_ok() {}
    };
    with_clients(path, flood, || {
        thousand(&pool, |n| {
            let path = path(n);
            let _ = std::fs::remove_file(&path);
            port("socket", &format!("path={path},type=dgram"), &pool).unwrap()
        });
    });
}
