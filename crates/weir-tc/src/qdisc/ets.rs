// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ets`: strict bands come first, in order; the other bands share the rest by deficit round robin
//! (802.1Qaz).
//!
//! Mirrors net/sched/sch_ets.c. Parameters: `bands` (1 to 16), `strict` (number of strict bands),
//! `quanta` (bytes per turn of the other bands, 256 to 1048576; default the largest frame),
//! `priomap` (the band of each of the 16 packet priorities; default the last band). A packet's band
//! is named by its priority if that has the qdisc's handle, else by a filter, else by the priomap.
//! Class `n` is band `n - 1`.
//!
//! If the number of bands is reduced, the packets of the removed bands are dropped. Offload is not
//! supported.

use std::sync::Arc;

use weir_netlink::errno::{EINVAL, EOPNOTSUPP};
use weir_netlink::tca::{self, ets as attr, h};
use weir_netlink::{Attr, Error, Policy, Rule, Strictness, Table, TcMsg, Writer, policy};
use weir_packet::Packet;

use super::rounds::{Rounds, Share, Shares};
use super::{ClassStats, Create, Drops, Enqueued, Gone, Leaf, Load, Ops, Qdisc, QueueCx, classify};
use crate::block::Block;

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    classful: true,
    refills: true,
    filters: true,
    ..Ops::new("ets", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::NBANDS => Rule::u8(),
    attr::NSTRICT => Rule::u8(),
    attr::QUANTA => Rule::nested_any(),
    attr::PRIOMAP => Rule::nested_any(),
};
static PRIOMAP: Policy = policy! { max attr::MAX; attr::PRIOMAP_BAND => Rule::u8(), };
static QUANTA: Policy = policy! { max attr::MAX; attr::QUANTA_BAND => Rule::u32(), };

/// Largest number of bands (`TCQ_ETS_MAX_BANDS`).
const MAX_BANDS: usize = 16;

/// The state of the qdisc.
struct Ets {
    block: Arc<Block>,
    handle: u32,
    strict: usize,
    priomap: [u8; 16],
    bands: Vec<Share>,
    /// Rounds of the bands that share, by class.
    rounds: Rounds,
    total: Load,
}

struct Params {
    strict: usize,
    priomap: [u8; 16],
    quanta: Vec<u32>,
}

fn wrong(message: &'static str) -> Error {
    Error::msg(EINVAL, message)
}

fn elements<'a>(nest: &Attr<'a>, policy: &'static Policy) -> Result<Vec<Attr<'a>>, Error> {
    weir_netlink::validate(nest.attrs(), policy, Strictness::Strict)?;
    Ok(nest.attrs().collect())
}

fn parse(create: &Create<'_>) -> Result<Params, Error> {
    let options = create.options.ok_or(Error::new(EINVAL))?;
    let tb = options.parse(&POLICY, Strictness::Strict)?;
    let bands = tb.u8(attr::NBANDS)?;
    let bands = usize::from(bands.ok_or(wrong("sch_ets: Number of bands is a required argument"))?);
    if !(1..=MAX_BANDS).contains(&bands) {
        return Err(wrong("sch_ets: Invalid number of bands"));
    }
    let strict = usize::from(tb.u8(attr::NSTRICT)?.unwrap_or(0));
    if strict > bands {
        return Err(wrong("sch_ets: Invalid number of strict bands"));
    }
    let mut priomap = [(bands - 1) as u8; 16];
    if let Some(map) = tb.get(attr::PRIOMAP) {
        for (prio, band) in elements(&map, &PRIOMAP)?.iter().enumerate() {
            let Some(place) = priomap.get_mut(prio) else {
                return Err(wrong("sch_ets: Too many priorities in ETS priomap"));
            };
            *place = band.u8()?;
            if usize::from(*place) >= bands {
                return Err(wrong("sch_ets: Invalid band number in ETS priomap"));
            }
        }
    }
    let mut quanta = vec![0; strict];
    if let Some(given) = tb.get(attr::QUANTA) {
        for quantum in elements(&given, &QUANTA)? {
            if quanta.len() >= bands {
                return Err(wrong("sch_ets: ETS quanta has more values than bands"));
            }
            quanta.push(quantum.u32()?.clamp(256, 1 << 20));
        }
    }
    quanta.resize(bands, create.psched_mtu().clamp(256, 1 << 20));
    Ok(Params {
        strict,
        priomap,
        quanta,
    })
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let params = parse(create)?;
    let mut ets = Ets {
        block: create.block(),
        handle: create.handle,
        strict: 0,
        priomap: [0; 16],
        bands: Vec::new(),
        rounds: Rounds::default(),
        total: Load::default(),
    };
    ets.set(params, create, &mut Gone::default());
    Ok(Box::new(ets))
}

impl Shares for Vec<Share> {
    fn share(&mut self, class: u32) -> Option<&mut Share> {
        self.get_mut((class as usize).checked_sub(1)?)
    }
}

