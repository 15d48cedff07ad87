// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests for actions that tc never sends, encoded by hand for the tests of kinds.

use weir_netlink::tca::{self, act, root};
use weir_netlink::{Attr, TcGen, TcMsg, TcaMsg, Writer, nlm, rtm};

use crate::testing::Stack;

/// The index of d0.
const D0: i32 = 3;

/// Returns the common start of a kind's parameters.
pub fn gen_parms(index: u32, action: i32) -> TcGen {
    TcGen {
        index,
        action,
        ..TcGen::default()
    }
}

fn put(w: &mut Writer, nest: u16, kind: &str, options: impl FnOnce(&mut Writer)) {
    let list = w.nest_noflag(nest);
    let first = w.nest_noflag(1);
    w.put_str(act::KIND, kind);
    let nest = w.nest(act::OPTIONS);
    options(w);
    w.end(nest);
    w.end(first);
    w.end(list);
}

/// Encodes RTM_NEWACTION for one action.
pub fn new_action(kind: &str, flags: u16, options: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new();
    let mark = w.message(rtm::NEWACTION, nlm::F_REQUEST | flags, 1, 0);
    w.fixed(&TcaMsg::default());
    put(&mut w, root::TAB, kind, options);
    w.finish(mark).unwrap();
    w.into_vec()
}

/// Encodes the requests that add one action to `matchall` at the ingress of d0.
pub fn at_ingress(kind: &str, options: impl FnOnce(&mut Writer)) -> [Vec<u8>; 2] {
    let tcm = |handle, parent, info| TcMsg {
        ifindex: D0,
        handle,
        parent,
        info,
        ..TcMsg::default()
    };
    let flags = nlm::F_REQUEST | nlm::F_CREATE | nlm::F_EXCL;
    let mut w = Writer::new();
    let mark = w.message(rtm::NEWQDISC, flags, 1, 0);
    w.fixed(&tcm(0xffff_0000, 0xffff_fff1, 0));
    w.put_str(tca::KIND, "clsact");
    w.finish(mark).unwrap();
    let qdisc = w.take();
    let mark = w.message(rtm::NEWTFILTER, flags, 1, 0);
    let all = u32::from(3_u16.to_be());
    w.fixed(&tcm(0, 0xffff_fff2, 1 << 16 | all));
    w.put_str(tca::KIND, "matchall");
    let nest = w.nest_noflag(tca::OPTIONS);
    put(&mut w, tca::matchall::ACT, kind, options);
    w.end(nest);
    w.finish(mark).unwrap();
    [qdisc, w.into_vec()]
}

/// Returns the options of an action as a get shows them, each with its type.
pub fn options_of(stack: &Stack, kind: &str, index: u32) -> Vec<(u16, Vec<u8>)> {
    let mut w = Writer::new();
    let mark = w.message(rtm::GETACTION, nlm::F_REQUEST, 1, 0);
    w.fixed(&TcaMsg::default());
    let list = w.nest_noflag(root::TAB);
    let first = w.nest_noflag(1);
    w.put_str(act::KIND, kind);
    w.put_u32(act::INDEX, index);
    w.end(first);
    w.end(list);
    w.finish(mark).unwrap();
    let answers = stack.request(w.bytes()).unwrap();
    let tab = answers[0].message().attrs::<TcaMsg>().find_type(root::TAB);
    let action = tab.unwrap().attrs().next().unwrap();
    let options = action.attrs().find_type(act::OPTIONS).unwrap();
    let one = |attr: Attr<'_>| (attr.ty, attr.payload.to_vec());
    options.attrs().map(one).collect()
}
