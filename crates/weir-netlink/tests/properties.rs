// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Property tests: no input causes a panic, and written data reads back the same.

use proptest::collection::vec;
use proptest::prelude::*;
use weir_netlink::*;

/// A tree of attributes to write.
#[derive(Clone, Debug)]
enum Node {
    Leaf(u16, Vec<u8>),
    Nest(u16, Vec<Node>),
}

fn node() -> impl Strategy<Value = Node> {
    let leaf = (1..22u16, vec(any::<u8>(), 0..40)).prop_map(|(ty, b)| Node::Leaf(ty, b));
    leaf.prop_recursive(12, 60, 6, |inner| {
        (1..22u16, vec(inner, 0..6)).prop_map(|(ty, nodes)| Node::Nest(ty, nodes))
    })
}

fn put(w: &mut Writer, nodes: &[Node]) {
    for node in nodes {
        match node {
            Node::Leaf(ty, bytes) => w.put(*ty, bytes),
            Node::Nest(ty, nodes) => {
                let nest = w.nest(*ty);
                put(w, nodes);
                w.end(nest);
            }
        }
    }
}

fn same(attrs: Attrs<'_>, nodes: &[Node], message: &[u8]) {
    let read: Vec<_> = attrs.collect();
    assert_eq!(read.len(), nodes.len());
    for (attr, node) in read.iter().zip(nodes) {
        let at = attr.offset as usize;
        assert_eq!(&message[at + 4..at + 4 + attr.len()], attr.payload);
        match node {
            Node::Leaf(ty, bytes) => {
                assert_eq!((attr.ty, attr.payload), (*ty, bytes.as_slice()));
            }
            Node::Nest(ty, nodes) => {
                assert_eq!((attr.ty, attr.nested), (*ty, true));
                same(attr.attrs(), nodes, message);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_accepted(bytes in vec(any::<u8>(), 0..300)) {
        fuzz::one(&bytes);
    }

    /// Generates bytes that look like messages with attributes, so that the checks are reached.
    #[test]
    fn any_attributes_are_accepted(
        parts in vec((0..24u16, any::<bool>(), 0..24usize, vec(any::<u8>(), 24)), 0..12),
        head in vec(any::<u8>(), 20),
        ty in 16..124u16,
    ) {
        let mut w = Writer::new();
        let m = w.message(ty, nlm::F_REQUEST, 1, 0);
        w.raw(&head);
        for (ty, nested, len, bytes) in &parts {
            w.put(ty | if *nested { nlm::nla::F_NESTED } else { 0 }, &bytes[..*len]);
        }
        prop_assert_eq!(w.finish(m), Ok(()));
        fuzz::one(w.bytes());
    }

    #[test]
    fn any_trees_are_accepted(nodes in vec(node(), 0..8), ty in 16..124u16) {
        let mut w = Writer::new();
        let m = w.message(ty, nlm::F_REQUEST, 1, 0);
        put(&mut w, &nodes);
        prop_assert_eq!(w.finish(m), Ok(()));
        fuzz::one(w.bytes());
    }

    #[test]
    fn written_trees_read_back(nodes in vec(node(), 0..8), ty in any::<u16>(), seq in any::<u32>()) {
        let mut w = Writer::new();
        let m = w.message(ty, 5, seq, 3);
        w.fixed(&RtMsg::default());
        put(&mut w, &nodes);
        prop_assert_eq!(w.finish(m), Ok(()));
        let m = messages(w.bytes()).next().expect("the message");
        prop_assert_eq!((m.header.ty, m.header.seq, m.header.len as usize), (ty, seq, w.len()));
        same(m.attrs::<RtMsg>(), &nodes, m.bytes);
    }

    /// A writer with a limit holds only whole messages, and as many as fit.
    #[test]
    fn a_bounded_writer_holds_whole_messages(
        nodes in vec(node(), 0..6), limit in 0..2000usize,
    ) {
        let mut w = Writer::with_limit(limit);
        let mut count = 0;
        loop {
            let m = w.message(16, 0, count, 0);
            put(&mut w, &nodes);
            if w.finish(m).is_err() {
                break;
            }
            count += 1;
        }
        prop_assert!(w.len() <= limit);
        prop_assert_eq!(messages(w.bytes()).count(), count as usize);
        let one = w.len().checked_div(count as usize).unwrap_or(0);
        prop_assert!(count == 0 || w.len() + one > limit);
    }
}
