// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `u32`: matches words of a packet under masks, in hash tables that link to each other.
//!
//! Mirrors net/sched/cls_u32.c. Parameters:
//! - a selector of keys: a word, its mask, its offset from the network header or from where a link
//!   led (`at`, `nexthdr+`);
//! - `mark` (value and mask);
//! - `ht` (the table and bucket to insert into), `link` (the table to continue with), `hashkey`
//!   (the word and mask that select its bucket), `offset` (where the next header begins, fixed or
//!   read from the packet; `eat` shifts all later offsets);
//! - `divisor` (creates a table of 1, 2, ... 256 buckets);
//! - `classid`, `indev`, actions or a policer in the old form;
//! - offload flags: there is no hardware, so a table with `skip_sw` is refused, and a node with it
//!   is accepted but never matches, as in Linux.
//!
//! A handle is `TABLE:BUCKET:NODE`: 12, 8 and 12 bits. Tables are 1 to 0xffe; those assigned
//! automatically are 0x800 and up. Nodes assigned automatically are 0x800 and up, then the lowest
//! free one. All instances in a qdisc, including both hooks of `clsact`, or in a shared block have
//! the same tables ([`table::Common`]). A table belongs to the priority it was created under: the
//! dump of any instance of that priority shows it, in every chain. Each instance has a root table
//! of one bucket, where packets start.
//!
//! Nodes of a bucket are tried in the order of their ids. A node with a link matches only if
//! nothing behind its link matched. A packet that ends before a requested word matches nothing more
//! in the instance. Bytes in front of the link-layer header read as 0 (Linux reads whatever lies
//! there). Statistics: for each node how often it was tried and matched, for each key how often it
//! was true (always on, as with `CONFIG_CLS_U32_PERF`), for a mark how often it was true.

pub mod node;
pub mod table;
mod walk;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use weir_netlink::errno::{EAGAIN, EBUSY, EINVAL, ENOENT};
use weir_netlink::tca::{cls_flags, u32 as attr};
use weir_netlink::{Error, Policy, Rule, Strictness, policy};
use weir_netlink::{Fixed, TcU32Mark, TcU32Sel};
use weir_packet::Packet;

use self::node::{Node, Selector};
use self::table::{Common, Table, hash, htid, key, node_id};
use super::exts::{self, NewExts};
use super::{Change, Classifier, Filter, New, Ops};
use crate::context::Context;
use crate::env::Env;
use crate::verdict::{Code, Outcome};

/// The kind's entry in the list of kinds.
pub const OPS: Ops = Ops {
    kind: "u32",
    create: |new| Ok(Box::new(U32::new(new)?)),
    template: None,
};

/// `u32_policy`
pub static POLICY: Policy = policy! { max attr::MAX;
    attr::CLASSID => Rule::u32(),
    attr::HASH => Rule::u32(),
    attr::LINK => Rule::u32(),
    attr::DIVISOR => Rule::u32(),
    attr::SEL => Rule::unspec(TcU32Sel::LEN as u16),
    attr::INDEV => Rule::string(16),
    attr::MARK => Rule::unspec(TcU32Mark::LEN as u16),
    attr::FLAGS => Rule::u32(),
};

const EXTS: exts::Attrs = exts::Attrs {
    act: attr::ACT,
    police: attr::POLICE,
    classid: attr::CLASSID,
};

fn refuse<T>(errno: i32, text: &'static str) -> Result<T, Error> {
    Err(Error::msg(errno, text))
}

/// An instance; see the module's documentation.
pub struct U32 {
    common: Arc<Common>,
    root: Arc<Table>,
    prio: u16,
    /// The instance is being removed and accepts no more changes. Written under the lock of the
    /// tables.
    closed: AtomicBool,
    /// The root has been removed from the tables. Written under the lock of the tables.
    gone: AtomicBool,
}

/// The parameters of a node in addition to its selector (`u32_set_parms`).
struct Parms {
    exts: NewExts,
    indev: Option<u32>,
    /// The table to link to, if given; an inner `None` removes the link.
    link: Option<Option<Arc<Table>>>,
    flags: u32,
}

impl U32 {
    fn new(new: &New<'_>) -> Result<Self, Error> {
        let (common, root) = Common::join(&new.block.shelf, new.prio, new.env.net.domain())?;
        Ok(Self {
            common,
            root,
            prio: new.prio,
            closed: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        })
    }

