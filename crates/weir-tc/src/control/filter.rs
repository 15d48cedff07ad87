// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RTM_NEWTFILTER, RTM_DELTFILTER, RTM_GETTFILTER.
//!
//! Mirrors `tc_new_tfilter`, `tc_del_tfilter`, `tc_get_tfilter` and `tc_dump_tfilter`
//! (net/sched/cls_api.c). A rate estimator (`TCA_RATE`) applies to the actions created for the
//! filter.

use std::ops::Range;
use std::sync::Arc;

use weir_netlink::errno::{EEXIST, EINVAL, ENOENT};
use weir_netlink::tca;
use weir_netlink::{
    Error, Full, Message, Policy, Rule, Strictness, Table, TcMsg, Writer, nlm, policy, rtm,
};

use super::{
    DumpCx, NAME_LEN, POLICY, Place, Request, chain_index, dump_block, find_block, find_hook,
    find_qdisc, replay,
};
use crate::chain::{Chain, Proto};
use crate::classifier::{self, Change, Filter, Terse};
use crate::env::{Env, Reply, Requester};

/// Serves a request other than a dump.
pub fn handle(request: &Request<'_>, reply: &mut Reply) -> Result<(), Error> {
    replay(|| {
        let mut table = Table::empty();
        let message = Parsed::new(request, &mut table)?;
        match request.ty() {
            rtm::NEWTFILTER => message.new_filter(reply),
            rtm::DELTFILTER => message.delete(reply),
            _ => message.get(reply),
        }
    })
}

/// A parsed request.
struct Parsed<'a> {
    request: &'a Request<'a>,
    tcm: TcMsg,
    tb: &'a Table<'a>,
    /// The Ethertype in host order; 0 for none.
    protocol: u16,
    prio: u16,
}

fn text(errno: i32, message: &'static str) -> Error {
    Error::msg(errno, message)
}

fn kind_mismatch() -> Error {
    text(EINVAL, "Specified filter kind does not match existing one")
}

fn no_proto(error: Option<Error>) -> Error {
    let errno = error.map_or(ENOENT, |error| error.errno);
    text(errno, "Filter with specified priority/protocol not found")
}

impl<'a> Parsed<'a> {
    fn new<'m: 'a>(request: &'a Request<'m>, tb: &'a mut Table<'m>) -> Result<Self, Error> {
        let tcm: TcMsg = request
            .message
            .parse_into(&POLICY, Strictness::Liberal, tb)?;
        Ok(Self {
            request,
            tcm,
            tb,
            protocol: tcm.protocol(),
            prio: tcm.prio(),
        })
    }

    fn env(&self) -> &'a Env<'a> {
        self.request.env
    }

