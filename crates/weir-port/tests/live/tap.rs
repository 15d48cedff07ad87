// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TAP devices.

use std::fs::OpenOptions;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::{Batch, Pool};
use weir_port::Port;

use crate::common::*;

/// Skips the test where this user cannot open TAP devices.
pub fn need_tun() {
    let tun = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    if let Err(error) = tun {
        skip(&format!("/dev/net/tun: {error}"));
    }
}

fn tap(host: &Host, keys: &str, pool: &Pool) -> Arc<dyn Port> {
    port_in(host, "tap", keys, pool)
}

#[test]
fn a_tcp_sender_with_offloads() {
    in_namespaces("tap::tcp_inside");
}

/// The kernel leaves segmentation and checksums to the port. The segments are no longer than the MTU allows, and
/// the receiver, behind another port, gets long packets with the bytes.
#[test]
#[ignore = "the other test runs it, in namespaces of its own"]
fn tcp_inside() {
    assert_inside();
    need_tun();
    let (a, b) = (Host::new(), Host::new());
    let pool = pool();
    let first = tap(&a, "name=t0", &pool);
    let second = tap(&b, "name=t%d", &pool);
    assert_eq!(second.facts().name, "t0");
    for (host, end) in [(&a, 1), (&b, 2)] {
        let script = format!(
            "ip addr add 10.0.0.{end}/24 dev t0; ip addr add fd00::{end}/64 dev t0 nodad
            ip link set t0 up"
        );
        host.run(move || run(&script));
    }
    for address in ["10.0.0.2:5000", "[fd00::2]:5000"] {
        let before = b.run(|| counter("t0", RX_PACKETS));
        let done = tcp(&a, &b, address, 8 << 20);
        let ((), packets, on_wire) = bridge([&*first, &*second], &done, 1514);
        let received = b.run(|| counter("t0", RX_PACKETS)) - before;
        assert!(
            on_wire > 2 * packets,
            "{packets} packets for {on_wire} on the wire"
        );
        assert!(
            on_wire > 2 * received,
            "{received} packets for {on_wire} on the wire"
        );
    }
    for port in [first, second] {
        assert_eq!(port.counters().rx_errors.load(Relaxed), 0);
        assert_eq!(port.counters().rx_dropped.load(Relaxed), 0);
    }
}

#[test]
fn queues_down_and_gone() {
    in_namespaces("tap::queues_inside");
}

#[test]
fn queues_without_io_uring() {
    in_namespaces("tap::queues_without_inside");
}

/// Where the kernel refuses io_uring, each frame has a system call.
#[test]
#[ignore = "the other test runs it, in namespaces of its own"]
fn queues_without_inside() {
    refuse(libc::SYS_io_uring_setup);
    queues_inside();
}

/// Makes a system call fail with EPERM in this thread.
#[allow(unsafe_code, reason = "the kernel gets the address of a filter")]
fn refuse(call: libc::c_long) {
    let step = |code: u32, jf, k| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let (load, equal, end) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    // The number of the call is the first word.
    let mut steps = [
        step(load, 0, 0),
        step(equal, 1, call as u32),
        step(end, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(end, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the filter lives through the calls, and the last one refuses a call to this thread.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter);
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        assert_eq!(libc::syscall(call, 1, std::ptr::null::<u8>()), -1);
    }
    let error = std::io::Error::last_os_error();
    assert_eq!(error.raw_os_error(), Some(libc::EPERM));
}

#[test]
#[ignore = "the other test runs it, in namespaces of its own"]
fn queues_inside() {
    assert_inside();
    need_tun();
    let pool = pool();
    let error = port("tap", "queues=17", &pool).unwrap_err().to_string();
    assert_eq!(error, "tap: queues must be from 1 to 16");
    let error = port("tap", "name=0123456789abcdef", &pool).unwrap_err();
    assert!(error.to_string().contains("not a valid device name"));
    let tap = port("tap", "name=q0,queues=2", &pool).unwrap();
    assert_eq!(tap.queues(), 2);
    let mut cache = pool.cache();
    let frame = |length| {
        let mut bytes = vec![0xff; length];
        bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
        pool.packet(&bytes).unwrap()
    };
    // The kernel refuses frames while the device is down.
    assert_eq!(tap.send(0, &[frame(60), frame(60)]).unwrap(), 2);
    assert_eq!(tap.counters().tx_errors.load(Relaxed), 2);
    run("ip link set q0 up");
    let received = |field| counter("q0", field);
    let before = received(1);
    // Both queues send; the last frame is longer than a packet of the frame class holds.
    let sent = [frame(60), frame(1514), frame(3000)];
    for queue in 0..2 {
        assert_eq!(tap.send(queue, &sent).unwrap(), 3);
    }
    assert_eq!(tap.counters().tx_errors.load(Relaxed), 2);
    assert_eq!(received(1) - before, 6);
    // Frames in the other direction, with jumbo frames among them.
    run("ip link set q0 mtu 9000; ip addr add 10.9.0.1/24 dev q0
        ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev q0");
    let socket = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
    for size in [10, 1700, 1751, 8900] {
        socket.send_to(&vec![7; size], "10.9.0.2:9").unwrap();
    }
    let mut sizes = Vec::new();
    for queue in 0..2 {
        let mut batch = Batch::new();
        tap.receive(queue, &mut cache, &mut batch).unwrap();
        for packet in &batch {
            // IPv4, to our port
            let data = packet.data();
            if data[12..14] == [8, 0] && data[23] == 17 && data[36..38] == [0, 9] {
                let mut sum = weir_packet::checksum::Sum::default();
                let [src, dst] = [26, 30].map(|at| *data[at..].first_chunk::<4>().unwrap());
                sum.add_pseudo_v4(src, dst, 17, (data.len() - 34) as u16);
                sum.add(&data[34..]);
                assert_eq!(sum.finish(), 0, "the checksum of {} bytes", data.len());
                sizes.push(data.len() - 42);
            }
        }
    }
    assert_eq!(sizes, [10, 1700, 1751, 8900]);
    // Reads of many frames at once keep the order, with long frames among them, and stop at the batch's end.
    let wanted: Vec<u16> = (0..150)
        .map(|n| if n % 40 == 39 { 3000 + n } else { 100 + n })
        .collect();
    for size in &wanted {
        let data = vec![7; usize::from(*size)];
        socket.send_to(&data, "10.9.0.2:9").unwrap();
    }
    let mut sizes = [Vec::new(), Vec::new()];
    for (queue, sizes) in sizes.iter_mut().enumerate() {
        loop {
            let mut batch = Batch::new();
            if tap.receive(queue as u16, &mut cache, &mut batch).unwrap() == 0 {
                break;
            }
            let ours = batch
                .iter()
                .filter(|packet| packet.data()[12..14] == [8, 0]);
            sizes.extend(ours.map(|packet| (packet.data().len() - 42) as u16));
            cache.free_bulk(&mut batch);
        }
    }
    // A flow has one queue.
    assert_eq!(sizes.concat(), wanted);
    let long = [60, 1514, 3000].map(frame);
    let many: Vec<_> = (0..100).map(|_| frame(60)).chain(long).collect();
    let before = received(1);
    assert_eq!(tap.send(0, &many).unwrap(), many.len());
    assert_eq!(received(1) - before, many.len() as u64);
    run("ip link del q0");
    assert!(tap.receive(0, &mut cache, &mut Batch::new()).is_err());
    assert!(tap.send(1, &[frame(60)]).is_err());
}
