// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Namespaces that nobody has used: they exist, have ids and are deleted without being filled.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::{Arc, Barrier};

use weir_netlink::{RtGenMsg, Writer, messages, netnsa, nlm, rtm};
use weir_stack::request::Peer;
use weir_stack::{Config, Connection, NsId, Stack};

/// A client whose descriptors are the ids of namespaces.
struct ById;

impl Peer for ById {
    fn namespace_by_fd(&self, fd: u32) -> Option<NsId> {
        Some(NsId(fd.into()))
    }

    fn namespace_by_pid(&self, _: u32) -> Option<NsId> {
        None
    }
}

/// Sends a request about a namespace. Returns the errno of the answer, and the id it tells.
fn ask(client: &mut Connection, ty: u16, of: NsId, id: Option<i32>) -> (i32, Option<i32>) {
    let mut out = Writer::new();
    let mark = out.message(ty, nlm::F_REQUEST | nlm::F_ACK, 1, 0);
    out.fixed(&RtGenMsg { family: 0 });
    out.put_u32(netnsa::FD, of.0 as u32);
    if let Some(id) = id {
        out.put_i32(netnsa::NSID, id);
    }
    out.finish(mark).unwrap();
    client.request(out.bytes());
    let (mut errno, mut told) = (0, None);
    while let Some(answer) = client.mailbox().take() {
        for message in messages(&answer) {
            let payload = message.payload();
            if message.header.ty == nlm::ERROR {
                errno = -i32::from_ne_bytes(payload[..4].try_into().unwrap());
            } else if message.header.ty == rtm::NEWNSID {
                // The header of the message, then the first attribute: the id.
                told = Some(i32::from_ne_bytes(payload[8..12].try_into().unwrap()));
            }
        }
    }
    (errno, told)
}

#[test]
fn ids_and_deletion_do_not_use_a_namespace() {
    let stack = weir_stack::build(Config::default());
    let initial = stack.namespace(Stack::INITIAL).unwrap();
    let mut client = Connection::new(&stack, &initial, 1, Box::new(ById), None);
    let ids: Vec<NsId> = (0..1_000).map(|_| stack.add_namespace()).collect();
    assert_eq!(ask(&mut client, rtm::GETNSID, ids[3], None), (0, Some(-1)));
    assert_eq!(ask(&mut client, rtm::NEWNSID, ids[3], Some(77)), (0, None));
    assert_eq!(ask(&mut client, rtm::GETNSID, ids[3], None), (0, Some(77)));
    assert_eq!(stack.used_namespaces().len(), 1);
    assert!(stack.remove_namespace(ids[3]) && !stack.has_namespace(ids[3]));
    // EINVAL: the reference is invalid now. The id is free again.
    assert_eq!(ask(&mut client, rtm::GETNSID, ids[3], None), (22, None));
    assert_eq!(ask(&mut client, rtm::NEWNSID, ids[4], Some(77)), (0, None));
    assert!(!stack.remove_namespace(ids[3]));
    assert_eq!(stack.used_namespaces().len(), 1);

    let used = stack.namespace(ids[5]).unwrap();
    assert!(used.device_by_name("lo").is_some());
    assert!(Arc::ptr_eq(&used, &stack.namespace(ids[5]).unwrap()));
    assert_eq!(stack.used_namespaces().len(), 2);
    assert_eq!(stack.all_namespaces().len(), 1_000);
    for id in ids {
        stack.remove_namespace(id);
    }
    assert_eq!(stack.all_namespaces().len(), 1);
}

/// One thread uses each namespace for the first time while another deletes it. Either the user gets none, or
/// it gets one that is closed and emptied.
#[test]
fn stress_first_use_and_deletion_at_once() {
    let stack = weir_stack::build(Config::default());
    let rounds = if std::env::var_os("WEIR_TEST_SHORT").is_some() {
        200
    } else {
        2_000
    };
    let line = Barrier::new(2);
    let latest = std::sync::Mutex::new(Stack::INITIAL);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..rounds {
                line.wait();
                let id = *latest.lock().unwrap();
                let used = stack.namespace(id);
                line.wait();
                if let Some(used) = used {
                    assert!(used.is_closing() && used.all_devices().is_empty());
                }
                line.wait();
            }
        });
        for _ in 0..rounds {
            *latest.lock().unwrap() = stack.add_namespace();
            let id = *latest.lock().unwrap();
            line.wait();
            assert!(stack.remove_namespace(id));
            line.wait();
            line.wait();
        }
    });
    assert_eq!(stack.all_namespaces().len(), 1);
}

/// The settings that a namespace takes over are those at its creation, and several namespaces share them.
#[test]
fn settings_are_taken_over_at_the_creation() {
    use weir_stack::sysctl::tree::{read, write};
    let stack = weir_stack::build(Config::default());
    let initial = stack.namespace(Stack::INITIAL).unwrap();
    let set = |path, value: &str| write(&stack, &initial, path, value.as_bytes()).unwrap();
    let forward = "ipv4/ip_forward";
    let limit = "ipv6/conf/default/hop_limit";
    let of = |id, path| read(&stack.namespace(id).unwrap(), path).unwrap();
    let before = stack.add_namespace();
    set(forward, "1");
    set(limit, "9");
    let ids = [(); 3].map(|()| stack.add_namespace());
    assert!(stack.remove_namespace(ids[1]));
    set("core/devconf_inherit_init_net", "1");
    let both = stack.add_namespace();
    set(forward, "0");
    set(limit, "64");
    let after = stack.add_namespace();
    set("core/devconf_inherit_init_net", "3");
    let of_both = stack.add_namespace_from(both);
    let of_none = stack.add_namespace_from(before);
    assert_eq!(of(before, forward), "0\n");
    for id in [ids[0], ids[2]] {
        assert_eq!(
            (of(id, forward), of(id, limit)),
            ("1\n".into(), "64\n".into())
        );
    }
    for id in [both, of_both] {
        assert_eq!(
            (of(id, forward), of(id, limit)),
            ("1\n".into(), "9\n".into())
        );
    }
    for id in [after, of_none] {
        assert_eq!(
            (of(id, forward), of(id, limit)),
            ("0\n".into(), "64\n".into())
        );
    }
}
