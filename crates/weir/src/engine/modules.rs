// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The modules of the stack, so that `modprobe` of a kind that is served succeeds and `lsmod` lists it: `/proc/modules`,
//! `/sys/module/NAME` and the indexes of `/lib/modules/RELEASE` that libkmod reads.
//!
//! Every kind is built in: `modprobe` does nothing, and its options, such as `numifbs`, have no effect. The kernel's own module
//! of a kind is never loaded.

use std::collections::BTreeSet;

use weir_intercept::Node;
use weir_stack::link;
use weir_tc::{action, classifier, qdisc};

/// The indexes that libkmod opens. Only the one of built-in modules has entries.
const INDEXES: &[&str] = &[
    "modules.alias.bin",
    "modules.builtin.alias.bin",
    "modules.builtin.bin",
    "modules.dep.bin",
    "modules.symbols.bin",
];
const BUILTIN: &str = "modules.builtin.bin";

/// The attributes of a module in `/sys/module`.
const ATTRIBUTES: &[(&str, &str)] = &[
    ("coresize", "16384\n"),
    ("initstate", "live\n"),
    ("refcnt", "0\n"),
];

/// The directory of the modules that use a module, which is empty.
const HOLDERS: &str = "holders";

/// Modules of Linux that are no kind.
const OTHERS: &[&str] = &["ipv6", "psample"];

/// Returns the names of the modules, sorted.
fn names() -> BTreeSet<String> {
    let links = link::KINDS.iter().map(|kind| match kind.name {
        "vlan" => "8021q".to_owned(),
        "bond" => "bonding".to_owned(),
        name => name.to_owned(),
    });
    let qdiscs = qdisc::KINDS.iter().filter_map(|ops| match ops.kind {
        // These are part of the kernel proper.
        "noqueue" | "pfifo" | "bfifo" | "pfifo_head_drop" | "pfifo_fast" | "mq" => None,
        "clsact" => Some("sch_ingress".to_owned()),
        kind => Some(format!("sch_{kind}")),
    });
    let classifiers = classifier::KINDS
        .iter()
        .map(|ops| format!("cls_{}", ops.kind));
    // Linux has no `balance`.
    let actions = action::KINDS.iter().filter(|ops| ops.kind != "balance");
    let actions = actions.map(|ops| format!("act_{}", ops.kind));
    let others = OTHERS.iter().map(|name| (*name).to_owned());
    links
        .chain(qdiscs)
        .chain(classifiers)
        .chain(actions)
        .chain(others)
        .collect()
}

/// Returns the node at a path of the tree.
pub fn lookup(path: &str) -> Option<Node> {
    let file = Some(Node::File(0o444));
    match path.split_once('/') {
        None if path == "proc" => file,
        Some(("index", name)) if INDEXES.contains(&name) => file,
        Some(("sys", module)) => match module.split_once('/') {
            None => names().contains(module).then_some(Node::Directory),
            Some((module, HOLDERS)) => names().contains(module).then_some(Node::Directory),
            Some((module, name)) => {
                let known = ATTRIBUTES.iter().any(|(attribute, _)| *attribute == name);
                file.filter(|_| known && names().contains(module))
            }
        },
        _ => None,
    }
}

/// Lists a directory of the tree.
pub fn list(path: &str) -> Option<Vec<String>> {
    let attributes = ATTRIBUTES.iter().map(|(name, _)| *name);
    match lookup(path)? {
        Node::Directory if path.ends_with("/holders") => Some(Vec::new()),
        Node::Directory => Some(attributes.chain([HOLDERS]).map(str::to_owned).collect()),
        Node::File(_) => None,
    }
}

/// Returns the contents of a file.
pub fn read(path: &str) -> Option<Vec<u8>> {
    if !matches!(lookup(path)?, Node::File(_)) {
        return None;
    }
    match path.split_once('/') {
        None => {
            let line = |name| format!("{name} 16384 0 - Live 0x0000000000000000\n");
            Some(names().iter().map(line).collect::<String>().into_bytes())
        }
        Some(("index", BUILTIN)) => Some(index(&names().into_iter().collect::<Vec<_>>())),
        Some(("index", _)) => Some(index(&[])),
        Some((_, rest)) => {
            let (_, name) = rest.split_once('/')?;
            let (_, text) = ATTRIBUTES
                .iter()
                .find(|(attribute, _)| *attribute == name)?;
            Some(text.as_bytes().to_vec())
        }
    }
}

