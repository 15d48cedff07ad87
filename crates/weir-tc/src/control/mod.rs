// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rtnetlink requests of traffic control, one file per object.
//!
//! Each object has `handle` for requests other than dumps. A dump starts with `dump` and continues
//! with `fill` until that returns `true`. With `one`, `fill` writes a single message, which may be
//! larger than a datagram usually is. The order of checks, errnos and messages are Linux's.
//!
//! Internally, EAGAIN means that an object was removed between lookup and change. The request then
//! starts over, for as long as the request that removes the object may need.

pub mod action;
pub mod chain;
pub mod class;
pub mod filter;
pub mod qdisc;

#[cfg(test)]
mod edges;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod stress;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_netlink::errno::{EAGAIN, EINVAL, ENODEV, ENOENT, EOPNOTSUPP};
use weir_netlink::tca::{self, h};
use weir_netlink::{
    Error, Message, Policy, Rule, Strictness, TCM_IFINDEX_MAGIC_BLOCK, Table, TcMsg, policy,
};

use crate::block::Block;
use crate::env::{Env, Requester};
use crate::host::Device;
use crate::qdisc::Node;

/// `rtm_tca_policy`
pub(crate) static POLICY: Policy = policy! { max tca::MAX;
    tca::KIND => Rule::string(0),
    tca::RATE => Rule::binary(2),
    tca::STAB => Rule::nested_any(),
    tca::DUMP_INVISIBLE => Rule::flag(),
    tca::CHAIN => Rule::u32(),
    tca::INGRESS_BLOCK => Rule::u32(),
    tca::EGRESS_BLOCK => Rule::u32(),
};

/// How often a request starts over immediately. After that it retries with pauses of `PAUSE` for at
/// most `PATIENCE`, because the thread it waits for may itself have to wait for a CPU.
const REPLAYS: usize = 16;
const PAUSE: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(30);

/// `IFNAMSIZ`. Names of kinds are shorter than this.
const NAME_LEN: usize = 16;

/// A request with its environment.
pub struct Request<'a> {
    /// The environment of the request.
    pub env: &'a Env<'a>,
    /// The message.
    pub message: Message<'a>,
    /// The sender.
    pub by: Requester,
}

impl<'a> Request<'a> {
    /// Creates a request of the socket with port id `portid`.
    pub fn new(env: &'a Env<'a>, message: Message<'a>, portid: u32) -> Self {
        Self {
            env,
            message,
            by: Requester::of(&message.header, portid),
        }
    }

    fn has(&self, flag: u16) -> bool {
        self.by.flags & flag != 0
    }

    fn ty(&self) -> u16 {
        self.message.header.ty
    }

    fn parse(&self) -> Result<(TcMsg, Table<'a>), Error> {
        self.message.parse(&POLICY, Strictness::Liberal)
    }
}

/// The context in which a dump continues.
pub struct DumpCx<'a> {
    /// The environment of the request.
    pub env: &'a Env<'a>,
    /// The values for the headers: port id, sequence number, `NLM_F_MULTI`.
    pub by: Requester,
}

/// Runs `attempt` until it does not fail with EAGAIN, as Linux does. Gives up after a while and
/// returns EAGAIN.
fn replay<T>(mut attempt: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..REPLAYS {
        match attempt() {
            Err(error) if error.errno == EAGAIN => std::thread::yield_now(),
            result => return result,
        }
    }
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error) if error.errno == EAGAIN && start.elapsed() < PATIENCE => {
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

fn device(env: &Env<'_>, ifindex: i32) -> Result<Arc<dyn Device>, Error> {
    let device = u32::try_from(ifindex)
        .ok()
        .and_then(|ifindex| env.host.device(ifindex));
    device.ok_or(Error::new(ENODEV))
}

/// The block that a filter or chain request refers to, with the fields that answers show for it.
struct Place<'g> {
    /// Borrowed from the hook's published pointer if possible, so that concurrent requests on a
    /// block do not contend for its reference count.
    block: Cow<'g, Arc<Block>>,
    /// The index of the device and the class; `None` for a shared block.
    shown: Option<(u32, u32)>,
}

impl Place<'_> {
    fn fill(&self, tcm: &mut TcMsg) {
        match self.shown {
            Some((ifindex, parent)) => (tcm.ifindex, tcm.parent) = (ifindex as i32, parent),
            None => (tcm.ifindex, tcm.parent) = (TCM_IFINDEX_MAGIC_BLOCK, self.block.index),
        }
    }
}

