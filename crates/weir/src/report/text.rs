// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report as text. The same run gives the same text on every machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use weir_packet::DropClass;

use super::tc::{self, TreeRow};
use super::units::{self, Style, bit_rate, count, packet_rate, share};
use super::{DeviceReport, Drop, FileReport, Report};

/// A cell: its text, and whether it reports a fault.
#[derive(Clone)]
struct Cell {
    text: String,
    fault: bool,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, fault: false }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// Formats a count that should be 0.
fn bad(number: u64) -> Cell {
    Cell {
        text: count(number),
        fault: number > 0,
    }
}

/// Aligns rows in columns: the first `left` columns to the left, the others to the right.
fn table(style: Style, head: &[&str], left: usize, rows: &[Vec<Cell>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].text.chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[Cell]| {
        let mut line = String::from("  ");
        for (column, cell) in cells.iter().enumerate() {
            let gap = " ".repeat(widths[column].saturating_sub(cell.text.chars().count()));
            let shown = match cell.fault {
                true => style.fault(&cell.text),
                false => cell.text.clone(),
            };
            let (before, after) = match column < left {
                true => ("", &gap[..]),
                false => (&gap[..], ""),
            };
            let _ = write!(line, "{before}{shown}{after}  ");
        }
        line.trim_end().to_owned()
    };
    let head: Vec<Cell> = head.iter().map(|cell| (*cell).into()).collect();
    let mut text = style.faint(&line(&head)) + "\n";
    for row in rows {
        text.push_str(&line(row));
        text.push('\n');
    }
    text
}

/// Returns a file's name, or the beginning of a generator's long specification.
fn shortened(name: &str) -> String {
    const LONGEST: usize = 48;
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) if name.contains('=') => format!("{}...", &name[..end]),
        _ => name.to_owned(),
    }
}

/// Formats the number of hidden idle rows as a line.
fn folded(style: Style, number: usize, (one, many): (&str, &str)) -> String {
    let what = match number {
        0 => return String::new(),
        1 => one,
        _ => many,
    };
    style.faint(&format!("  and {number} {what} without traffic")) + "\n"
}

impl DeviceReport {
    fn is_idle(&self) -> bool {
        let t = &self.totals;
        t.rx_packets + t.tx_packets == 0 && self.drops.is_empty()
    }

    fn dropped(&self, class: DropClass) -> u64 {
        let of_class = self.drops.iter().filter(|d| d.reason.class() == class);
        of_class.map(|drop| drop.packets).sum()
    }
}

impl Report {
    /// Returns the report as text.
    pub fn to_text(&self, style: Style) -> String {
        let mut text = self.headline(style);
        for section in [
            self.files(style, "In", &self.inputs),
            self.files(style, "Out", &self.outputs),
            self.devices(style),
            self.qdiscs(style),
            self.filters(style),
            self.drops(style, "Drops", DropClass::Fault),
            self.drops(style, "Dropped by a rule", DropClass::Rule),
            self.drops(style, "Not for this host (no fault)", DropClass::NotForUs),
        ] {
            if !section.is_empty() {
                text.push('\n');
                text.push_str(&section);
            }
        }
        text
    }

    fn headline(&self, style: Style) -> String {
        let seconds = |ns: u64| format!("{}.{:01} s", ns / 1_000_000_000, ns / 100_000_000 % 10);
        let mut text = format!(
            "Time {}.{:09} s",
            self.now / 1_000_000_000,
            self.now % 1_000_000_000
        );
        if self.virtual_time {
            let _ = write!(text, ", seed {}", self.seed);
        }
        if let Some((from, to)) = self.traffic {
            let _ = write!(text, "; traffic from {} to {}", seconds(from), seconds(to));
        }
        text = style.heading(&text) + "\n";
        if self.partial {
            text += &style.fault("Interrupted: these are the results so far.");
            text.push('\n');
        }
        text
    }

    fn files(&self, style: Style, title: &str, files: &[FileReport]) -> String {
        if files.is_empty() {
            return String::new();
        }
        let over = self.traffic_time();
        let row = |f: &FileReport| {
            vec![
                f.device.as_str().into(),
                shortened(&f.file).into(),
                count(f.frames).into(),
                count(f.octets).into(),
                packet_rate(f.frames, over).into(),
                bit_rate(f.octets, over).into(),
                bad(f.lost),
            ]
        };
        let rows: Vec<_> = files.iter().map(row).collect();
        let head = ["device", "file", "frames", "bytes", "rate", "", "lost"];
        style.heading(title) + "\n" + &table(style, &head, 2, &rows)
    }

    fn devices(&self, style: Style) -> String {
        let over = self.traffic_time();
        let shown = |device: &&DeviceReport| style.all || !device.is_idle();
        let row = |d: &DeviceReport| {
            let t = &d.totals;
            vec![
                d.name.as_str().into(),
                d.kind.as_str().into(),
                count(t.rx_packets).into(),
                count(t.rx_bytes).into(),
                bit_rate(t.rx_bytes, over).into(),
                count(t.tx_packets).into(),
                count(t.tx_bytes).into(),
                bit_rate(t.tx_bytes, over).into(),
                bad(d.dropped(DropClass::Fault)),
                count(d.dropped(DropClass::Rule) + d.dropped(DropClass::NotForUs)).into(),
            ]
        };
        let rows: Vec<Vec<Cell>> = self.devices.iter().filter(shown).map(row).collect();
        let head = [
            "device",
            "kind",
            "rx packets",
            "rx bytes",
            "rx rate",
            "tx packets",
            "tx bytes",
            "tx rate",
            "drops",
            "by rule, not for host",
        ];
        let hidden = self.devices.len() - rows.len();
        let mut text = style.heading("Devices") + "\n";
        if !rows.is_empty() {
            text += &table(style, &head, 2, &rows);
        }
        text + &folded(style, hidden, ("device", "devices"))
    }

