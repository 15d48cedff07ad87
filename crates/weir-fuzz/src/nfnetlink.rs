// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes of requests to netfilter's netlink family, connection tracking, into a stack.
//!
//! The first byte holds options as in [`netlink`](super::netlink): 1 extended ACKs, 2 capped ACKs, 8 the rest of the input
//! is one datagram. Without option 8 each message is a datagram of its own. The table holds at most 64 connections, and
//! has two before the first message.
//!
//! Invariants: those of `netlink`; the table is as full as it counts; its dump lists the connections that it counts, and
//! a flush leaves none.

use weir_netlink::{NfGenMsg, Writer, cta, messages, nfnl, nlm};
use weir_stack::connection::Protocol;
use weir_stack::{Config, Cpu, Stack, sysctl};

use crate::netlink::Client;

/// Maximum number of messages used from one input.
const MESSAGES: usize = 256;

/// A request of connection tracking without attributes.
fn request(message: u8, flags: u16, family: u8) -> Vec<u8> {
    build(message, flags, family, |_| ())
}

fn build(message: u8, flags: u16, family: u8, attrs: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = Writer::new();
    let ty = nfnl::msg_type(nfnl::SUBSYS_CTNETLINK, message);
    let start = out.message(ty, nlm::F_REQUEST | flags, 1, 0);
    out.fixed(&NfGenMsg {
        family,
        version: nfnl::V0,
        res_id: [0; 2],
    });
    attrs(&mut out);
    out.finish(start)
        .expect("a writer without a limit is never full");
    out.into_vec()
}

/// Encodes `conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p PROTOCOL --sport PORT --dport 80 -t 100`.
fn connection(protocol: u8, port: u16) -> Vec<u8> {
    let flags = nlm::F_ACK | nlm::F_CREATE | nlm::F_EXCL;
    build(nfnl::MSG_CT_NEW, flags, 2, |out| {
        let ends = [([10, 0, 0, 1], port), ([10, 0, 0, 2], 80)];
        for (ty, [from, to]) in [
            (cta::TUPLE_ORIG, ends),
            (cta::TUPLE_REPLY, [ends[1], ends[0]]),
        ] {
            let tuple = out.nest(ty);
            let ip = out.nest(cta::tuple::IP);
            out.put(cta::ip::V4_SRC, &from.0);
            out.put(cta::ip::V4_DST, &to.0);
            out.end(ip);
            let proto = out.nest(cta::tuple::PROTO);
            out.put(cta::proto::NUM, &[protocol]);
            out.put(cta::proto::SRC_PORT, &from.1.to_be_bytes());
            out.put(cta::proto::DST_PORT, &to.1.to_be_bytes());
            out.end(proto);
            out.end(tuple);
        }
        out.put(cta::TIMEOUT, &100_u32.to_be_bytes());
    })
}

/// Feeds `bytes` to a new stack.
pub fn run(bytes: &[u8]) {
    let Some((&options, requests)) = bytes.split_first() else {
        return;
    };
    let stack = weir_stack::build(Config::default());
    let namespace = stack
        .namespace(Stack::INITIAL)
        .expect("a stack has an initial namespace");
    let limit = "netfilter/nf_conntrack_max";
    sysctl::tree::write(&stack, &namespace, limit, b"64").expect("the limit can be set");
    let mut cpu = Cpu::new(&stack, 0);
    let mut client = Client::open(&stack, Protocol::Netfilter, options);
    client.datagram(&connection(6, 1000));
    client.datagram(&connection(17, 2000));
    if options & 8 != 0 {
        client.datagram(requests);
    } else {
        for message in messages(requests).take(MESSAGES) {
            client.datagram(message.bytes);
            cpu.settle();
        }
    }
    let count = || {
        namespace
            .tc
            .conntrack_if_used()
            .map_or(0, |table| table.count())
    };
    assert!(count() <= 64, "{} connections", count());
    for family in [0, 2, 10] {
        for message in [
            nfnl::MSG_CT_GET,
            nfnl::MSG_CT_GET_CTRZERO,
            nfnl::MSG_CT_GET_STATS_CPU,
            nfnl::MSG_CT_GET_DYING,
            nfnl::MSG_CT_GET_UNCONFIRMED,
        ] {
            client.datagram(&request(message, nlm::F_DUMP, family));
        }
    }
    client.datagram(&request(nfnl::MSG_CT_GET_STATS, nlm::F_ACK, 0));
    // Runs the timers: some connections end.
    cpu.run_until(Some(stack.clock.now() + 10_000_000_000));
    client.take();
    client.datagram(&request(nfnl::MSG_CT_DELETE, nlm::F_ACK, 0));
    cpu.settle();
    assert_eq!(count(), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_two_connections() {
        let stack = weir_stack::build(Config::default());
        let mut client = Client::open(&stack, Protocol::Netfilter, 1);
        client.datagram(&connection(6, 1000));
        client.datagram(&connection(17, 2000));
        let namespace = stack.namespace(Stack::INITIAL).unwrap();
        assert_eq!(namespace.tc.conntrack().unwrap().count(), 2);
        run(&[1]);
    }
}
