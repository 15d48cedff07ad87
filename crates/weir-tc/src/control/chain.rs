// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RTM_NEWCHAIN, RTM_DELCHAIN, RTM_GETCHAIN.
//!
//! Mirrors `tc_ctl_chain` and `tc_dump_chain` (net/sched/cls_api.c). A chain created here continues
//! to exist without filters. It may have a template that restricts what its filters match.

use std::sync::Arc;

use weir_netlink::errno::{EAGAIN, EEXIST, EINVAL, ENOENT, EOPNOTSUPP};
use weir_netlink::{Error, Message, Strictness, Table, TcMsg, Writer, nlm, rtm, tca};

use super::{
    DumpCx, NAME_LEN, POLICY, Place, Request, chain_index, dump_block, filter, find_block,
    find_qdisc, replay,
};
use crate::block::{NEW, NotCreated};
use crate::chain::Chain;
use crate::classifier;
use crate::env::Reply;

/// Serves a request other than a dump.
pub fn handle(request: &Request<'_>, reply: &mut Reply) -> Result<(), Error> {
    replay(|| attempt(request, reply))
}

fn text(errno: i32, message: &'static str) -> Error {
    Error::msg(errno, message)
}

fn attempt(request: &Request<'_>, reply: &mut Reply) -> Result<(), Error> {
    let env = request.env;
    let (tcm, tb) = request.parse()?;
    let place = find_block(env, &tcm, find_qdisc(env, &tcm)?)?;
    let index = chain_index(&tb)?;
    let block = &place.block;
    if request.ty() == rtm::NEWCHAIN {
        let chain = block.create_explicit(index, request.has(nlm::F_CREATE));
        let chain = chain.map_err(|why| match why {
            NotCreated::Exists => text(EEXIST, "Filter chain already exists"),
            NotCreated::NotAsked => text(
                ENOENT,
                "Need both RTM_NEWCHAIN and NLM_F_CREATE to create a new chain",
            ),
            NotCreated::Dead => Error::new(EAGAIN),
        })?;
        let result = add_template(request, &place, &chain, &tb);
        match &result {
            Ok(()) => block.notify_chain(rtm::NEWCHAIN, NEW, index, None, env),
            Err(_) => block.put_explicit(&chain, env),
        }
        block.put_chain(&chain, env);
        return result;
    }
    let chain = block.get_visible(index);
    let chain = chain.ok_or(text(EINVAL, "Cannot find specified filter chain"))?;
    let result = if request.ty() == rtm::DELCHAIN {
        filter::flush(request, &place, &chain, reply);
        block.put_explicit(&chain, env);
        Ok(())
    } else {
        let template = block.template(index, request.env.guard);
        let by = (request.by, request.by.flags);
        block.dump_chain(
            &mut reply.out,
            rtm::GETCHAIN,
            by,
            index,
            template.as_deref(),
            env,
        )
    };
    block.put_chain(&chain, env);
    result
}

/// Creates the template of a chain (`tc_chain_tmplt_add`).
fn add_template(
    request: &Request<'_>,
    place: &Place,
    chain: &Arc<Chain>,
    tb: &Table<'_>,
) -> Result<(), Error> {
    let Some(kind) = tb.get(tca::KIND) else {
        return Ok(());
    };
    if kind.c_str().len() >= NAME_LEN {
        return Err(text(EINVAL, "Specified TC chain template name too long"));
    }
    let ops = classifier::find_ops(kind.c_str()).ok_or(text(ENOENT, "TC classifier not found"))?;
    let Some(make) = ops.template else {
        let message = "Chain templates are not supported with specified classifier";
        return Err(text(EOPNOTSUPP, message));
    };
    place
        .block
        .set_template(chain.index, make(tb, request.env)?);
    Ok(())
}

/// A dump in progress.
pub struct Dump {
    tcm: TcMsg,
    chain: Option<u32>,
    /// The position of the chain in the block; `u64::MAX` at the end.
    seq: u64,
}

/// Starts a dump.
pub fn dump(message: &Message<'_>) -> Result<Dump, Error> {
    if message.payload().len() < 20 {
        return Ok(Dump {
            tcm: TcMsg::default(),
            chain: None,
            seq: u64::MAX,
        });
    }
    let (tcm, tb) = message.parse::<TcMsg>(&POLICY, Strictness::Liberal)?;
    let chain = tb.get(tca::CHAIN).map(|chain| chain.u32()).transpose()?;
    Ok(Dump { tcm, chain, seq: 0 })
}

impl Dump {
    /// Writes as many messages as fit, or only one. Returns `true` if nothing is left.
    pub fn fill(&mut self, cx: &DumpCx<'_>, w: &mut Writer, one: bool) -> Result<bool, Error> {
        if self.seq == u64::MAX {
            return Ok(true);
        }
        let Some(place) = dump_block(cx.env, &self.tcm) else {
            return Ok(true);
        };
        let block = &place.block;
        let start = w.len();
        while let Some((seq, chain)) = block.next_chain(self.seq) {
            if one && w.len() > start {
                return Ok(false);
            }
            if self.chain.is_none_or(|index| index == chain.index) {
                let template = block.template(chain.index, cx.env.guard);
                let by = (cx.by, cx.by.flags);
                let template = template.as_deref();
                if block
                    .dump_chain(w, rtm::NEWCHAIN, by, chain.index, template, cx.env)
                    .is_err()
                {
                    return if w.is_empty() {
                        Err(Error::new(weir_netlink::errno::EMSGSIZE))
                    } else {
                        Ok(false)
                    };
                }
            }
            self.seq = seq + 1;
        }
        self.seq = u64::MAX;
        Ok(true)
    }
}
