// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests that attach something to devices, beside others that delete them: nothing stays with what is gone.
#![allow(clippy::unwrap_used)] // A test may stop there.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use weir_netlink::{IfAddrMsg, IfInfoMsg, TcMsg, Writer, af, ifa, ifla, nlm, rtm, tca};
use weir_stack::connection::NoPeer;
use weir_stack::{Config, Connection, Stack};

/// The index all devices of the test have, one after the other.
const INDEX: u32 = 100;

struct Client(Connection);

impl Client {
    fn new(stack: &Stack, port: u32) -> Self {
        let ns = stack.namespace(Stack::INITIAL).unwrap();
        Self(Connection::new(stack, &ns, port, Box::new(NoPeer), None))
    }

    fn request(&mut self, ty: u16, flags: u16, fill: impl FnOnce(&mut Writer)) {
        let mut out = Writer::new();
        let message = out.message(ty, nlm::F_REQUEST | flags, 1, 0);
        fill(&mut out);
        out.finish(message).unwrap();
        self.0.request(out.bytes());
        while self.0.mailbox().take().is_some() {}
    }

    fn add_device(&mut self) {
        self.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&IfInfoMsg {
                index: INDEX as i32,
                flags: ifla::iff::UP,
                change: ifla::iff::UP,
                ..IfInfoMsg::default()
            });
            out.put_str(ifla::IFNAME, "x0");
            let nest = out.nest(ifla::LINKINFO);
            out.put_str(ifla::info::KIND, "dummy");
            out.end(nest);
        });
    }

    fn delete_device(&mut self) {
        self.request(rtm::DELLINK, 0, |out| {
            out.fixed(&IfInfoMsg {
                index: INDEX as i32,
                ..IfInfoMsg::default()
            });
        });
    }

    fn add_qdisc(&mut self) {
        self.request(rtm::NEWQDISC, nlm::F_CREATE | nlm::F_REPLACE, |out| {
            out.fixed(&TcMsg {
                ifindex: INDEX as i32,
                parent: tca::h::ROOT,
                ..TcMsg::default()
            });
            out.put_str(tca::KIND, "pfifo");
        });
    }

    fn add_address(&mut self, address: &[u8]) {
        let family = if address.len() == 4 {
            af::INET
        } else {
            af::INET6
        };
        self.request(rtm::NEWADDR, nlm::F_CREATE | nlm::F_REPLACE, |out| {
            out.fixed(&IfAddrMsg {
                family,
                prefixlen: 8 * address.len() as u8,
                index: INDEX,
                ..IfAddrMsg::default()
            });
            out.put(ifa::LOCAL, address);
            out.put(ifa::ADDRESS, address);
        });
    }
}

#[test]
fn stress_what_comes_late_is_not_attached_to_a_device_that_goes() {
    let stack = Stack::new(Config {
        cpus: 1,
        ..Config::default()
    });
    let ns = stack.namespace(Stack::INITIAL).unwrap();
    let rounds = match std::env::var_os("WEIR_TEST_SHORT") {
        Some(_) => 200,
        None => 2000,
    };
    let (done, port) = (AtomicBool::new(false), AtomicU32::new(1));
    let client = || Client::new(&stack, port.fetch_add(1, Relaxed));
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let beside = |work: fn(&mut Client)| {
            let (mut client, done) = (client(), &done);
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    work(&mut client);
                }
            });
        };
        beside(Client::add_qdisc);
        beside(|client| client.add_address(&[192, 0, 2, 1]));
        beside(|client| client.add_address(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]));
        beside(Client::delete_device);
        let mut client = client();
        for _ in 0..rounds {
            client.add_device();
            all.lock().unwrap().extend(ns.device_by_name("x0"));
            client.delete_device();
        }
        done.store(true, Relaxed);
    });
    client().delete_device();
    let guard = stack.domain.pin();
    let all = all.into_inner().unwrap();
    assert!(!all.is_empty(), "each was gone before it was seen");
    for device in all {
        assert!(!device.is_registered());
        assert_eq!(device.tc.root_kind(), "noop");
        assert!(device.ipv4.addresses.list(&guard).is_empty());
        assert!(device.ipv6.addresses.list(&guard).is_empty());
    }
}