impl Ets {
    fn set(&mut self, params: Params, create: &Create<'_>, gone: &mut Gone) {
        let bands = params.quanta.len();
        for class in bands + 1..=self.bands.len() {
            self.rounds.deactivate(class as u32, &mut self.bands);
        }
        for band in self.bands.drain(bands.min(self.bands.len())..) {
            band.leaf.flush(&mut self.total, gone);
            gone.nodes.extend(band.leaf.node());
        }
        for number in params.strict..self.strict.min(self.bands.len()) {
            let band = &mut self.bands[number];
            if band.leaf.load().len > 0 {
                let class = number as u32 + 1;
                self.rounds.activate(class, band, params.quanta[number]);
            }
        }
        for class in self.strict + 1..=params.strict.min(self.bands.len()) {
            self.rounds.deactivate(class as u32, &mut self.bands);
        }
        for class in self.bands.len() + 1..=bands {
            self.bands.push(Share::new(create.pfifo(class as u32), 0));
        }
        for (band, quantum) in self.bands.iter_mut().zip(params.quanta) {
            band.quantum = quantum;
        }
        (self.strict, self.priomap) = (params.strict, params.priomap);
    }

    fn band_of(&self, class: u32) -> usize {
        let band = (class & h::MIN_MASK).wrapping_sub(1) as usize;
        if band < self.bands.len() {
            return band;
        }
        usize::from(self.priomap[0])
    }
}

impl Qdisc for Ets {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let (packet, number) = if packet.priority & h::MAJ_MASK == self.handle {
            let band = self.band_of(packet.priority);
            (packet, band)
        } else {
            match classify(&self.block, q, packet) {
                Ok((packet, Some(class))) => (packet, self.band_of(class)),
                Ok((packet, None)) => {
                    let priority = match packet.priority & h::MAJ_MASK {
                        0 => packet.priority & 15,
                        _ => 0,
                    };
                    (packet, usize::from(self.priomap[priority as usize]))
                }
                Err(ended) => return ended,
            }
        };
        let band = &mut self.bands[number];
        let (result, _) = band.leaf.enqueue(q, packet, &mut self.total);
        if result == Enqueued::Queued && number >= self.strict {
            self.rounds.activate(number as u32 + 1, band, band.quantum);
        }
        result
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        for band in &self.bands[..self.strict] {
            if let (Some(packet), _) = band.leaf.dequeue(q, &mut self.total) {
                return Some(packet);
            }
        }
        let (bands, total) = (&mut self.bands, &mut self.total);
        let (_, packet) = self.rounds.dequeue(bands, q, total)?;
        Some(packet)
    }

    fn load(&self) -> Load {
        self.total
    }

    fn reset(&mut self, out: &mut Drops) {
        for band in &self.bands {
            band.leaf.purge(&mut self.total, out);
        }
        self.rounds.clear(&mut self.bands);
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        self.set(parse(create)?, create, gone);
        Ok(())
    }

    fn dump(&self, w: &mut Writer) {
        let opts = w.nest_noflag(tca::OPTIONS);
        w.put_u8(attr::NBANDS, self.bands.len() as u8);
        if self.strict > 0 {
            w.put_u8(attr::NSTRICT, self.strict as u8);
        }
        if self.bands.len() > self.strict {
            let nest = w.nest(attr::QUANTA);
            for band in &self.bands[self.strict..] {
                w.put_u32(attr::QUANTA_BAND, band.quantum);
            }
            w.end(nest);
        }
        let nest = w.nest(attr::PRIOMAP);
        for band in self.priomap {
            w.put_u8(attr::PRIOMAP_BAND, band);
        }
        w.end(nest);
        w.end(opts);
    }

    fn slot(&self, class: u32) -> Option<&Leaf> {
        let band = self.bands.get((class as usize).checked_sub(1)?)?;
        Some(&band.leaf)
    }

    fn slot_mut(&mut self, class: u32) -> Option<(&mut Leaf, &mut Load)> {
        let band = self.bands.share(class)?;
        Some((&mut band.leaf, &mut self.total))
    }

    fn became_empty(&mut self, class: u32) {
        self.rounds.deactivate(class, &mut self.bands);
    }

    fn filters(&self) -> Option<&Arc<Block>> {
        Some(&self.block)
    }

    fn no_block(&self) -> Option<&'static str> {
        Some("ETS classid must be zero")
    }

    fn change_class(
        &mut self,
        class: u32,
        _ids: (u32, u32),
        tca: &Table<'_>,
        _create: &Create<'_>,
        _gone: &mut Gone,
    ) -> Result<u32, Error> {
        let number = (class as usize).wrapping_sub(1);
        let Some(band) = self.bands.get_mut(number) else {
            let message = "Fine-grained class addition and removal is not supported";
            return Err(Error::msg(EOPNOTSUPP, message));
        };
        let required = wrong("ETS options are required for this operation");
        let options = tca.get(tca::OPTIONS).ok_or(required)?;
        let quantum = options
            .parse(&QUANTA, Strictness::Strict)?
            .u32(attr::QUANTA_BAND)?;
        if let Some(quantum) = quantum {
            if number < self.strict {
                return Err(wrong("Strict bands do not have a configurable quantum"));
            }
            band.quantum = quantum.clamp(256, 1 << 20);
        }
        Ok(class)
    }

    fn dump_class(&self, class: u32, tcm: &mut TcMsg, w: &mut Writer) {
        let number = class as usize - 1;
        let Some(band) = self.bands.get(number) else {
            return;
        };
        tcm.parent = h::ROOT;
        tcm.handle |= class;
        tcm.info = band.leaf.handle();
        let nest = w.nest_noflag(tca::OPTIONS);
        if number >= self.strict {
            w.put_u32(attr::QUANTA_BAND, band.quantum);
        }
        w.end(nest);
    }

    fn class_stats(&self, class: u32) -> Option<ClassStats> {
        Some(self.leaf(class)?.stats().into())
    }
}