    /// Parses the parameters of a node (`u32_set_parms`).
    fn parms(
        &self,
        change: &Change<'_>,
        tb: &weir_netlink::Table<'_>,
        tables: &table::State,
        flags: u32,
    ) -> Result<Parms, Error> {
        let exts = exts::parse(change, tb, EXTS, flags)?;
        let rest = || {
            let indev = match tb.get(attr::INDEV) {
                Some(attr) => {
                    let device = exts::indev(&attr, change.env.host);
                    Some(device.map_err(|error| Error {
                        errno: EINVAL,
                        ..error
                    })?)
                }
                None => None,
            };
            let link = match tb.get(attr::LINK) {
                Some(link) => Some(down(tables, link.u32()?)?),
                None => None,
            };
            Ok((indev, link))
        };
        match rest() {
            Ok((indev, link)) => Ok(Parms {
                exts,
                indev,
                link,
                flags: flags | cls_flags::NOT_IN_HW,
            }),
            Err(error) => {
                exts.undo(change.env);
                Err(error)
            }
        }
    }

    /// Replaces a node by a new one that keeps the selector and the counters.
    fn replace(
        &self,
        change: &Change<'_>,
        tb: &weir_netlink::Table<'_>,
        old: &Arc<Node>,
        userflags: u32,
    ) -> Result<Arc<dyn Filter>, Error> {
        let mut tables = self.common.lock();
        self.check_open()?;
        let own = cls_flags::IN_HW | cls_flags::NOT_IN_HW;
        if (old.flags ^ userflags) & !own != 0 {
            return refuse(EINVAL, "cls_u32: Key node flags do not match passed flags");
        }
        let table = tables.table_of(old).ok_or(Error::new(EAGAIN))?;
        let parms = self.parms(change, tb, &tables, userflags)?;
        let new = Arc::new(Node {
            handle: old.handle,
            flags: parms.flags,
            ifindex: parms.indev.unwrap_or(old.ifindex),
            mark: old.mark,
            selector: old.selector.clone(),
            down: parms.link.unwrap_or_else(|| old.down.clone()),
            exts: parms.exts.commit(),
            stats: old.stats.clone(),
        });
        tables.replace(&table, old, &new, change.env.guard);
        drop(tables);
        old.exts.release(change.env);
        Ok(new)
    }

    /// Creates a table.
    fn make_table(
        &self,
        handle: u32,
        buckets: u32,
        userflags: u32,
    ) -> Result<Arc<dyn Filter>, Error> {
        if !buckets.is_power_of_two() {
            return refuse(EINVAL, "cls_u32: Divisor is not a power of 2");
        }
        if buckets > 256 {
            return refuse(EINVAL, "cls_u32: Exceeded maximum 256 hash buckets");
        }
        if key(handle) != 0 {
            let text = "cls_u32: Divisor can only be used on a hash table";
            return refuse(EINVAL, text);
        }
        let mut tables = self.common.lock();
        self.check_open()?;
        if userflags & cls_flags::SKIP_SW != 0 {
            return Err(Error::new(EINVAL));
        }
        let handle = tables.table_handle(handle)?;
        Ok(tables.add(handle, self.prio, buckets - 1, false))
    }

    /// Creates a node.
    fn make_node(
        &self,
        change: &Change<'_>,
        tb: &weir_netlink::Table<'_>,
        userflags: u32,
    ) -> Result<Arc<dyn Filter>, Error> {
        let mut tables = self.common.lock();
        self.check_open()?;
        let (table, id) = match tb.get(attr::HASH) {
            Some(hash) => match hash.u32()? {
                id if htid(id) == attr::ROOT => (self.root.clone(), self.root.handle),
                id => match tables.find(htid(id)) {
                    Some(table) => (table, id),
                    None => return refuse(EINVAL, "cls_u32: Specified hash table not found"),
                },
            },
            None => (self.root.clone(), self.root.handle),
        };
        if table.divisor < hash(id) {
            let text = "cls_u32: Specified hash table buckets exceed configured value";
            return refuse(EINVAL, text);
        }
        let wanted = change.handle;
        if wanted != 0 && htid(wanted) != 0 && htid(wanted ^ id) != 0 {
            let text = "cls_u32: Handle specified hash table address mismatch";
            return refuse(EINVAL, text);
        }
        let handle = match node_id(wanted) {
            0 => table.free_handle(id, change.env.guard)?,
            node => table.claim(id | node, change.env.guard)?,
        };
        let Some(sel) = tb.get(attr::SEL) else {
            return refuse(EINVAL, "cls_u32: Selector not specified");
        };
        let selector = Selector::parse(sel.payload)?;
        let mark = match tb.get(attr::MARK) {
            Some(mark) => TcU32Mark::from_bytes(mark.payload).ok_or(Error::new(EINVAL))?,
            None => TcU32Mark::default(),
        };
        let parms = self.parms(change, tb, &tables, userflags)?;
        let node = Arc::new(Node {
            handle,
            flags: parms.flags,
            ifindex: parms.indev.unwrap_or_default(),
            mark: (mark.val, mark.mask),
            stats: Arc::default(),
            selector: Arc::new(selector),
            down: parms.link.flatten(),
            exts: parms.exts.commit(),
        });
        tables.insert(&table, &node, change.env.guard);
        Ok(node)
    }