    /// Finds the block, with the checks that come between those of the qdisc and the class.
    fn place(&self) -> Result<Place<'a>, Error> {
        let hook = find_hook(self.env(), &self.tcm)?;
        let qdisc = match hook {
            Some(_) => None,
            None => find_qdisc(self.env(), &self.tcm)?,
        };
        if self
            .tb
            .get(tca::KIND)
            .is_some_and(|kind| kind.len() >= NAME_LEN && kind.c_str().len() >= NAME_LEN)
        {
            return Err(text(EINVAL, "Specified TC filter name too long"));
        }
        hook.map_or_else(|| find_block(self.env(), &self.tcm, qdisc), Ok)
    }

    fn kind_is(&self, proto: &Proto) -> bool {
        let kind = self.tb.get(tca::KIND);
        kind.is_none_or(|kind| kind.c_str() == proto.ops.kind.as_bytes())
    }

    /// Creates or changes a filter (`tc_new_tfilter`).
    fn new_filter(&self, reply: &mut Reply) -> Result<(), Error> {
        let (create, mut prio) = (self.request.has(nlm::F_CREATE), self.prio);
        let allocate = prio == 0;
        if allocate {
            if !create {
                return Err(text(ENOENT, "Invalid filter command with priority of zero"));
            }
            prio = 0x8000;
        }
        let place = self.place()?;
        if let Some((_, parent)) = place.shown {
            place.block.set_classid(parent);
        }
        let index = chain_index(self.tb)?;
        // An existing instance holds its chain, so this request need not take a reference. If the
        // instance is removed concurrently, it is closed to changes.
        if let Some(chain) = place.block.find(index, self.env().guard)
            && let Ok(Some(proto)) = chain.find(self.protocol, prio, allocate, self.env().guard)
        {
            return self.change_or_reclaim(&place, chain, proto, false, reply);
        }
        let chain = place.block.get_chain(index, true, self.env());
        let chain = chain.ok_or_else(|| Error::new(weir_netlink::errno::EAGAIN))?;
        let result = self
            .proto(&place, &chain, prio, allocate)
            .and_then(|(proto, created)| {
                self.change_or_reclaim(&place, &chain, &proto, created, reply)
            });
        place.block.put_chain(&chain, self.env());
        result
    }

    fn change_or_reclaim(
        &self,
        place: &Place<'_>,
        chain: &Arc<Chain>,
        proto: &Arc<Proto>,
        created: bool,
        reply: &mut Reply,
    ) -> Result<(), Error> {
        let result = self.change(place, chain, proto, reply);
        if result.is_err() {
            self.reclaim(place, chain, proto, created);
        }
        result
    }

    /// Finds or creates the instance of the priority. Also returns whether it was created.
    fn proto(
        &self,
        place: &Place<'_>,
        chain: &Arc<Chain>,
        mut prio: u16,
        allocate: bool,
    ) -> Result<(Arc<Proto>, bool), Error> {
        let kind = {
            let state = chain.lock();
            let found = state
                .find(self.protocol, prio, allocate)
                .map_err(|e| no_proto(Some(e)))?;
            let at = match found {
                Ok(proto) => return Ok((proto, false)),
                Err(at) => at,
            };
            if state.flushing {
                return Err(Error::new(weir_netlink::errno::EAGAIN));
            }
            let Some(kind) = self.tb.get(tca::KIND).filter(|_| self.protocol != 0) else {
                return Err(text(EINVAL, "Filter kind and protocol must be specified"));
            };
            if !self.request.has(nlm::F_CREATE) {
                return Err(need_create());
            }
            if allocate {
                prio = state.auto_prio(at);
            }
            kind
        };
        let ops =
            classifier::find_ops(kind.c_str()).ok_or(text(ENOENT, "TC classifier not found"))?;
        let new = Arc::new(Proto {
            prio,
            protocol: self.protocol,
            ops,
            classifier: (ops.create)(&classifier::New {
                env: self.env(),
                block: &place.block,
                prio,
            })?,
        });
        // An instance holds a reference to its chain from the moment it is inserted.
        if place
            .block
            .get_chain(chain.index, false, self.env())
            .is_none()
        {
            return Err(Error::new(weir_netlink::errno::EAGAIN));
        }
        let inserted = {
            let mut state = chain.lock();
            let inserted = state.insert(&new);
            chain.publish(&state);
            inserted
        };
        let ours = inserted
            .as_ref()
            .is_ok_and(|proto| Arc::ptr_eq(proto, &new));
        if !ours {
            place.block.put_chain(chain, self.env());
        }
        inserted.map(|proto| (proto, ours))
    }

    fn change(
        &self,
        place: &Place<'_>,
        chain: &Arc<Chain>,
        proto: &Arc<Proto>,
        reply: &mut Reply,
    ) -> Result<(), Error> {
        let create = self.request.has(nlm::F_CREATE);
        if !self.kind_is(proto) {
            return Err(kind_mismatch());
        }
        let old = proto.classifier.get(self.tcm.handle);
        match &old {
            None if !create => return Err(need_create()),
            Some(_) if self.request.has(nlm::F_EXCL) => {
                return Err(text(EEXIST, "Filter already exists"));
            }
            _ => {}
        }
        let template = chain.template.load(self.env().guard).cloned();
        if template
            .as_ref()
            .is_some_and(|template| template.ops().kind != proto.ops.kind)
        {
            return Err(text(
                EINVAL,
                "Chain template is set to a different filter kind",
            ));
        }
        let change = Change {
            env: self.env(),
            block: &place.block,
            template,
            handle: self.tcm.handle,
            tca: self.tb,
            options: self.tb.get(tca::OPTIONS),
            replace: !create,
            exists: old.is_some(),
        };
        let filter = proto.classifier.change(&change, old.as_ref())?;
        self.notify(
            rtm::NEWTFILTER,
            place,
            chain,
            proto,
            filter.as_deref(),
            Some(reply),
        );
        Ok(())
    }

    /// Removes an empty instance after a refusal (`tcf_chain_tp_delete_empty`).
    fn reclaim(&self, place: &Place<'_>, chain: &Arc<Chain>, proto: &Arc<Proto>, created: bool) {
        match proto.classifier.close_if_empty() {
            Some(false) => return,
            None if !created => return,
            _ => {}
        }
        self.unlink(place, chain, proto);
    }

    fn unlink(&self, place: &Place<'_>, chain: &Arc<Chain>, proto: &Arc<Proto>) {
        let removed = {
            let mut state = chain.lock();
            let removed = state.remove(proto);
            chain.publish(&state);
            removed
        };
        if removed {
            place.block.destroy_proto(chain, proto, self.env());
        }
    }

    /// Deletes filters (`tc_del_tfilter`).
    fn delete(&self, reply: &mut Reply) -> Result<(), Error> {
        let by_name = self.protocol != 0 || self.tcm.handle != 0 || self.tb.has(tca::KIND);
        if self.prio == 0 && by_name {
            return Err(text(
                ENOENT,
                "Cannot flush filters with protocol, handle or kind set",
            ));
        }
        let place = self.place()?;
        let index = chain_index(self.tb)?;
        // The chain needs no reference, see `new_filter`. A reference is necessary if a whole
        // instance is deleted, because the notification of the chain's deletion must come last.
        if let Some(chain) = place.block.find(index, self.env().guard)
            && (self.prio != 0 && self.tcm.handle != 0)
            && let Ok(proto) = self.find_proto(chain)
        {
            return self.delete_in(&place, chain, proto, reply);
        }
        let Some(chain) = place.block.get_chain(index, false, self.env()) else {
            if self.prio == 0 {
                return Ok(());
            }
            return Err(text(ENOENT, "Cannot find specified filter chain"));
        };
        let result = if self.prio == 0 {
            flush(self.request, &place, &chain, reply);
            Ok(())
        } else {
            self.find_proto(&chain)
                .and_then(|proto| self.delete_in(&place, &chain, proto, reply))
        };
        place.block.put_chain(&chain, self.env());
        result
    }

    fn delete_in(
        &self,
        place: &Place<'_>,
        chain: &Arc<Chain>,
        proto: &Arc<Proto>,
        reply: &mut Reply,
    ) -> Result<(), Error> {
        if self.tcm.handle == 0 {
            // Linux sends the notification after the instance is removed and can no longer show its
            // filters.
            self.unlink(place, chain, proto);
            self.notify(rtm::DELTFILTER, place, chain, proto, None, Some(reply));
            return Ok(());
        }
        let filter = proto.classifier.get(self.tcm.handle);
        let filter = filter.ok_or_else(|| text(ENOENT, "Specified filter handle not found"))?;
        let message = self.build(rtm::DELTFILTER, place, chain, proto, Some(&*filter));
        let last = proto.classifier.delete(&filter, self.env())?;
        self.env().notify(&self.request.by, Some(reply), &message);
        if last && proto.classifier.close_if_empty() != Some(false) {
            self.unlink(place, chain, proto);
        }
        Ok(())
    }

    fn find_proto<'c>(&self, chain: &'c Arc<Chain>) -> Result<&'c Arc<Proto>, Error>
    where
        'a: 'c,
    {
        let proto = match chain.find(self.protocol, self.prio, false, self.env().guard) {
            Ok(Some(proto)) => proto,
            Ok(None) => return Err(no_proto(None)),
            Err(error) => return Err(no_proto(Some(error))),
        };
        if !self.kind_is(proto) {
            return Err(kind_mismatch());
        }
        Ok(proto)
    }

    /// Shows a filter (`tc_get_tfilter`).
    fn get(&self, reply: &mut Reply) -> Result<(), Error> {
        if self.prio == 0 {
            return Err(text(ENOENT, "Invalid filter command with priority of zero"));
        }
        let place = self.place()?;
        let index = chain_index(self.tb)?;
        let chain = place.block.get_chain(index, false, self.env());
        let chain = chain.ok_or(text(EINVAL, "Cannot find specified filter chain"))?;
        let result = self.find_proto(&chain).and_then(|proto| {
            let filter = proto.classifier.get(self.tcm.handle);
            let filter = filter.ok_or_else(|| text(ENOENT, "Specified filter handle not found"))?;
            let node = Node::new(rtm::NEWTFILTER, &place, &chain, proto, self.request.by);
            node.write(&mut reply.out, Some(&*filter), false, self.env())?;
            Ok(())
        });
        place.block.put_chain(&chain, self.env());
        result
    }

    fn build(
        &self,
        ty: u16,
        place: &Place<'_>,
        chain: &Chain,
        proto: &Proto,
        filter: Option<&dyn Filter>,
    ) -> Vec<u8> {
        let by = self.request.by;
        if !self.env().notify_needed(&by) {
            return Vec::new();
        }
        let mut w = Writer::new();
        let node = Node::new(ty, place, chain, proto, by);
        // No notification is sent if the message does not fit into its nests.
        let _ = node.write(&mut w, filter, false, self.env());
        w.into_vec()
    }

    fn notify(
        &self,
        ty: u16,
        place: &Place<'_>,
        chain: &Chain,
        proto: &Proto,
        filter: Option<&dyn Filter>,
        reply: Option<&mut Reply>,
    ) {
        let message = self.build(ty, place, chain, proto, filter);
        self.env().notify(&self.request.by, reply, &message);
    }
}