/// Finds the block of a hook that `tcm` gives as its class, through the hook's published pointer
/// and without a lock. If this returns `None`, use [`find_qdisc`] and [`find_block`].
fn find_hook<'a>(env: &Env<'a>, tcm: &TcMsg) -> Result<Option<Place<'a>>, Error> {
    let ingress = tcm.parent == h::CLSACT & h::MAJ_MASK | h::MIN_INGRESS;
    let egress = tcm.parent == h::CLSACT & h::MAJ_MASK | h::MIN_EGRESS;
    if tcm.ifindex == TCM_IFINDEX_MAGIC_BLOCK || !(ingress || egress) {
        return Ok(None);
    }
    let device = u32::try_from(tcm.ifindex)
        .ok()
        .and_then(|ifindex| env.host.device_ref(ifindex));
    let device = device.ok_or_else(|| Error::new(ENODEV))?;
    let block = device.tc().hook_block(ingress, env.guard);
    Ok(block.map(|block| Place {
        block: Cow::Borrowed(block),
        shown: Some((device.ifindex(), tcm.parent)),
    }))
}

/// Finds the qdisc that `tcm` refers to (`__tcf_qdisc_find`). Returns `None` for a shared block.
fn find_qdisc(env: &Env<'_>, tcm: &TcMsg) -> Result<Option<(Arc<Node>, u32, u32)>, Error> {
    if tcm.ifindex == TCM_IFINDEX_MAGIC_BLOCK {
        return Ok(None);
    }
    let device = device(env, tcm.ifindex)?;
    let tree = device.tc().tree();
    let not_classful = || Error::msg(EINVAL, "Qdisc not classful");
    let node = match tcm.parent {
        0 => tree.root.clone().ok_or_else(not_classful)?,
        parent => tree
            .find(parent & h::MAJ_MASK)
            .ok_or_else(|| Error::msg(EINVAL, "Parent Qdisc doesn't exists"))?,
    };
    if !node.ops.classful {
        return Err(not_classful());
    }
    if !node.ops.filters {
        return Err(Error::msg(EOPNOTSUPP, "Class doesn't support blocks"));
    }
    let parent = if tcm.parent == 0 {
        node.handle
    } else {
        tcm.parent
    };
    Ok(Some((node, device.ifindex(), parent)))
}

/// Finds the block (`__tcf_qdisc_cl_find` and `__tcf_block_find`).
fn find_block(
    env: &Env<'_>,
    tcm: &TcMsg,
    qdisc: Option<(Arc<Node>, u32, u32)>,
) -> Result<Place<'static>, Error> {
    let Some((node, ifindex, parent)) = qdisc else {
        let block = env.net.block(tcm.parent);
        let block = block.ok_or(Error::msg(EINVAL, "Block of given index was not found"))?;
        return Ok(Place {
            block: Cow::Owned(block),
            shown: None,
        });
    };
    let inner = node.lock();
    let mut class = 0;
    if parent & h::MIN_MASK != 0 {
        class = inner.qdisc.find(parent);
        if class == 0 {
            return Err(Error::msg(ENOENT, "Specified class doesn't exist"));
        }
    }
    let block = inner.qdisc.block(class);
    let block = block.ok_or_else(|| match inner.qdisc.no_block() {
        Some(text) => Error::msg(EINVAL, text),
        None => Error::new(EINVAL),
    })?;
    if block.is_shared() {
        return Err(Error::msg(
            EOPNOTSUPP,
            "This filter block is shared. Please use the block index to manipulate the filters",
        ));
    }
    Ok(Place {
        block: Cow::Owned(block),
        shown: Some((ifindex, parent)),
    })
}

/// Returns the block to dump, or `None` if there is nothing to dump.
fn dump_block(env: &Env<'_>, tcm: &TcMsg) -> Option<Place<'static>> {
    if tcm.ifindex == TCM_IFINDEX_MAGIC_BLOCK {
        return Some(Place {
            block: Cow::Owned(env.net.block(tcm.parent)?),
            shown: None,
        });
    }
    let device = device(env, tcm.ifindex).ok()?;
    let tree = device.tc().tree();
    let node = match tcm.parent {
        0 => tree.root.clone()?,
        parent => tree.find(parent & h::MAJ_MASK)?,
    };
    if !node.ops.classful || !node.ops.filters {
        return None;
    }
    let block = {
        let inner = node.lock();
        let class = match tcm.parent & h::MIN_MASK {
            0 => 0,
            _ => match inner.qdisc.find(tcm.parent) {
                0 => return None,
                class => class,
            },
        };
        inner.qdisc.block(class)?
    };
    let shown = (!block.is_shared()).then(|| (device.ifindex(), block.classid()));
    Some(Place {
        block: Cow::Owned(block),
        shown,
    })
}

/// Returns the chain a request refers to, 0 by default.
fn chain_index(tb: &Table<'_>) -> Result<u32, Error> {
    let index = match tb.get(tca::CHAIN) {
        Some(attr) => attr.u32()?,
        None => 0,
    };
    if index > crate::verdict::code::VALUE_MASK {
        return Err(Error::msg(
            EINVAL,
            "Specified chain index exceeds upper limit",
        ));
    }
    Ok(index)
}
