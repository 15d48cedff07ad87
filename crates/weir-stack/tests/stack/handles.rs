// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The handles and connections of a stack: teardown, and datagrams that are too long.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::{Arc, Barrier, Weak, mpsc};

use weir_netlink::{Header, messages, nlm, rtm};
use weir_stack::connection::NoPeer;
use weir_stack::{Config, Connection, Namespace, Stack};
use weir_sync::rcu::{CallbackMode, Config as Rcu};

/// The last two handles are dropped on two threads at the same instant; one of the threads tears
/// the stack down. Under AddressSanitizer (`ci/sanitizers`) this also shows that nothing is left
/// waiting for a grace period.
#[test]
fn stress_the_last_two_handles_go_at_once() {
    let rounds = if std::env::var_os("WEIR_TEST_SHORT").is_some() {
        200
    } else {
        2000
    };
    let (line, gone) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
    let (to, threads): (Vec<_>, Vec<_>) = (0..2)
        .map(|_| {
            let (to, from) = mpsc::channel::<Stack>();
            let (line, gone) = (line.clone(), gone.clone());
            let thread = std::thread::spawn(move || {
                for stack in from {
                    line.wait();
                    drop(stack);
                    gone.wait();
                }
            });
            (to, thread)
        })
        .unzip();
    for round in 0..rounds {
        let mode = if round % 8 == 7 {
            CallbackMode::OffloadAll
        } else {
            CallbackMode::InPlace
        };
        let stack = weir_stack::build(Config {
            rcu: Rcu {
                mode,
                ..Rcu::default()
            },
            ..Config::default()
        });
        let left: Vec<Weak<Namespace>> = [
            stack.namespace(Stack::INITIAL).unwrap(),
            stack.create_namespace(),
        ]
        .iter()
        .map(Arc::downgrade)
        .collect();
        to[0].send(stack.clone()).unwrap();
        to[1].send(stack).unwrap();
        line.wait();
        gone.wait();
        assert!(
            left.iter().all(|ns| ns.strong_count() == 0),
            "round {round}: namespaces remain"
        );
    }
    drop(to);
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_datagram_that_is_too_long_is_answered() {
    let stack = weir_stack::build(Config::default());
    let ns = stack.namespace(Stack::INITIAL).unwrap();
    let mut connection = Connection::new(&stack, &ns, 7, Box::new(NoPeer), None);
    let mut start = vec![0; 64];
    let header = Header {
        len: 5_000_000,
        ty: rtm::GETLINK,
        flags: nlm::F_REQUEST,
        seq: 9,
        pid: 0,
    };
    start[..16].copy_from_slice(&header.to_bytes());
    for (ext_ack, text) in [
        (false, ""),
        (true, "Requests of more than 64 bytes are not accepted"),
    ] {
        connection.options.ext_ack = ext_ack;
        connection.refuse_too_long(&start, 5_000_000);
        let answer = connection.mailbox().take().unwrap();
        let message = messages(&answer).next().unwrap();
        assert_eq!((message.header.ty, message.header.seq), (nlm::ERROR, 9));
        assert_eq!(message.payload()[..4], (-105i32).to_ne_bytes());
        assert_eq!(message.payload()[4..20], header.to_bytes());
        let words = String::from_utf8_lossy(&message.payload()[20..]);
        assert!(words.contains(text), "{words}");
        assert!(connection.mailbox().take().is_none());
        assert!(!connection.options.cap_ack);
    }
}
