// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trees compared with a direct evaluation of their expressions, and invalid trees.

use proptest::prelude::*;
use proptest::test_runner::contextualize_config;

use super::*;

/// An expression. `a and b or c` means `a and (b or c)`, as packets are matched.
#[derive(Debug, Clone)]
enum Expr {
    Leaf(usize),
    /// The parts, each with whether `and` follows and whether it is inverted.
    Group(Vec<(Expr, bool, bool)>),
}

const LEAVES: usize = 6;

fn expr() -> impl Strategy<Value = Expr> {
    let leaf = (0..LEAVES).prop_map(Expr::Leaf);
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop::collection::vec((inner, any::<bool>(), any::<bool>()), 1..4).prop_map(Expr::Group)
    })
}

fn holds(expr: &Expr, leaves: &[bool; LEAVES]) -> bool {
    match expr {
        Expr::Leaf(leaf) => leaves[*leaf],
        Expr::Group(parts) => sequence(parts, leaves),
    }
}

fn sequence(parts: &[(Expr, bool, bool)], leaves: &[bool; LEAVES]) -> bool {
    let Some(((part, and, inverted), rest)) = parts.split_first() else {
        return false;
    };
    let value = holds(part, leaves) != *inverted;
    match rest {
        [] => value,
        _ if *and => value && sequence(rest, leaves),
        _ => value || sequence(rest, leaves),
    }
}

/// Returns the tree of an expression; each group's sequence follows its container.
fn list(expr: &Expr) -> Tree {
    let whole = vec![(expr.clone(), false, false)];
    let mut groups: std::collections::VecDeque<(_, Option<usize>)> = [(whole, None)].into();
    let mut matches: Vec<Match> = Vec::new();
    while let Some((parts, container)) = groups.pop_front() {
        if let Some(container) = container {
            let first: usize = matches.len();
            matches[container].what = What::Container(first);
        }
        let last = parts.len() - 1;
        for (at, (part, and, inverted)) in parts.into_iter().enumerate() {
            let join = match (at == last, and) {
                (true, _) => flag::REL_END,
                (_, true) => flag::REL_AND,
                (_, false) => flag::REL_OR,
            };
            let what = match part {
                Expr::Leaf(leaf) => leaf_match(leaf),
                Expr::Group(parts) => {
                    groups.push_back((parts, Some(matches.len())));
                    What::Container(0)
                }
            };
            let flags = join | if inverted { flag::INVERT } else { 0 };
            matches.push(Match { id: 0, flags, what });
        }
    }
    Tree {
        program: 0,
        matches: matches.into(),
    }
}

/// Returns the match of a leaf, which is identified by its pattern's length.
fn leaf_match(leaf: usize) -> What {
    let mut data = vec![0, 0, leaf as u8, 0];
    data.resize(4 + leaf, 0);
    What::Nbyte(nbyte::Nbyte::parse(&data).unwrap())
}

fn attribute(tree: &Tree) -> Vec<u8> {
    let mut w = Writer::new();
    tree.dump(&mut w, 1);
    w.into_vec()
}

fn parse(bytes: &[u8]) -> Result<Tree, Error> {
    Tree::parse(weir_netlink::attrs(bytes).next().as_ref())
}

proptest! {
    #![proptest_config(contextualize_config(ProptestConfig::with_cases(500)))]

    #[test]
    fn a_tree_evaluates_like_its_expression(expr in expr(), leaves in any::<[bool; LEAVES]>()) {
        let tree = list(&expr);
        let found = tree.walk(|what| {
            let leaf = (0..LEAVES).find(|&leaf| leaf_match(leaf) == *what);
            leaves[leaf.unwrap()]
        });
        prop_assert_eq!(found, holds(&expr, &leaves));
        // The tree survives encoding and parsing.
        prop_assert_eq!(parse(&attribute(&tree)).unwrap(), tree);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut w = Writer::new();
        let nest = w.nest(1);
        w.put_fixed(attr::TREE_HDR, &TcfEmatchTreeHdr { nmatches: 1, progid: 0 });
        let list = w.nest(attr::TREE_LIST);
        w.put(1, &bytes);
        w.end(list);
        w.end(nest);
        let _ = parse(w.bytes());
    }
}

#[test]
fn invalid_trees_are_refused() {
    let wrong = |change: fn(&mut Vec<Match>)| {
        let mut matches = vec![
            Match {
                id: 0,
                flags: flag::REL_AND,
                what: What::Container(1),
            },
            Match {
                id: 0,
                flags: 0,
                what: leaf_match(1),
            },
        ];
        change(&mut matches);
        let tree = Tree {
            program: 0,
            matches: matches.into(),
        };
        parse(&attribute(&tree)).err().map(|error| error.errno)
    };
    assert_eq!(wrong(|_| {}), None);
    assert_eq!(
        wrong(|m| m[0].what = What::Container(0)),
        Some(EINVAL),
        "itself"
    );
    assert_eq!(
        wrong(|m| m[1].what = What::Container(0)),
        Some(EINVAL),
        "back"
    );
    assert_eq!(
        wrong(|m| m[0].what = What::Container(2)),
        Some(EINVAL),
        "outside"
    );
    assert_eq!(wrong(|m| m[0].flags = flag::REL_MASK), Some(EINVAL));
    assert_eq!(wrong(|m| m[1].flags = flag::SIMPLE), Some(EINVAL));
}

#[test]
fn unsupported_kinds_are_refused_by_name() {
    let refused = |kind: u16| {
        let error = What::parse(kind, &[0; 16], 0, 1).unwrap_err();
        (error.errno, error.message.unwrap_or_default().into_owned())
    };
    for (kind, name) in [
        (kind::TEXT, "text"),
        (kind::CANID, "canid"),
        (kind::IPSET, "ipset"),
        (kind::IPT, "ipt"),
    ] {
        let text = format!("Extended match {name} is not supported");
        assert_eq!(refused(kind), (weir_netlink::errno::EOPNOTSUPP, text));
    }
    assert_eq!(refused(kind::MAX + 1), (ENOENT, String::new()));
    assert_eq!(refused(kind::VLAN), (ENOENT, String::new()));
}
