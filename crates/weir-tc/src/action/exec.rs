// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the actions of a filter on a packet.
//!
//! Mirrors `tcf_action_exec` (net/sched/act_api.c), including its limits: a jump restarts the list
//! and skips as many actions as it says; at most 32 jumps, and at most 32 repeats of one action.

use weir_netlink::tca::act;
use weir_packet::{DropReason, Flags, Packet};

use super::{ActionRef, MAX};
use crate::context::Context;
use crate::verdict::{Code, Outcome, code};

/// `TCA_ACT_MAX_PRIO_MASK`
const JUMP_MASK: u32 = 0x1ff;

/// Runs `actions` in order and returns the code of the last one that ran.
#[inline]
pub fn run<'g>(
    actions: &'g [ActionRef],
    cx: &mut Context<'_, 'g>,
    packet: &mut Packet,
    out: &mut Outcome<'g>,
) -> Code {
    if packet.flags.contains(Flags::SKIP_CLASSIFY) {
        return code::OK;
    }
    let Some(first) = actions.first() else {
        return code::OK;
    };
    if first.common.flags() & act::FLAGS_SKIP_SW != 0 {
        return resume(actions, 1, code::OK, cx, packet, out);
    }
    let result = first.kind.run(&first.common, cx, packet, out);
    match result {
        // For most packets the first action ends the run.
        code::OK | code::SHOT | code::STOLEN => result,
        _ => resume(actions, 0, result, cx, packet, out),
    }
}

/// Continues [`run`] at the action at index `at`. If `at` is 0, the first action has already run
/// and returned `result`. Otherwise `result` is the code if no action runs.
fn resume<'g>(
    actions: &'g [ActionRef],
    mut at: usize,
    mut result: Code,
    cx: &mut Context<'_, 'g>,
    packet: &mut Packet,
    out: &mut Outcome<'g>,
) -> Code {
    let mut first = (at == 0).then_some(result);
    let mut jumps = MAX;
    while let Some(action) = actions.get(at) {
        at += 1;
        let common = &action.common;
        let mut done = first.take();
        if done.is_none() && common.flags() & act::FLAGS_SKIP_SW != 0 {
            continue;
        }
        let mut repeats = 32;
        result = loop {
            let result = match done.take() {
                Some(result) => result,
                None => action.kind.run(common, cx, packet, out),
            };
            if result != code::REPEAT {
                break result;
            }
            repeats -= 1;
            if repeats == 0 {
                return code::OK;
            }
        };
        if result == code::PIPE {
            continue;
        }
        match code::opcode(result) {
            code::JUMP => {
                // If the jump skips all actions, the jump's own code is the result, as in Linux.
                let skip = (code::value(result) & JUMP_MASK) as usize;
                jumps -= 1;
                if skip == 0 || skip > actions.len() || jumps == 0 {
                    return code::OK;
                }
                at = skip;
                continue;
            }
            code::GOTO_CHAIN => match common.chain(cx) {
                Some(chain) => out.chain = Some(chain),
                None => {
                    out.reason = Some(DropReason::TC_CHAIN_NOTFOUND);
                    return code::SHOT;
                }
            },
            _ => {}
        }
        break;
    }
    result
}
