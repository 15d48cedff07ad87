// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lines of the chart: rates over threads, misses over the size of the map, both over `nr_scans`.

use weir_map::{LruOptions, Policy};

use super::super::{Curve, Row, Series};
use super::{NAMES, Scale, insert_batches, make, miss_of, misses, of, rate};

fn curve(name: String, unit: &'static str, over: &'static str) -> Curve {
    Curve {
        name,
        unit,
        over,
        points: Vec::new(),
    }
}

/// Rates of insertions over threads, from the rows.
pub(super) fn threads(scale: &Scale, rows: &[Row]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for &entries in scale.sizes {
        for (word, lists) in NAMES {
            for &threads in scale.threads {
                let id = format!("{word} {threads} x {entries}");
                let Some(row) = rows.iter().find(|row| row.id == id) else {
                    continue;
                };
                let sides = row
                    .peers
                    .iter()
                    .map(|(name, series)| (name.as_str(), series));
                for (side, series) in [("weir", &row.weir)].into_iter().chain(sides) {
                    let name = format!("insert and evict, {entries} entries, {lists}, {side}");
                    let at = curves.iter().position(|curve| curve.name == name);
                    let at = at.unwrap_or_else(|| {
                        curves.push(curve(name, "M/s", "threads"));
                        curves.len() - 1
                    });
                    curves[at].points.push((threads as f64, series.median()));
                }
            }
        }
    }
    curves
}

/// Misses over the size of the map.
pub(super) fn sizes(scale: &Scale) -> Result<Vec<Curve>, String> {
    let mut curves = Vec::new();
    for exponent in [1.01, 0.9] {
        let trace = misses::zipf(exponent, scale.accesses, 42);
        let mut lines = ["clock", "S3-FIFO", "exact LRU", "optimum"].map(|name| {
            let name = format!("misses, zipf {exponent}, {name}");
            curve(name, "%", "entries")
        });
        for entries in [1_000, 4_000, 10_000, 20_000, 40_000] {
            let optimum = misses::optimum(&trace, entries as usize);
            let figures = [
                miss_of(entries, of(Policy::Clock), &trace)?,
                miss_of(entries, of(Policy::S3Fifo), &trace)?,
                miss_of(entries, of(Policy::Exact), &trace)?,
                100.0 * f64::from(optimum) / trace.len() as f64,
            ];
            for (line, figure) in lines.iter_mut().zip(figures) {
                line.points.push((f64::from(entries), figure));
            }
        }
        curves.extend(lines);
    }
    Ok(curves)
}

/// Rate and misses over `nr_scans`.
pub(super) fn scans(scale: &Scale) -> Result<Vec<Curve>, String> {
    let entries = scale.sizes[scale.sizes.len() - 1];
    let trace = misses::zipf(0.9, scale.accesses, 42);
    let mut rates = curve(
        format!("insert and evict, {entries} entries"),
        "M/s",
        "nr_scans",
    );
    let name = "misses, zipf 0.9, 40000 of 100000 keys";
    let mut missed = curve(name.into(), "%", "nr_scans");
    for &scans in scale.scans {
        let options = LruOptions {
            nr_scans: Some(scans),
            ..LruOptions::default()
        };
        let map = make(entries, options)?;
        for key in 0..entries {
            let _ = map.insert(key, 1);
        }
        let mut runs = Series::default();
        for _ in 0..scale.runs {
            let figure = rate(1, scale.length, |seed, stop| {
                insert_batches(&map, seed, stop)
            });
            runs.0.push(figure);
        }
        rates.points.push((f64::from(scans), runs.median()));
        missed
            .points
            .push((f64::from(scans), miss_of(40_000, options, &trace)?));
    }
    Ok(vec![rates, missed])
}
