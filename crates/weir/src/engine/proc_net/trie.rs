// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fib_trie` and `fib_triestat`: the IPv4 tables as the LC-tries in which Linux 6.1 keeps them (`net/ipv4/fib_trie.c`).
//!
//! Weir keeps its routes in another structure, so these files build the trie from a dump, as Linux does if it inserts the routes
//! in ascending order. The shape of a trie in Linux also depends on the order of earlier insertions and deletions.
//!
//! Until a rule is added, Linux keeps the tables main and local in one trie, which both files then show twice.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::Arc;

use weir_netlink::{RtMsg, af, rta, rtm};
use weir_stack::fib::host::WithRoutes;
use weir_stack::{Namespace, Stack};

/// Percentages of non-empty children from which on a node doubles, and below which it halves; the root's come second.
const INFLATE: [usize; 2] = [50, 30];
const HALVE: [usize; 2] = [25, 15];
/// The maximum number of times a node is resized at once.
const MAX_WORK: u32 = 10;
/// Sizes on a 64-bit kernel, in bytes.
const LEAF_SIZE: usize = 48;
const NODE_SIZE: usize = 40;
const ALIAS_SIZE: usize = 56;
const POINTER_SIZE: usize = 8;

/// A route of a leaf.
#[derive(Debug, Clone, Copy)]
struct Alias {
    dst_len: u8,
    scope: u8,
    kind: u8,
    tos: u8,
}

#[derive(Debug)]
enum Node {
    Leaf {
        key: u32,
        aliases: Vec<Alias>,
    },
    /// Chooses among `1 << bits` children by the bits of the address from `pos` on.
    Inner {
        key: u32,
        pos: u32,
        bits: u32,
        children: Vec<Child>,
    },
}

type Child = Option<Box<Node>>;

fn prefix(key: u32, bits: u32) -> u32 {
    key.checked_shr(bits)
        .and_then(|key| key.checked_shl(bits))
        .unwrap_or(0)
}

fn inner(key: u32, pos: u32, bits: u32) -> Node {
    Node::Inner {
        key: prefix(key, pos + bits),
        pos,
        bits,
        children: (0..1usize << bits).map(|_| None).collect(),
    }
}

impl Node {
    fn key(&self) -> u32 {
        match self {
            Self::Leaf { key, .. } | Self::Inner { key, .. } => *key,
        }
    }

    /// Returns the child's index for a key; `None` if the key lies outside this node.
    fn index(&self, key: u32) -> Option<usize> {
        let (pos, bits) = match self {
            Self::Leaf { .. } => (0, 0),
            Self::Inner { pos, bits, .. } => (*pos, *bits),
        };
        let index = u64::from((key ^ self.key()) >> pos);
        (index < 1 << bits).then_some(index as usize)
    }

    fn put(&mut self, at: usize, child: Child) {
        if let Self::Inner { children, .. } = self
            && let Some(slot) = children.get_mut(at)
        {
            *slot = child;
        }
    }

    /// Returns whether a child skips no bits below a node whose lowest bit is `pos`.
    fn is_full(&self, below: u32) -> bool {
        matches!(self, Self::Inner { pos, bits, .. } if pos + bits == below)
    }

    /// Returns the number of children, of empty ones, and of full ones.
    fn count(&self) -> (usize, usize, usize) {
        let Self::Inner { pos, children, .. } = self else {
            return (0, 0, 0);
        };
        let empty = children.iter().filter(|child| child.is_none()).count();
        let full = children
            .iter()
            .flatten()
            .filter(|child| child.is_full(*pos))
            .count();
        (children.len(), empty, full)
    }

