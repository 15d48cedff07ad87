// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic control: qdiscs, classifiers, actions, chains and blocks, and their rtnetlink requests.
//!
//! | module | what |
//! |---|---|
//! | [`device`] | a device's side: tree of qdiscs, hooks, a packet's way |
//! | [`net`] | a namespace's side: actions by kind, shared blocks |
//! | [`qdisc`] | queueing disciplines, a file a kind |
//! | [`classifier`] | classifiers, a file a kind |
//! | [`action`] | actions, a file a kind |
//! | [`block`], [`chain`] | where filters are |
//! | [`control`] | the requests: RTM_{NEW,DEL,GET}{QDISC,TCLASS,TFILTER,CHAIN,ACTION} |
//! | [`psample`] | sampled packets and their listeners |
//! | [`host`], [`mod@env`] | what the stack provides |
//! | [`verdict`], [`context`] | what the data path exchanges |
//! | [`budget`] | how many filters there may be |
//! | [`txq`] | which transmit queue a packet takes |
//! | [`gate`] | whether a device takes packets at a transmit queue |
//! | [`report`] | counters, for reports |
//!
//! Nothing here knows of namespaces or IP, and nothing reaches back into the stack: verdicts carry a
//! packet on, copies go to a list. The behaviour is Linux 6.1's; what is left out stands at the head of
//! each kind. How to add a kind: `DESIGN.md` beside this crate's `Cargo.toml`.
//!
//! # Lock order
//! From first taken to last; each guards one object, none is global:
//! 1. a device's tree (`device::DeviceTc`),
//! 2. a flower instance's gate, shared while a filter is put in, alone when the instance goes; the tables
//!    of a qdisc's u32 instances,
//! 3. a namespace's shared blocks (`net::NetTc`),
//! 4. a block's chains (`block::Block`),
//! 5. a chain's list (`chain::Chain`),
//! 6. a qdisc's node, parents before children (`qdisc::Node`),
//! 7. inside a classifier: its own changes (`matchall`), masks coming and going, ranges (`flower`),
//! 8. an action's changes (`action::Common`),
//! 9. a namespace's groups of samples (`psample::Groups`),
//! 10. shards of index tables and hash tables; nothing is taken under them.
//!
//! The data path takes none of them but 6. Actions are let go of, and listeners told, with none of 4, 5
//! and 7 to 10 held.
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
pub mod txq;
pub mod verdict;
pub mod waiting;

/// Explores every interleaving of `model` with up to `preemptions` preemptions.
#[cfg(all(test, loom))]
fn check_model(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 50_000;
    builder.check(model);
}

#[cfg(test)]
mod testing;

pub use budget::Budget;
pub use classifier::Lookup;
pub use context::{Context, Copy};
pub use device::{DeviceTc, Ended};
pub use env::{Env, Reply, Requester};
pub use gate::Gate;
pub use host::{Device, Host};
pub use net::{Handles, NetTc};
pub use verdict::{Target, Verdict};
