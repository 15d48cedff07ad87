// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The generic netlink family `tcp_metrics`, as `ip tcp_metrics` uses it.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::{World, ip};
use weir_netlink::{GenlMsg, Writer, attrs, errno, genl, messages, nlm};
use weir_stack::connection::{Connection, NoPeer, Protocol};

const ADDR_IPV4: u16 = 1;
const SADDR_IPV4: u16 = 11;
const GET: u8 = 1;
const DELETE: u8 = 2;

fn head(out: &mut Writer, cmd: u8) {
    out.fixed(&GenlMsg {
        cmd,
        version: 1,
        reserved: 0,
    });
}

/// A socket of `NETLINK_GENERIC`.
struct Client(Connection);

impl Client {
    /// Sends a request. Returns its answers.
    fn answers(&mut self, ty: u16, flags: u16, fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut out = Writer::new();
        let message = out.message(ty, flags | nlm::F_REQUEST, 1, 0);
        fill(&mut out);
        out.finish(message).unwrap();
        self.0.request(out.bytes());
        let mut answers = Vec::new();
        while let Some(datagram) = self.0.mailbox().take() {
            answers.extend(datagram);
        }
        answers
    }

    /// Sends a request. Returns the errno of its answer.
    fn request(&mut self, ty: u16, fill: impl FnOnce(&mut Writer)) -> i32 {
        let answers = self.answers(ty, nlm::F_ACK, fill);
        let mut errors = messages(&answers).filter(|message| message.header.ty == nlm::ERROR);
        let error = errors.next().unwrap();
        -i32::from_ne_bytes(*error.payload().first_chunk().unwrap())
    }
}

/// The type of the family's messages, as `ip` asks for it.
fn family(client: &mut Client) -> u16 {
    let answer = client.answers(genl::ID_CTRL, 0, |out| {
        head(out, genl::CTRL_CMD_GETFAMILY);
        out.put_str(genl::CTRL_ATTR_FAMILY_NAME, "tcp_metrics");
    });
    let message = messages(&answer).next().unwrap();
    let rest = message.payload().get(4..).unwrap();
    let id = attrs(rest).find_type(genl::CTRL_ATTR_FAMILY_ID);
    id.unwrap().u16().unwrap()
}

/// The peers of the entries that a request shows, each with its types of values.
fn shown(answer: &[u8], family: u16) -> Vec<(String, Vec<u16>)> {
    let entries = messages(answer).filter(|message| message.header.ty == family);
    let entry = |rest: &[u8]| {
        let peer = attrs(rest).find_type(ADDR_IPV4).unwrap();
        let values = attrs(rest).find_type(6);
        let types = values.map(|nest| nest.attrs().map(|value| value.ty).collect());
        (peer.ip().unwrap().to_string(), types.unwrap_or_default())
    };
    entries
        .map(|message| entry(message.payload().get(4..).unwrap()))
        .collect()
}

#[test]
fn entries_are_shown_and_deleted() {
    let world = World::new();
    let connection = Connection::open(
        &world.stack,
        &world.ns,
        Protocol::Generic,
        9,
        Box::new(NoPeer),
        None,
    );
    let mut client = Client(connection);
    let family = family(&mut client);
    let own = ip("10.0.0.1");
    let metrics = weir_socket::metrics(&world.ns);
    metrics.change(5, own, ip("10.0.0.2"), |entry| {
        entry.values.rtt = 1500;
        entry.values.rtt_var = 700;
        entry.values.cwnd = 10;
    });
    metrics.change(6, own, ip("10.0.0.3"), |entry| entry.mss = 1460);
    metrics.change(7, ip("10.0.0.9"), ip("10.0.0.3"), |_| ());
    let dump = client.answers(family, nlm::F_DUMP, |out| head(out, GET));
    let all = shown(&dump, family);
    assert_eq!(all.len(), 3);
    assert_eq!(all[0], ("10.0.0.2".to_owned(), vec![6, 1, 7, 2, 4]));
    let one = client.answers(family, 0, |out| {
        head(out, GET);
        out.put_ip(ADDR_IPV4, ip("10.0.0.3"));
        out.put_ip(SADDR_IPV4, ip("10.0.0.9"));
    });
    assert_eq!(shown(&one, family), [("10.0.0.3".to_owned(), vec![])]);
    // Eight times the round-trip time in microseconds.
    let rtt = [8, 0, 6, 0, 0xe0, 0x2e, 0, 0];
    assert!(dump.windows(8).any(|bytes| bytes == rtt));

    let delete = |client: &mut Client, peer: Option<&str>| {
        client.request(family, |out| {
            head(out, DELETE);
            if let Some(peer) = peer {
                out.put_ip(ADDR_IPV4, ip(peer));
            }
        })
    };
    assert_eq!(delete(&mut client, Some("10.0.0.7")), errno::ESRCH);
    assert_eq!(delete(&mut client, Some("10.0.0.3")), 0);
    assert_eq!(weir_socket::metrics(&world.ns).all().len(), 1);
    assert_eq!(delete(&mut client, None), 0);
    assert!(weir_socket::metrics(&world.ns).all().is_empty());
    let get = client.request(family, |out| {
        head(out, GET);
        out.put_ip(ADDR_IPV4, ip("10.0.0.2"));
    });
    assert_eq!(get, errno::ESRCH);
    let none = client.request(family, |out| head(out, GET));
    assert_eq!(none, errno::EAFNOSUPPORT);
}

/// Settings of TCP that are no numbers are checked.
#[test]
fn settings_are_checked() {
    let world = World::new();
    let write = |path: &str, value: &str| {
        weir_stack::sysctl::tree::write(&world.stack, &world.ns, path, value.as_bytes())
    };
    assert_eq!(
        write("ipv4/tcp_congestion_control", "vegas\n"),
        Err(errno::ENOENT)
    );
    assert_eq!(write("ipv4/tcp_congestion_control", "bbr\n"), Ok(()));
    assert_eq!(
        write("ipv4/tcp_fastopen_key", "1-2-3\n"),
        Err(errno::EINVAL)
    );
    let key = "a0bf63f7-ed803d81-cd641d30-cebc4a90";
    assert_eq!(write("ipv4/tcp_fastopen_key", key), Ok(()));
}
