// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP segments through a router of two namespaces, with and without merging on receive (GRO).
//!
//! The segments of a flow arrive in batches of 64. With GRO, each batch travels on as the two packets that
//! `gro_max_size` allows, and leaves by a device that takes such packets. The cost of GRO, with the check of every
//! checksum, is part of the figure.

use std::collections::BTreeMap;

use super::bed::{self, Bed, Path};
use super::{FULL, Row, Series};

/// The payload of a segment in bytes, and its frame in bits.
const PAYLOAD: usize = 1448;
const BITS: f64 = (8 * (14 + 20 + 20 + PAYLOAD)) as f64;
/// The number of flows, each with a batch of segments.
const FLOWS: u32 = 16;

/// Measures the throughput of the frames that arrive, in Gbit/s.
pub fn gro(runs: usize, packets: usize) -> Result<Row, String> {
    let frames = bed::segments(FLOWS, FULL as u32, PAYLOAD);
    let mut bed = Bed::new(Path::Forward, &frames)?;
    let mut speed = [Series::default(), Series::default()];
    for run in 0..=runs {
        for (merges, speed) in [false, true].into_iter().zip(&mut speed) {
            bed.merge(merges);
            let before = bed.ended();
            let ns = bed.play(packets, FULL);
            let (sent, most) = (bed.ended() - before, packets as u64 / 16);
            if merges && sent > most || !merges && sent < packets as u64 {
                return Err(format!("{packets} segments left as {sent} packets"));
            }
            // The first run warms up.
            if run > 0 {
                speed.0.push(BITS / ns);
            }
        }
    }
    let [without, with] = speed;
    Ok(Row {
        id: "gro".into(),
        measure: "TCP segments of 1,448 bytes over two hops of IPv4 forwarding, merged on receive"
            .into(),
        unit: "Gbit/s",
        higher_is_better: true,
        weir: with,
        peers: BTreeMap::from([("the same without GRO".into(), without)]),
        goal: None,
        note: String::new(),
    })
}