/// Begins an index.
const MAGIC: u32 = 0xb007_f457;
const VERSION: u32 = 0x0002_0001;
/// Flags in the offset of a node: a prefix, values, children follow, in the order prefix, children, values.
const HAS_PREFIX: u32 = 0x8000_0000;
const HAS_VALUES: u32 = 0x4000_0000;
const HAS_CHILDREN: u32 = 0x2000_0000;

/// Makes an index as depmod does: a trie of sorted names, in big-endian words.
fn index(names: &[String]) -> Vec<u8> {
    let mut out: Vec<u8> = [MAGIC, VERSION, 0].map(u32::to_be_bytes).concat();
    let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let root = if names.is_empty() {
        0
    } else {
        node(&mut out, &names)
    };
    if let Some(slot) = out.get_mut(8..12) {
        slot.copy_from_slice(&root.to_be_bytes());
    }
    out
}

/// Appends the node of sorted names after its children. Returns its offset with its flags.
fn node(out: &mut Vec<u8>, names: &[&[u8]]) -> u32 {
    let (Some(first), Some(last)) = (names.first(), names.last()) else {
        return 0;
    };
    let common = first.iter().zip(*last).take_while(|(a, b)| a == b).count();
    let (prefix, _) = first.split_at(common);
    let (whole, longer) = names.split_at(usize::from(first.len() == common));
    let mut children: Vec<(u8, u32)> = Vec::new();
    for group in longer.chunk_by(|a, b| a.get(common) == b.get(common)) {
        let Some(octet) = group.first().and_then(|name| name.get(common)) else {
            continue;
        };
        let rest: Vec<&[u8]> = group
            .iter()
            .filter_map(|name| name.get(common + 1..))
            .collect();
        let child = node(out, &rest);
        children.push((*octet, child));
    }
    let mut offset = out.len() as u32;
    if !prefix.is_empty() {
        offset |= HAS_PREFIX;
        out.extend(prefix);
        out.push(0);
    }
    if let (Some((first, _)), Some((last, _))) = (children.first(), children.last()) {
        offset |= HAS_CHILDREN;
        out.extend([*first, *last]);
        for octet in *first..=*last {
            let child = children.iter().find(|(at, _)| *at == octet);
            out.extend(child.map_or(0, |(_, child)| *child).to_be_bytes());
        }
    }
    if !whole.is_empty() {
        offset |= HAS_VALUES;
        // One value, of priority 0, which is empty.
        out.extend([1u32, 0].map(u32::to_be_bytes).concat());
        out.push(0);
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks a name up as libkmod does.
    fn find(index: &[u8], name: &str) -> bool {
        let word = |at: usize| u32::from_be_bytes(index[at..at + 4].try_into().unwrap());
        let mut offset = word(8);
        let mut rest = name.as_bytes();
        loop {
            let mut at = (offset & 0x0fff_ffff) as usize;
            if at == 0 {
                return false;
            }
            if offset & HAS_PREFIX != 0 {
                let end = at + index[at..].iter().position(|octet| *octet == 0).unwrap();
                let Some(after) = rest.strip_prefix(&index[at..end]) else {
                    return false;
                };
                (rest, at) = (after, end + 1);
            }
            let Some((octet, after)) = rest.split_first() else {
                return offset & HAS_VALUES != 0;
            };
            if offset & HAS_CHILDREN == 0 || !(index[at]..=index[at + 1]).contains(octet) {
                return false;
            }
            offset = word(at + 2 + 4 * usize::from(octet - index[at]));
            rest = after;
        }
    }

    #[test]
    fn the_index_has_each_name_and_no_other() {
        let names: Vec<String> = names().into_iter().collect();
        let bytes = index(&names);
        for name in &names {
            assert!(find(&bytes, name), "{name}");
            assert!(
                !find(&bytes, &name[..name.len() - 1])
                    || names.contains(&name[..name.len() - 1].to_owned())
            );
        }
        for name in ["", "team", "sch_", "sch_htb2", "nf_conntrack"] {
            assert!(!find(&bytes, name), "{name}");
        }
        assert!(!find(&index(&[]), "dummy"));
    }
}