    /// Doubles the node: each pair of children takes the place of the child they came from.
    fn inflate(self) -> Self {
        let Self::Inner {
            key,
            pos,
            bits,
            children,
        } = self
        else {
            return self;
        };
        let mut new = inner(key, pos - 1, bits + 1);
        for (at, child) in children.into_iter().enumerate() {
            let Some(child) = child else { continue };
            match *child {
                Self::Inner {
                    key,
                    pos: low,
                    bits: width,
                    children,
                } if low + width == pos => {
                    let mut children = children;
                    let upper = children.split_off(children.len() / 2);
                    for (half, part) in [children, upper].into_iter().enumerate() {
                        let place = 2 * at + half;
                        if width == 1 {
                            new.put(place, part.into_iter().next().flatten());
                            continue;
                        }
                        let bit = (half as u32) << (low + width - 1);
                        let mut node = inner(key | bit, low, width - 1);
                        for (at, child) in part.into_iter().enumerate() {
                            node.put(at, child);
                        }
                        new.put(place, Some(Box::new(node)));
                    }
                }
                other => {
                    let place = new.index(other.key()).unwrap_or(0);
                    new.put(place, Some(Box::new(other)));
                }
            }
        }
        new
    }

    /// Halves the node: two children share a place, through a node of their own if neither is empty.
    fn halve(self) -> Self {
        let Self::Inner {
            key,
            pos,
            bits,
            children,
        } = self
        else {
            return self;
        };
        let mut new = inner(key, pos + 1, bits - 1);
        let mut children = children.into_iter();
        let mut at = 0;
        while let (Some(low), Some(high)) = (children.next(), children.next()) {
            let child = match (low, high) {
                (Some(low), Some(high)) => {
                    let mut node = inner(low.key(), pos, 1);
                    node.put(0, Some(low));
                    node.put(1, Some(high));
                    Some(Box::new(node))
                }
                (low, high) => low.or(high),
            };
            new.put(at, child);
            at += 1;
        }
        new
    }

    /// Resizes the children that skip no bits, after the node itself was resized.
    fn settle(mut self) -> Self {
        if let Self::Inner { pos, children, .. } = &mut self {
            for child in children.iter_mut().rev() {
                if let Some(node) = child.take_if(|node| node.is_full(*pos)) {
                    *child = Some(Box::new(node.resize(false)));
                }
            }
        }
        self
    }

    /// Gives the node the width that its children ask for (`resize`).
    fn resize(self, root: bool) -> Self {
        let root = usize::from(root);
        let mut node = self;
        let mut work = MAX_WORK;
        let bits = |node: &Self| match node {
            Self::Inner { pos, bits, .. } => (*pos, *bits),
            Self::Leaf { .. } => (0, 0),
        };
        loop {
            let (all, empty, full) = node.count();
            let used = all - empty + full;
            if work == 0 || used <= 1 || bits(&node).0 == 0 || 50 * used < all * INFLATE[root] {
                break;
            }
            node = node.inflate().settle();
            work -= 1;
        }
        if work < MAX_WORK {
            return node;
        }
        loop {
            let (all, empty, _) = node.count();
            let used = all - empty;
            if work == 0 || used <= 1 || bits(&node).1 <= 1 || 100 * used >= all * HALVE[root] {
                break;
            }
            node = node.halve().settle();
            work -= 1;
        }
        match node {
            Self::Inner { children, .. } if children.iter().flatten().count() == 1 => {
                let only = children.into_iter().flatten().next();
                // There is exactly one.
                only.map_or_else(|| inner(0, 0, 1), |only| *only)
            }
            node => node,
        }
    }

    /// Adds a leaf below this node, whose key is not there yet (`fib_insert_node`).
    fn insert(self, key: u32, aliases: Vec<Alias>, root: bool) -> Self {
        let leaf = Self::Leaf { key, aliases };
        let mut node = self;
        match node.index(key) {
            Some(at) if matches!(node, Self::Inner { .. }) => {
                if let Self::Inner { children, .. } = &mut node
                    && let Some(slot) = children.get_mut(at)
                {
                    let aliases = match leaf {
                        Self::Leaf { aliases, .. } => aliases,
                        Self::Inner { .. } => Vec::new(),
                    };
                    *slot = Some(Box::new(match slot.take() {
                        Some(child) => child.insert(key, aliases, false),
                        None => Self::Leaf { key, aliases },
                    }));
                }
                node.resize(root)
            }
            _ => {
                let highest = (key ^ node.key()).checked_ilog2().unwrap_or(0);
                let mut parent = inner(key, highest, 1);
                let at = parent.index(key).unwrap_or(0);
                parent.put(at, Some(Box::new(leaf)));
                parent.put(at ^ 1, Some(Box::new(node)));
                parent.resize(root)
            }
        }
    }
}

