// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests that attach something to devices, beside others that delete them: nothing stays with what is gone.
#![allow(clippy::unwrap_used)] // A test may stop there.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use weir_netlink::{
    IfAddrMsg, IfInfoMsg, RtMsg, TcMsg, Writer, af, ifa, ifla, messages, nlm, rta, rtm, tca,
};
use weir_stack::connection::NoPeer;
use weir_stack::{Config, Connection, Stack};

/// The index of the device that is there; each has its own, so that what one leaves behind is not swept away
/// with the next.
static INDEX: AtomicU32 = AtomicU32::new(100);

fn index() -> u32 {
    INDEX.load(Relaxed)
}

/// Where routes lead.
const V4: [u8; 4] = [198, 51, 100, 1];
const V6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

fn family(address: &[u8]) -> u8 {
    match address.len() {
        4 => af::INET,
        _ => af::INET6,
    }
}

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
        INDEX.fetch_add(1, Relaxed);
        self.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&IfInfoMsg {
                index: index() as i32,
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
                index: index() as i32,
                ..IfInfoMsg::default()
            });
        });
    }

    fn add_qdisc(&mut self) {
        self.request(rtm::NEWQDISC, nlm::F_CREATE | nlm::F_REPLACE, |out| {
            out.fixed(&TcMsg {
                ifindex: index() as i32,
                parent: tca::h::ROOT,
                ..TcMsg::default()
            });
            out.put_str(tca::KIND, "pfifo");
        });
    }

    fn add_address(&mut self, address: &[u8]) {
        self.request(rtm::NEWADDR, nlm::F_CREATE | nlm::F_REPLACE, |out| {
            out.fixed(&IfAddrMsg {
                family: family(address),
                prefixlen: 8 * address.len() as u8,
                index: index(),
                ..IfAddrMsg::default()
            });
            out.put(ifa::LOCAL, address);
            out.put(ifa::ADDRESS, address);
        });
    }

    /// A route to the device itself, which need not be up.
    fn add_route(&mut self) {
        self.request(rtm::NEWROUTE, nlm::F_CREATE | nlm::F_APPEND, |out| {
            out.fixed(&RtMsg {
                family: af::INET,
                dst_len: 32,
                table: rta::table::LOCAL as u8,
                protocol: rta::prot::STATIC,
                scope: rta::scope::HOST,
                ty: rta::rtn::LOCAL,
                ..RtMsg::default()
            });
            out.put(rta::DST, &V4);
            out.put_u32(rta::OIF, index());
        });
    }

    /// One by a next hop among others.
    fn add_route6(&mut self) {
        self.request(rtm::NEWROUTE, nlm::F_CREATE | nlm::F_APPEND, |out| {
            out.fixed(&RtMsg {
                family: af::INET6,
                dst_len: 128,
                table: rta::table::MAIN as u8,
                protocol: rta::prot::STATIC,
                ty: rta::rtn::UNICAST,
                ..RtMsg::default()
            });
            out.put(rta::DST, &V6);
            // `struct rtnexthop` with a gateway.
            let mut hop = [28_u16.to_ne_bytes(), [0, 0]].concat();
            hop.extend(index().to_ne_bytes());
            hop.extend([20_u16, rta::GATEWAY].map(u16::to_ne_bytes).concat());
            hop.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            out.put(rta::MULTIPATH, &hop);
        });
    }

    /// Routes to an address that are in any table.
    fn routes(&mut self, to: &[u8]) -> usize {
        let mut out = Writer::new();
        let message = out.message(rtm::GETROUTE, nlm::F_REQUEST | nlm::F_DUMP, 1, 0);
        out.fixed(&RtMsg {
            family: family(to),
            ..RtMsg::default()
        });
        out.finish(message).unwrap();
        self.0.request(out.bytes());
        let mut found = 0;
        while self.0.pump() {}
        while let Some(datagram) = self.0.mailbox().take() {
            for message in messages(&datagram).filter(|message| message.header.ty == rtm::NEWROUTE)
            {
                let dst = message.attrs::<RtMsg>().find_type(rta::DST);
                found += usize::from(dst.is_some_and(|dst| dst.payload == to));
            }
        }
        found
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
    let mut first = Client::new(&stack, 1);
    first.add_device();
    first.add_route();
    first.add_route6();
    for address in [&V4[..], &V6] {
        assert_eq!(first.routes(address), 1);
    }
    first.delete_device();
    let (done, port) = (AtomicBool::new(false), AtomicU32::new(2));
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
        beside(Client::add_route);
        beside(Client::add_route6);
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
    for address in [&V4[..], &V6] {
        assert_eq!(client().routes(address), 0);
    }
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