fn need_create() -> Error {
    text(
        ENOENT,
        "Need both RTM_NEWTFILTER and NLM_F_CREATE to create a new filter",
    )
}

/// Deletes all filters of a chain and notifies listeners about each instance
/// (`tfilter_notify_chain`, `tcf_chain_flush`).
pub(super) fn flush(
    request: &Request<'_>,
    place: &Place<'_>,
    chain: &Arc<Chain>,
    reply: &mut Reply,
) {
    let (env, by) = (request.env, request.by);
    if env.notify_needed(&by) {
        for proto in chain.protos() {
            let mut w = Writer::new();
            let node = Node::new(rtm::DELTFILTER, place, chain, &proto, by);
            if node.write(&mut w, None, false, env).is_ok() {
                env.notify(&by, Some(reply), w.bytes());
            }
        }
    }
    place.block.flush(chain, env);
}

/// The encoder of messages about an instance and its filters.
struct Node {
    /// The common start of all messages: headers, kind and chain.
    start: Vec<u8>,
}

impl Node {
    /// The range of the handle in a message.
    const HANDLE: Range<usize> = 24..28;

    fn new(ty: u16, place: &Place<'_>, chain: &Chain, proto: &Proto, by: Requester) -> Self {
        let mut tcm = TcMsg {
            info: TcMsg::make_info(proto.prio, proto.protocol),
            ..TcMsg::default()
        };
        place.fill(&mut tcm);
        let mut w = Writer::from_vec(Vec::with_capacity(64));
        let _ = w.message(ty, by.flags, by.seq, by.portid);
        w.fixed(&tcm);
        w.put_str(tca::KIND, proto.ops.kind);
        w.put_u32(tca::CHAIN, chain.index);
        Self {
            start: w.into_vec(),
        }
    }

