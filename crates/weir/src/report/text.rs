// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report as text.

use std::fmt::Write;

use super::{FileReport, Report};

/// Rows with aligned columns: the first `left` columns to the left, the others to the right.
fn table(head: &[&str], left: usize, rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let _ = if column < left {
                write!(line, "{cell:<width$}  ")
            } else {
                write!(line, "{cell:>width$}  ")
            };
        }
        text.push_str("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn files(title: &str, files: &[FileReport]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = files
        .iter()
        .map(|f| {
            vec![
                f.device.clone(),
                f.file.clone(),
                f.frames.to_string(),
                f.octets.to_string(),
                f.lost.to_string(),
            ]
        })
        .collect();
    format!(
        "{title}\n{}\n",
        table(&["device", "file", "frames", "octets", "lost"], 2, &rows)
    )
}

impl Report {
    /// The report as text: the same on every machine for the same run.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "Time {}.{:09} s\n\n",
            self.now / 1_000_000_000,
            self.now % 1_000_000_000
        );
        text.push_str(&files("In", &self.inputs));
        text.push_str(&files("Out", &self.outputs));
        let rows: Vec<_> = self
            .devices
            .iter()
            .map(|d| {
                let t = &d.totals;
                let numbers =
                    [t.rx_packets, t.rx_bytes, t.tx_packets, t.tx_bytes].map(|n| n.to_string());
                let mut row = vec![d.name.clone(), d.kind.clone()];
                row.extend(numbers);
                row.push(d.drops.iter().map(|(_, _, n)| n).sum::<u64>().to_string());
                row
            })
            .collect();
        let head = [
            "device",
            "kind",
            "rx packets",
            "rx octets",
            "tx packets",
            "tx octets",
            "dropped",
        ];
        let _ = writeln!(text, "Devices\n{}", table(&head, 2, &rows));
        let rows: Vec<_> = self
            .devices
            .iter()
            .flat_map(|d| {
                d.qdiscs
                    .iter()
                    .filter(|q| q.handle != 0)
                    .map(|q| super::tc::qdisc_row(&d.name, q))
            })
            .collect();
        if !rows.is_empty() {
            let head = [
                "device",
                "qdisc",
                "handle",
                "packets",
                "octets",
                "drops",
                "overlimits",
                "waiting",
            ];
            let _ = writeln!(text, "Qdiscs\n{}", table(&head, 3, &rows));
        }
        let rows: Vec<_> = self
            .devices
            .iter()
            .flat_map(|d| {
                d.filters
                    .iter()
                    .flat_map(|f| super::tc::filter_rows(&d.name, f))
            })
            .collect();
        if !rows.is_empty() {
            let head = ["device", "filter", "action", "packets", "octets", "drops"];
            let _ = writeln!(text, "Filters and actions\n{}", table(&head, 3, &rows));
        }
        let mut rows = Vec::new();
        for device in &self.devices {
            for (place, reason, packets) in &device.drops {
                rows.push(vec![
                    device.name.clone(),
                    (*place).to_owned(),
                    (*reason).to_owned(),
                    packets.to_string(),
                ]);
            }
        }
        for (place, reason, packets) in &self.gone {
            let row = ["(gone)", place, reason].map(str::to_owned);
            rows.push(row.into_iter().chain([packets.to_string()]).collect());
        }
        if !rows.is_empty() {
            let _ = writeln!(
                text,
                "Drops\n{}",
                table(&["device", "place", "reason", "packets"], 3, &rows)
            );
        }
        text
    }
}
