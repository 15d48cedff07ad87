// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the actions of a filter on consecutive packets together, one action after the other.
//!
//! Most batches hit one filter, or a few filters in a row. If each of their actions can say in
//! advance with which code it ends for all packets of a run ([`Kind::plan`](crate::action::Kind)),
//! the actions run on the whole run at once and count once. The effects are those of running the
//! packets one by one. Otherwise nothing happens here, and the caller runs them one by one.

use weir_netlink::tca::{act, h};
use weir_packet::{Batch, DropReason};

use crate::action::ActionRef;
use crate::chain::Starts;
use crate::classifier::Hit;
use crate::context::{Context, Copy, Whole};
use crate::device::{Ended, Hook};
use crate::verdict::{Code, Outcome, code};

/// A batch with more runs than this is not worth the effort.
const RUNS: usize = 4;
/// A batch with fewer packets neither.
const FEW: usize = 4;

/// Consecutive packets that hit the same filter.
#[derive(Clone, Copy)]
struct Run<'g> {
    from: usize,
    to: usize,
    hit: Hit<'g>,
    code: Code,
}

/// Splits the packets into runs. Returns `None` if there are too many, or if a packet hits nothing
/// or a filter that is not known yet.
fn runs<'g>(starts: &Starts<'g>, count: usize) -> Option<([Option<Run<'g>>; RUNS], usize)> {
    let mut runs: [Option<Run<'g>>; RUNS] = [None; RUNS];
    if let Some(hit) = starts.every() {
        let (from, to, code) = (0, count, code::UNSPEC);
        runs[0] = Some(Run {
            from,
            to,
            hit,
            code,
        });
        return Some((runs, 1));
    }
    let mut used = 0_usize;
    for n in 0..count {
        let hit = starts.hit(n)?;
        let last = used
            .checked_sub(1)
            .and_then(|last: usize| runs.get_mut(last)?.as_mut());
        match last {
            Some(run) if std::ptr::eq(run.hit.exts, hit.exts) => run.to = n + 1,
            _ => {
                *runs.get_mut(used)? = Some(Run {
                    from: n,
                    to: n + 1,
                    hit,
                    code: code::UNSPEC,
                });
                used += 1;
            }
        }
    }
    Some((runs, used))
}

/// Returns the code with which a filter's actions end for all of these packets.
fn plan<'g>(
    actions: &'g [ActionRef],
    cx: &Context<'_, 'g>,
    packets: &[weir_packet::Packet],
) -> Option<Code> {
    for action in actions {
        let common = &action.common;
        if common.flags() & act::FLAGS_SKIP_SW != 0 {
            return None;
        }
        match action.kind.plan(common, cx, packets)? {
            code::PIPE => {}
            end @ (code::OK
            | code::SHOT
            | code::STOLEN
            | code::QUEUED
            | code::TRAP
            | code::CONSUMED) => {
                return Some(end);
            }
            _ => return None,
        }
    }
    actions.is_empty().then_some(code::OK)
}

impl Hook {
    /// Runs the actions for a batch whose look-up is done. Returns `false` if nothing has happened.
    /// Otherwise packets that pass stay in the batch; the others went where
    /// [`run_batch`](Self::run_batch) sends them. `bytes` is the sum of the lengths of the packets.
    pub(crate) fn run_together<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        (starts, bytes): (&Starts<'g>, u64),
        batch: &mut Batch,
        reason: DropReason,
        ended: &mut Vec<Ended>,
    ) -> bool {
        let count = batch.len();
        if count < FEW || cx.is_traced() {
            return false;
        }
        let Some((mut runs, used)) = runs(starts, count) else {
            return false;
        };
        for run in runs.iter_mut().flatten() {
            let packets = batch.get(run.from..run.to).unwrap_or_default();
            match plan(run.hit.exts.actions(), cx, packets) {
                Some(code) => run.code = code,
                None => return false,
            }
        }
        let mut dropped = 0;
        let mut gone = 0;
        for run in runs.into_iter().flatten() {
            // The packets of earlier runs may have left the batch.
            let (from, to) = (run.from - gone, run.to - gone);
            let whole = used == 1;
            let packets = batch.get_mut(from..to).unwrap_or_default();
            let bytes = match whole {
                true => bytes,
                false => packets.iter().map(|packet| cx.skb_len(packet)).sum(),
            };
            let length = packets.len();
            let mut out = Outcome::default();
            run.hit.count(cx.cpu, length as u64);
            for action in run.hit.exts.actions() {
                let (kind, common) = (&action.kind, &action.common);
                kind.run_planned(common, cx, (&mut *packets, bytes), &mut out);
                if common.control() != code::PIPE {
                    break;
                }
            }
            let reason = match run.code {
                code::OK | code::RECLASSIFY => {
                    let index = (run.hit.exts.classid & h::MIN_MASK) as u16;
                    packets
                        .iter_mut()
                        .for_each(|packet| packet.tc_index = index);
                    continue;
                }
                code::SHOT => {
                    dropped += length as u32;
                    Some(reason)
                }
                _ => None,
            };
            let target = out.target.filter(|_| run.code == code::CONSUMED);
            if whole {
                cx.whole = Some(match (target, reason) {
                    (Some(target), _) => Whole::Redirected(target),
                    (None, Some(reason)) => Whole::Dropped(reason),
                    (None, None) => Whole::Consumed,
                });
                break;
            }
            let leave = |packet| match target {
                Some(target) => cx.copies.push(Copy {
                    packet,
                    target,
                    itself: true,
                    reassembled: 0,
                }),
                None => ended.push((packet, reason)),
            };
            let mut at = 0..;
            batch.split(
                |_| !at.next().is_some_and(|at: usize| (from..to).contains(&at)),
                leave,
            );
            gone += length;
        }
        if dropped > 0 {
            self.node.hook_counters.count_drops(cx.cpu, dropped);
        }
        true
    }
}

#[cfg(test)]
mod tests;