    fn qdiscs(&self, style: Style) -> String {
        let over = self.traffic_time();
        let mut hidden = 0;
        let mut rows = Vec::new();
        for device in &self.devices {
            let tree = tc::tree(device);
            let busy: Vec<bool> = tree.iter().map(|row| !row.is_idle()).collect();
            for (at, row) in tree.iter().enumerate() {
                // The ancestors of a busy row are shown too, so that the tree has no gaps.
                let below = tree[at + 1..].iter().zip(&busy[at + 1..]);
                let mut below = below.take_while(|(other, _)| other.depth > row.depth);
                if !(style.all || busy[at] || below.any(|(_, busy)| *busy)) {
                    hidden += 1;
                    continue;
                }
                rows.push(qdisc_row(device, row, over));
            }
        }
        if rows.is_empty() && hidden == 0 {
            return String::new();
        }
        let head = [
            "device",
            "qdisc, class",
            "packets",
            "bytes",
            "rate",
            "drops",
            "loss",
            "overlimits",
            "waiting",
            "sojourn p50",
            "p95",
            "p99",
        ];
        let mut text = style.heading("Qdiscs and classes") + "\n";
        if !rows.is_empty() {
            text += &table(style, &head, 2, &rows);
        }
        text + &folded(style, hidden, ("qdisc or class", "qdiscs and classes"))
    }

    fn filters(&self, style: Style) -> String {
        let (mut hidden, mut rows) = (0, Vec::new());
        let mut seen: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for device in &self.devices {
            let seen = seen.entry(device.namespace).or_default();
            for filter in &device.filters {
                for row in tc::filter_rows(filter, seen) {
                    if !style.all && row.is_idle {
                        hidden += 1;
                        continue;
                    }
                    let mut cells: Vec<Cell> = vec![
                        device.name.as_str().into(),
                        row.filter.into(),
                        row.action.into(),
                    ];
                    match row.numbers {
                        Some(numbers) => cells.extend(numbers.map(|n| Cell::from(count(n)))),
                        None => cells.extend([const { "" }; 3].map(Cell::from)),
                    }
                    rows.push(cells);
                }
            }
        }
        if rows.is_empty() && hidden == 0 {
            return String::new();
        }
        let head = ["device", "filter", "action", "packets", "bytes", "drops"];
        let mut text = style.heading("Filters and actions") + "\n";
        if !rows.is_empty() {
            text += &table(style, &head, 3, &rows);
        }
        text + &folded(style, hidden, ("action", "actions"))
    }

    fn drops(&self, style: Style, title: &str, class: DropClass) -> String {
        let mut rows = Vec::new();
        let mut add = |device: &str, drops: &[Drop]| {
            for drop in drops.iter().filter(|drop| drop.reason.class() == class) {
                let packets = match class {
                    DropClass::Fault => bad(drop.packets),
                    _ => count(drop.packets).into(),
                };
                rows.push(vec![
                    device.into(),
                    drop.place.name().into(),
                    drop.reason.name().into(),
                    drop.reason.sentence().into(),
                    packets,
                ]);
            }
        };
        for device in &self.devices {
            add(&device.name, &device.drops);
        }
        add("(gone)", &self.gone);
        if rows.is_empty() {
            return String::new();
        }
        let title = format!("{title}: {} packets", count(self.dropped(class)));
        let head = ["device", "place", "reason", "why", "packets"];
        style.heading(&title) + "\n" + &table(style, &head, 4, &rows)
    }
}

fn qdisc_row(device: &DeviceReport, row: &TreeRow, over: std::time::Duration) -> Vec<Cell> {
    let sent = |text: fn(u64) -> String, of: fn((u64, u64)) -> u64| -> Cell {
        row.sent.map_or("".into(), |sent| text(of(sent)).into())
    };
    let drops = u64::from(row.queue.drops);
    let time = |of: fn(&super::Quantiles) -> u64| -> Cell {
        let waits = row.waits.as_ref();
        waits.map_or("".into(), |waits| units::time(of(waits)).into())
    };
    vec![
        match row.depth {
            0 => device.name.as_str().into(),
            _ => "".into(),
        },
        format!("{}{}", "  ".repeat(row.depth), row.name).into(),
        sent(count, |(_, packets)| packets),
        sent(count, |(octets, _)| octets),
        row.sent
            .map_or("".into(), |(octets, _)| bit_rate(octets, over).into()),
        bad(drops),
        share(drops, row.offered).into(),
        count(row.queue.overlimits.into()).into(),
        count(row.queue.qlen.into()).into(),
        time(|waits| waits.p50),
        time(|waits| waits.p95),
        time(|waits| waits.p99),
    ]
}
