// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stack that receives the frames: a router configured by the recorded requests of
//! `weir-netlink/tests/vectors/router.cmd`.

use weir_netlink::{IfInfoMsg, Writer, ifla, messages, nlm, rtm};
use weir_stack::connection::NoPeer;
use weir_stack::{Connection, Stack, sysctl};

const REQUESTS: &str = include_str!("../../weir-netlink/tests/vectors/router.vec");

/// The veth pairs the recorded requests expect. Their indices become 3 and 2, 5 and 4.
pub const PAIRS: [(&str, &str); 2] = [("d0", "pd0"), ("d1", "pd1")];

/// The sysctls set in addition to the recorded requests.
const SYSCTLS: [(&str, &[u8]); 4] = [
    ("ipv4/ip_forward", b"1"),
    ("ipv6/conf/all/forwarding", b"1"),
    ("ipv4/conf/all/rp_filter", b"2"),
    ("ipv4/conf/d1/proxy_arp", b"1"),
];

/// Encodes `ip link add NAME numtxqueues 4 type veth peer name PEER`. Some qdiscs need several
/// queues.
pub fn pair((name, peer): (&str, &str)) -> Vec<u8> {
    let mut out = Writer::new();
    let flags = nlm::F_REQUEST | nlm::F_ACK | nlm::F_CREATE | nlm::F_EXCL;
    let message = out.message(rtm::NEWLINK, flags, 1, 0);
    out.fixed(&IfInfoMsg::default());
    out.put_str(ifla::IFNAME, name);
    out.put_u32(ifla::NUM_TX_QUEUES, 4);
    let info = out.nest(ifla::LINKINFO);
    out.put_str(ifla::info::KIND, "veth");
    let data = out.nest(ifla::info::DATA);
    let other = out.nest(ifla::veth::PEER);
    out.fixed(&IfInfoMsg::default());
    out.put_str(ifla::IFNAME, peer);
    out.end(other);
    out.end(data);
    out.end(info);
    out.finish(message)
        .expect("a writer without a limit is never full");
    out.into_vec()
}

/// Creates the router in the initial namespace. Returns the commands that were refused, each with
/// its errno; the list should be empty.
pub fn set_up(stack: &Stack) -> Vec<(String, i32)> {
    let namespace = stack
        .namespace(Stack::INITIAL)
        .expect("a stack has an initial namespace");
    let mut client = Connection::new(stack, &namespace, 1, Box::new(NoPeer), None);
    let mut results = Vec::new();
    for names in PAIRS {
        results.push((names.0.to_owned(), send(&mut client, &pair(names))));
    }
    for line in REQUESTS.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            results.push((command.to_owned(), 0));
        } else if let Some(hex) = line.strip_prefix("> ") {
            // Only the last datagram is the command itself: `ip link` first asks for a device that
            // does not exist, to probe the kernel's features.
            if let Some((_, result)) = results.last_mut() {
                *result = send(&mut client, &bytes(hex));
            }
        }
    }
    for (path, value) in SYSCTLS {
        let result = sysctl::tree::write(stack, &namespace, path, value);
        results.push((path.to_owned(), result.err().unwrap_or(0)));
    }
    results.retain(|(_, errno)| *errno != 0);
    results
}

/// Encodes `ip link set dev INDEX up`.
pub fn up(index: u32) -> Vec<u8> {
    let mut out = Writer::new();
    let message = out.message(rtm::NEWLINK, nlm::F_REQUEST | nlm::F_ACK, 1, 0);
    out.fixed(&IfInfoMsg {
        index: index as i32,
        flags: 1,
        change: 1,
        ..IfInfoMsg::default()
    });
    out.finish(message)
        .expect("a writer without a limit is never full");
    out.into_vec()
}

/// Sends a datagram and returns the errno it is refused with, or 0.
pub fn send(client: &mut Connection, datagram: &[u8]) -> i32 {
    client.request(datagram);
    let mut result = 0;
    while let Some(answer) = client.mailbox().take() {
        for message in messages(&answer).filter(|message| message.header.ty == nlm::ERROR) {
            if let Some(errno) = message.payload().first_chunk() {
                result = -i32::from_ne_bytes(*errno);
            }
        }
    }
    result
}

/// Decodes hexadecimal digits.
pub fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .expect("a recording holds hexadecimal digits") as u8
    };
    hex.as_bytes()
        .chunks_exact(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_served() {
        let refused = set_up(&weir_stack::build(weir_stack::Config::default()));
        assert!(refused.is_empty(), "{refused:#?}");
    }
}