/// A table's trie.
#[derive(Debug, Default)]
struct Trie(Option<Node>);

impl Trie {
    /// Builds it from routes sorted as a dump sorts them.
    fn new(routes: &BTreeMap<u32, Vec<Alias>>) -> Self {
        let mut root = None;
        for (key, aliases) in routes {
            let aliases = aliases.clone();
            root = Some(match root {
                None => Node::Leaf { key: *key, aliases },
                Some(node) => Node::insert(node, *key, aliases, true),
            });
        }
        Self(root)
    }

    fn show(&self, text: &mut String) {
        let Some(root) = &self.0 else { return };
        show(root, text, usize::from(matches!(root, Node::Inner { .. })));
    }

    fn show_stats(&self, text: &mut String) {
        let mut stats = Stats::default();
        if let Some(root) = &self.0 {
            stats.add(root, usize::from(matches!(root, Node::Inner { .. })));
        }
        let average = (stats.depth * 100).checked_div(stats.leaves).unwrap_or(0);
        let _ = write!(
            text,
            "\tAver depth:     {}.{:02}\n\tMax depth:      {}\n\tLeaves:         {}\n\
             \tPrefixes:       {}\n\tInternal nodes: {}\n\t",
            average / 100,
            average % 100,
            stats.deepest,
            stats.leaves,
            stats.prefixes,
            stats.nodes,
        );
        let mut pointers = 0;
        for (bits, count) in &stats.widths {
            let _ = write!(text, "  {bits}: {count}");
            pointers += (1 << bits) * count;
        }
        let bytes = LEAF_SIZE * stats.leaves
            + ALIAS_SIZE * stats.prefixes
            + NODE_SIZE * stats.nodes
            + POINTER_SIZE * pointers;
        let _ = writeln!(
            text,
            "\n\tPointers: {pointers}\nNull ptrs: {}\nTotal size: {}  kB",
            stats.empty,
            bytes.div_ceil(1024)
        );
    }
}

/// `struct trie_stat`
#[derive(Debug, Default)]
struct Stats {
    depth: usize,
    deepest: usize,
    leaves: usize,
    prefixes: usize,
    nodes: usize,
    empty: usize,
    widths: BTreeMap<u32, usize>,
}

impl Stats {
    fn add(&mut self, node: &Node, depth: usize) {
        match node {
            Node::Leaf { aliases, .. } => {
                self.leaves += 1;
                self.prefixes += aliases.len();
                self.depth += depth;
                self.deepest = self.deepest.max(depth);
            }
            Node::Inner { bits, children, .. } => {
                self.nodes += 1;
                *self.widths.entry(*bits).or_default() += 1;
                self.empty += node.count().1;
                for child in children.iter().flatten() {
                    let below = matches!(**child, Node::Inner { .. });
                    self.add(child, depth + usize::from(below));
                }
            }
        }
    }
}

/// `fib_trie_seq_show`
fn show(node: &Node, text: &mut String, depth: usize) {
    match node {
        Node::Inner {
            key,
            pos,
            bits,
            children,
        } => {
            let (_, empty, full) = node.count();
            let address = Ipv4Addr::from(*key);
            let indent = "   ".repeat(depth.saturating_sub(1));
            let _ = writeln!(
                text,
                "{indent}  +-- {address}/{} {bits} {full} {empty}",
                32 - pos - bits
            );
            for child in children.iter().flatten() {
                let below = matches!(**child, Node::Inner { .. });
                show(child, text, depth + usize::from(below));
            }
        }
        Node::Leaf { key, aliases } => {
            let _ = writeln!(
                text,
                "{}  |-- {}",
                "   ".repeat(depth),
                Ipv4Addr::from(*key)
            );
            for alias in aliases {
                let indent = "   ".repeat(depth + 1);
                let scope = match alias.scope {
                    rta::scope::UNIVERSE => "universe".to_owned(),
                    rta::scope::SITE => "site".to_owned(),
                    rta::scope::LINK => "link".to_owned(),
                    rta::scope::HOST => "host".to_owned(),
                    rta::scope::NOWHERE => "nowhere".to_owned(),
                    other => format!("scope={other}"),
                };
                let kind = match alias.kind {
                    rta::rtn::UNICAST => "UNICAST".to_owned(),
                    rta::rtn::LOCAL => "LOCAL".to_owned(),
                    rta::rtn::BROADCAST => "BROADCAST".to_owned(),
                    rta::rtn::ANYCAST => "ANYCAST".to_owned(),
                    rta::rtn::MULTICAST => "MULTICAST".to_owned(),
                    rta::rtn::BLACKHOLE => "BLACKHOLE".to_owned(),
                    rta::rtn::UNREACHABLE => "UNREACHABLE".to_owned(),
                    rta::rtn::PROHIBIT => "PROHIBIT".to_owned(),
                    rta::rtn::THROW => "THROW".to_owned(),
                    other => format!("type {other}"),
                };
                let _ = write!(text, "{indent}  /{} {scope} {kind}", alias.dst_len);
                if alias.tos != 0 {
                    let _ = write!(text, " tos={}", alias.tos);
                }
                text.push('\n');
            }
        }
    }
}

