// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet socket of the machine behind a device of the stack, in a network namespace of the
//! test's own: more frames than the socket may hold, over a slow qdisc of the machine.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, thread};

use common::{has, output, skip, text};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketType, recv, socket};
use weir_netlink::{IfInfoMsg, Writer, ifla, nlm, rtm};
use weir_packet::{Batch, Packet};
use weir_port::af_packet::AfPacket;
use weir_stack::connection::NoPeer;
use weir_stack::link::Wire;
use weir_stack::{Config, Connection, Cpu, Cx, Device, Stack, datapath};

const INSIDE: &str = "WEIR_TEST_INSIDE";
/// More frames than a socket may have in flight (`wmem_default`), and fewer than a socket that is
/// read late can queue (twice as many).
const FRAMES: u32 = 480;
/// An unassigned ethertype.
const TYPE: u16 = 0x88b5;

/// Runs this file's other test in namespaces of its own.
#[test]
fn frames_wait_in_the_qdisc_while_the_socket_is_full() {
    if !has("unshare", "util-linux") || !has("tc", "iproute2") {
        return;
    }
    let mut inside = Command::new("unshare");
    inside.args(["-rn", "sh", "-c"]);
    inside.arg(
        "export PATH=$PATH:/usr/sbin:/sbin
        ip link add v0 type veth peer name v1 && ip link set v0 up && ip link set v1 up &&
        tc qdisc add dev v0 root tbf rate 1kbit burst 3000 limit 10000000 || exit 77
        # A veth hands frames over by way of the CPU that sends: two would mix them.
        cpu=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/self/status)
        exec taskset -c \"$cpu\" \"$0\" --exact inside --ignored --nocapture",
    );
    inside.arg(env::current_exe().unwrap());
    inside.env(INSIDE, "1").stdin(Stdio::null());
    let output = output(&mut inside);
    let said = text(&output.stdout) + &text(&output.stderr);
    match output.status.code() {
        Some(0) => assert!(said.contains("1 passed"), "{said}"),
        Some(77) => skip(&format!("no veth or tbf in a namespace here: {said}")),
        _ if said.contains("unshare failed") => skip(&said),
        _ => panic!("{said}"),
    }
}

struct Port {
    socket: Arc<AfPacket>,
    full: Mutex<Sender<()>>,
}

impl Wire for Port {
    fn transmit(
        &self,
        _cx: &mut Cx<'_>,
        _device: &Arc<Device>,
        _queue: u16,
        frames: &[Packet],
    ) -> usize {
        let taken = self.socket.send(frames.iter().map(Packet::data)).unwrap();
        if taken < frames.len() {
            self.full.lock().unwrap().send(()).unwrap();
        }
        taken
    }
}

/// Creates a device of the stack with a queue for all frames.
fn device(stack: &Stack) -> Arc<Device> {
    let ns = stack.namespace(Stack::INITIAL).unwrap();
    let mut connection = Connection::new(stack, &ns, 1, Box::new(NoPeer), None);
    let mut request = |flags, index, up: u32| {
        let mut out = Writer::new();
        let message = out.message(rtm::NEWLINK, nlm::F_REQUEST | flags, 1, 0);
        out.fixed(&IfInfoMsg {
            index,
            flags: up,
            change: up,
            ..IfInfoMsg::default()
        });
        if index == 0 {
            out.put_str(ifla::IFNAME, "p0");
            out.put_u32(ifla::TXQLEN, 2 * FRAMES);
            let nest = out.nest(ifla::LINKINFO);
            out.put_str(ifla::info::KIND, "dummy");
            out.end(nest);
        }
        out.finish(message).unwrap();
        connection.request(out.bytes());
    };
    request(nlm::F_CREATE | nlm::F_EXCL, 0, 0);
    let device = ns.device_by_name("p0").unwrap();
    let (full, refused) = mpsc::channel();
    let socket = Arc::new(AfPacket::open("v0").unwrap());
    let wire = Port {
        socket: socket.clone(),
        full: Mutex::new(full),
    };
    device.connect(stack, Some(Arc::new(wire)));
    request(0, device.ifindex() as i32, ifla::iff::UP);
    let (stack, found) = (stack.clone(), device.clone());
    thread::spawn(move || {
        for () in refused {
            socket.wait().unwrap();
            datapath::wake_queue(&stack, &device, 0);
        }
    });
    found
}

#[test]
#[ignore = "the other test runs it, in namespaces of its own"]
fn inside() {
    assert!(env::var_os(INSIDE).is_some(), "not by itself");
    let protocol = Protocol::from_raw(u32::from(TYPE.to_be()).try_into().unwrap());
    let receiver = socket(AddressFamily::PACKET, SocketType::RAW, Some(protocol)).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&receiver, 64 << 20)
        .or_else(|_| {
            // Without the privilege, the limit for ordinary users applies.
            rustix::net::sockopt::set_socket_recv_buffer_size(&receiver, 64 << 20)
        })
        .unwrap();
    let stack = weir_stack::build(Config {
        virtual_time: false,
        ..Config::default()
    });
    let device = device(&stack);
    let (something, to_do) = mpsc::channel();
    let woken = something.clone();
    stack.set_waker(Box::new(move || woken.send(false).unwrap_or_default()));
    let arrived = thread::spawn(move || {
        let mut frame = [0; 128];
        for number in 0..FRAMES {
            let (len, _) = recv(&receiver, &mut frame[..], RecvFlags::empty()).unwrap();
            assert!(len > 18, "{len}");
            let found = u32::from_be_bytes(*frame[14..].first_chunk().unwrap());
            assert_eq!(found, number, "lost, or out of order");
        }
        something.send(true).unwrap();
    });
    let mut cpu = Cpu::new(&stack, 0);
    for first in (0..FRAMES).step_by(60) {
        let mut batch = Batch::new();
        cpu.with(|cx| {
            cx.stack.pool.cache().alloc_bulk(&mut batch, 60);
            for (packet, number) in batch.iter_mut().zip(first..) {
                assert!(packet.append(&[0xff; 12]) && packet.append(&TYPE.to_be_bytes()));
                assert!(packet.append(&number.to_be_bytes()) && packet.append(&[0; 42]));
            }
            datapath::transmit(cx, &device, batch);
        });
    }
    let full = device.tc.root_stats().unwrap().2;
    assert!(full.requeues > 0, "the socket was never full");
    // From now on the machine's qdisc passes them quickly.
    let mut faster = Command::new("tc");
    faster.args("qdisc change dev v0 root tbf rate 100mbit burst 3000 limit 10000000".split(' '));
    assert!(faster.status().unwrap().success());
    let mut done = false;
    while !done {
        cpu.settle();
        // Far more time than needed: a sender that waits longer was forgotten.
        done = to_do.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    arrived.join().unwrap();
    cpu.settle();
    let (_, packets, queue) = device.tc.root_stats().unwrap();
    assert_eq!((packets, queue.qlen, queue.drops), (FRAMES.into(), 0, 0));
    assert_eq!(device.totals().tx_packets, u64::from(FRAMES));
}