    /// Encodes a message about a filter, or about the instance itself (`tcf_fill_node`).
    fn write(
        &self,
        w: &mut Writer,
        filter: Option<&dyn Filter>,
        terse: bool,
        env: &Env<'_>,
    ) -> Result<(), Full> {
        let (mark, start) = w.message_copied(&self.start);
        if let Some(filter) = filter {
            if let Some(handle) = start.and_then(|start| start.get_mut(Self::HANDLE)) {
                handle.copy_from_slice(&filter.handle().to_ne_bytes());
            }
            filter.dump(w, terse, env);
            if !terse {
                filter.exts().dump_stats(w, env);
            }
        }
        w.finish(mark)
    }
}

static DUMP_POLICY: Policy = policy! { max tca::MAX;
    tca::CHAIN => Rule::u32(),
    tca::DUMP_FLAGS => Rule::bitfield32(tca::DUMP_FLAGS_TERSE),
};

/// A dump in progress. It continues after the last filter written, by chain, priority and position
/// in the instance, whatever has changed in between.
pub struct Dump {
    tcm: TcMsg,
    chain: Option<u32>,
    terse: bool,
    /// The position of the chain in its block.
    seq: u64,
    /// The priority to continue from in that chain.
    prio: u16,
    /// The message about the instance itself has been written.
    head_done: bool,
    /// The position in the instance.
    from: u64,
}