/// Returns the tables in the order in which Linux shows them, with their titles.
fn tables(stack: &Stack, ns: &Arc<Namespace>) -> Vec<(String, Trie)> {
    let mut tables: BTreeMap<u32, BTreeMap<u32, Vec<Alias>>> = BTreeMap::new();
    for table in [rta::table::MAIN, rta::table::LOCAL] {
        tables.insert(table, BTreeMap::new());
    }
    let merged = !ns.fib().v4.rules().are_changed(&stack.domain.pin());
    let request = RtMsg {
        family: af::INET,
        ..RtMsg::default()
    };
    super::dump(
        stack,
        ns,
        rtm::GETROUTE,
        &request,
        rta::MAX,
        |route, attrs| {
            let table = attrs
                .u32(rta::TABLE)
                .ok()
                .flatten()
                .unwrap_or(u32::from(route.table));
            let dst = super::ipv4_of(attrs, rta::DST).unwrap_or(Ipv4Addr::UNSPECIFIED);
            let table = match table {
                rta::table::LOCAL if merged => rta::table::MAIN,
                other => other,
            };
            let leaf = tables
                .entry(table)
                .or_default()
                .entry(dst.into())
                .or_default();
            leaf.push(Alias {
                dst_len: route.dst_len,
                scope: route.scope,
                kind: route.ty,
                tos: route.tos,
            });
        },
    );
    for leaf in tables.values_mut().flat_map(|table| table.values_mut()) {
        leaf.sort_by_key(|alias| (u8::MAX - alias.dst_len, u8::MAX - alias.tos));
    }
    if merged {
        let main = tables.get(&rta::table::MAIN).cloned().unwrap_or_default();
        tables.insert(rta::table::LOCAL, main);
    }
    let mut tables: Vec<_> = tables.into_iter().collect();
    // Linux hashes by the lowest eight bits.
    tables.sort_by_key(|(id, _)| id & 0xff);
    let title = |id| match id {
        rta::table::MAIN => "Main:\n".to_owned(),
        rta::table::LOCAL => "Local:\n".to_owned(),
        id => format!("Id {}:\n", id as i32),
    };
    tables
        .iter()
        .map(|(id, routes)| (title(*id), Trie::new(routes)))
        .collect()
}

/// `/proc/net/fib_trie` (`fib_trie_seq_show`)
pub fn fib_trie(stack: &Stack, ns: &Arc<Namespace>) -> String {
    let mut text = String::new();
    for (title, trie) in tables(stack, ns) {
        if trie.0.is_some() {
            text.push_str(&title);
        }
        trie.show(&mut text);
    }
    text
}

/// `/proc/net/fib_triestat` (`fib_triestat_seq_show`)
pub fn fib_triestat(stack: &Stack, ns: &Arc<Namespace>) -> String {
    let mut text =
        format!("Basic info: size of leaf: {LEAF_SIZE} bytes, size of tnode: {NODE_SIZE} bytes.\n");
    for (title, trie) in tables(stack, ns) {
        text.push_str(&title);
        trie.show_stats(&mut text);
    }
    text
}