    /// Fails with EAGAIN if the instance is closed. The caller holds the lock of the tables.
    fn check_open(&self) -> Result<(), Error> {
        match self.closed.load(Relaxed) {
            true => Err(Error::new(EAGAIN)),
            false => Ok(()),
        }
    }

    /// Closes the instance and removes its root from the tables, and with the last instance all
    /// tables. Returns the nodes removed.
    fn leave(&self) -> Vec<Arc<Node>> {
        let mut tables = self.common.lock();
        self.closed.store(true, Relaxed);
        if self.gone.swap(true, Relaxed) {
            return Vec::new();
        }
        tables.leave(&self.root)
    }
}

/// Returns the table that a node asks to link to.
fn down(tables: &table::State, handle: u32) -> Result<Option<Arc<Table>>, Error> {
    if key(handle) != 0 {
        return refuse(EINVAL, "cls_u32: u32 Link handle must be a hash table");
    }
    if handle == 0 {
        return Ok(None);
    }
    match tables.find(handle) {
        None => refuse(EINVAL, "cls_u32: Link hash table not found"),
        Some(table) if table.is_root => refuse(EINVAL, "cls_u32: Not linking to root node"),
        Some(table) => Ok(Some(table)),
    }
}

/// Downcasts a filter, which is a node or a table, to a node.
fn node(filter: &Arc<dyn Filter>) -> Option<Arc<Node>> {
    let any: Arc<dyn Any + Send + Sync> = filter.clone();
    any.downcast().ok()
}

impl Classifier for U32 {
    #[inline]
    fn classify<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        walk::walk(&self.root, cx, packet, out)
    }

    fn get(&self, handle: u32) -> Option<Arc<dyn Filter>> {
        let table = match htid(handle) {
            attr::ROOT => self.root.clone(),
            id => self.common.lock().find(id)?,
        };
        if key(handle) == 0 {
            return Some(table);
        }
        Some(table.get(handle)?)
    }

    fn change(
        &self,
        change: &Change<'_>,
        old: Option<&Arc<dyn Filter>>,
    ) -> Result<Option<Arc<dyn Filter>>, Error> {
        let Some(options) = &change.options else {
            if change.handle != 0 {
                return refuse(EINVAL, "cls_u32: Filter handle requires options");
            }
            return Ok(None);
        };
        let tb = options.parse(&POLICY, Strictness::Liberal)?;
        let flags = match exts::flags(&tb, attr::FLAGS) {
            Ok(flags) => flags,
            Err(_) => return refuse(EINVAL, "cls_u32: Invalid filter flags"),
        };
        if let Some(old) = old {
            let Some(old) = node(old) else {
                return refuse(EINVAL, "cls_u32: Key node id cannot be zero");
            };
            return Ok(Some(self.replace(change, &tb, &old, flags)?));
        }
        let made = match tb.get(attr::DIVISOR) {
            Some(divisor) => self.make_table(change.handle, divisor.u32()?, flags),
            None => self.make_node(change, &tb, flags),
        };
        Ok(Some(made?))
    }

    fn delete(&self, filter: &Arc<dyn Filter>, env: &Env<'_>) -> Result<bool, Error> {
        let mut tables = self.common.lock();
        let removed = if let Some(node) = node(filter) {
            let table = tables.table_of(&node).ok_or(Error::new(ENOENT))?;
            tables.remove(&table, &node);
            vec![node]
        } else {
            let table = tables.find(filter.handle()).ok_or(Error::new(ENOENT))?;
            if table.is_root {
                return refuse(EINVAL, "cls_u32: Not allowed to delete root node");
            }
            if table.links.load(Relaxed) != 0 {
                return refuse(EBUSY, "cls_u32: Can not delete in-use filter");
            }
            tables.drop_table(&table)
        };
        let last = tables.is_last();
        if last {
            // A concurrent request to add a filter starts over and creates another instance.
            self.closed.store(true, Relaxed);
        }
        drop(tables);
        for node in removed {
            node.exts.release(env);
        }
        Ok(last)
    }

    fn next(&self, from: u64) -> Option<(u64, Arc<dyn Filter>)> {
        self.common.lock().next(self.prio, from)
    }

    fn destroy(&self, env: &Env<'_>) {
        for node in self.leave() {
            node.exts.release(env);
        }
    }
}

impl Drop for U32 {
    fn drop(&mut self) {
        // An instance that was never added to a chain has no nodes.
        self.leave();
    }
}