/// Starts a dump.
pub fn dump(message: &Message<'_>) -> Result<Dump, Error> {
    let mut dump = Dump {
        tcm: TcMsg::default(),
        chain: None,
        terse: false,
        seq: u64::MAX,
        prio: 0,
        head_done: false,
        from: 0,
    };
    // A request that is too short dumps nothing.
    if message.payload().len() < 20 {
        return Ok(dump);
    }
    let (tcm, tb) = message.parse::<TcMsg>(&DUMP_POLICY, Strictness::Liberal)?;
    if let Some(flags) = tb.get(tca::DUMP_FLAGS) {
        dump.terse = flags.bitfield32()?.0 & tca::DUMP_FLAGS_TERSE != 0;
    }
    dump.chain = tb.get(tca::CHAIN).map(|chain| chain.u32()).transpose()?;
    (dump.tcm, dump.seq) = (tcm, 0);
    Ok(dump)
}

impl Dump {
    fn wants(&self, proto: &Proto) -> bool {
        let (prio, protocol) = (self.tcm.prio(), self.tcm.protocol());
        (prio == 0 || prio == proto.prio) && (protocol == 0 || protocol == proto.protocol)
    }

    /// Writes as many messages as fit, or only one. Returns `true` if nothing is left.
    pub fn fill(&mut self, cx: &DumpCx<'_>, w: &mut Writer, one: bool) -> Result<bool, Error> {
        if self.seq == u64::MAX {
            return Ok(true);
        }
        let Some(place) = dump_block(cx.env, &self.tcm) else {
            return Ok(true);
        };
        let start = w.len();
        while let Some((seq, chain)) = place.block.next_chain(self.seq) {
            if seq != self.seq {
                (self.seq, self.prio, self.head_done, self.from) = (seq, 0, false, 0);
            }
            if self.chain.is_none_or(|index| index == chain.index)
                && !self.fill_chain(cx, w, &place, &chain, one.then_some(start))?
            {
                return Ok(false);
            }
            (self.seq, self.prio, self.head_done, self.from) = (seq + 1, 0, false, 0);
        }
        self.seq = u64::MAX;
        Ok(true)
    }

    /// Writes the filters of a chain (`tcf_chain_dump`). Returns `false` if the datagram is full.
    /// If `one` is given, also returns `false` when a message has been written after that offset.
    fn fill_chain(
        &mut self,
        cx: &DumpCx<'_>,
        w: &mut Writer,
        place: &Place<'_>,
        chain: &Arc<Chain>,
        one: Option<usize>,
    ) -> Result<bool, Error> {
        let full = |w: &Writer| {
            if w.is_empty() {
                Err(Error::new(weir_netlink::errno::EMSGSIZE))
            } else {
                Ok(false)
            }
        };
        let enough = |w: &Writer| one.is_some_and(|start| w.len() > start);
        let mut few = Vec::with_capacity(16);
        for proto in chain.protos() {
            if proto.prio < self.prio || !self.wants(&proto) {
                continue;
            }
            if proto.prio != self.prio {
                (self.prio, self.head_done, self.from) = (proto.prio, false, 0);
            }
            let node = Node::new(rtm::NEWTFILTER, place, chain, &proto, cx.by);
            if !self.head_done {
                if enough(w) {
                    return Ok(false);
                }
                if node.write(w, None, false, cx.env).is_err() {
                    return full(w);
                }
                self.head_done = true;
            }
            loop {
                proto.classifier.next_few(self.from, &mut few);
                if few.is_empty() {
                    break;
                }
                // The memory of all of them arrives at the same time.
                few.iter()
                    .for_each(|(_, filter)| filter.exts().prefetch_release());
                few.iter()
                    .for_each(|(_, filter)| filter.exts().prefetch_dump(cx.env.guard));
                for (at, filter) in few.drain(..) {
                    if enough(w) {
                        return Ok(false);
                    }
                    match filter.terse() {
                        Terse::Ends if self.terse => return full(w),
                        Terse::Passed if self.terse => {
                            self.from = at + 1;
                            continue;
                        }
                        _ => {}
                    }
                    let filter = Some(&*filter);
                    if node.write(w, filter, self.terse, cx.env).is_err() {
                        return full(w);
                    }
                    self.from = at + 1;
                }
            }
            let Some(next) = proto.prio.checked_add(1) else {
                break;
            };
            (self.prio, self.head_done, self.from) = (next, false, 0);
        }
        Ok(true)
    }
}
