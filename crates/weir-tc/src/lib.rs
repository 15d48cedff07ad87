// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic control: qdiscs, classifiers, actions, chains and blocks, and their rtnetlink requests.
//!
//! | module | contents |
//! |---|---|
//! | [`device`] | the state of a device: tree of qdiscs, hooks, the path of a packet |
//! | [`net`] | the state of a namespace: actions by kind, shared blocks |
//! | [`qdisc`] | queueing disciplines, one file per kind |
//! | [`classifier`] | classifiers, one file per kind |
//! | [`action`] | actions, one file per kind |
//! | [`block`], [`chain`] | the containers of filters |
//! | [`control`] | the requests: RTM_{NEW,DEL,GET}{QDISC,TCLASS,TFILTER,CHAIN,ACTION} |
//! | [`psample`] | sampled packets and their listeners |
//! | [`host`], [`mod@env`] | the interface to the stack |
//! | [`verdict`], [`context`] | the types the data path exchanges |
//! | [`budget`] | limits on filters and actions |
//! | [`txq`] | the choice of a packet's transmit queue |
//! | [`gate`] | whether a device accepts packets at a transmit queue |
//! | [`report`] | counters, for reports |
//!
//! This crate knows nothing of namespaces or IP and never calls back into the stack: verdicts say
//! where a packet goes, and copies are appended to a list. The behaviour is that of Linux 6.1; the
//! documentation of each kind lists what is not implemented. `DESIGN.md` beside this crate's
//! `Cargo.toml` explains how to add a kind.
//!
//! # Lock order
//! [`weir_sync::order`] is the table of the engine's locks; those of this crate run from a device's
//! tree to a namespace's groups of samples. Each guards one object; none is global. Three kinds of
//! locks are not in the table. A flower instance's gate is on the level of the u32 instances: it is
//! shared while a filter is inserted, and exclusive when the instance is destroyed. Shards of index
//! tables and of hash tables are last: no lock is taken while one of them is held.
//!
//! The data path takes only the locks of qdiscs. References to actions are dropped and listeners are
//! notified while no lock of a block, a chain, a classifier, an action or a shard is held.
#![deny(unsafe_code)]

pub mod action;
pub mod block;
pub mod budget;
pub mod chain;
pub mod classifier;
pub mod context;
pub mod control;
pub mod counters;
pub mod device;
pub mod early;
pub mod env;
mod estimator;
pub mod gate;
pub mod host;
pub mod index;
pub mod net;
pub mod psample;
pub mod qdisc;
pub mod rate;
pub mod report;
pub mod table;
mod together;
pub mod txq;
pub mod unsupported;
pub mod verdict;

#[cfg(test)]
mod testing;

pub use budget::Budget;
pub use classifier::Lookup;
pub use context::{Context, Copy, CtKey, Defragmented, Received, Whole};
pub use device::{DeviceTc, Ended};
pub use early::{Dropped, Early};
pub use env::{Env, Reply, Requester};
pub use gate::Gate;
pub use host::{Device, Host};
pub use net::{Handles, NetTc};
pub use verdict::{Target, Verdict};
