// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A report as an SVG chart. Measures are grouped by their unit, in columns. Each side has a bar, a
//! whisker for the spread, a mark for the goal and a word for the verdict, and one colour in the
//! whole chart.

use std::fmt::Write;

use super::{Curve, Report, Row, Series, Stack, Verdict};

/// The width of a column, the gap between columns, and the maximum height of a column, in pixels.
const COLUMN: f64 = 430.0;
const GAP: f64 = 30.0;
const HIGHEST: f64 = 1080.0;
/// The height of heading and key above the columns.
const TOP: f64 = 70.0;
const BAR: f64 = 15.0;
/// The smallest width of the names left of the bars, and the width of the figures right of them.
const NAMES: f64 = 110.0;
const FIGURES: f64 = 64.0;
/// The widths of a character of names, which are 11.5 px high, and of the title, which is 15 px high.
const CHARACTER: f64 = 6.6;
const TITLE_CHARACTER: f64 = 8.6;

/// Colours that colour-blind readers can distinguish (Okabe and Ito); Weir's own first.
const COLOURS: [&str; 8] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8f8a00", "#666666",
];

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Returns the colour of a side. Beyond the palette, colours step around the colour circle.
fn colour(sides: &[String], name: &str) -> String {
    let at = sides.iter().position(|side| side == name).unwrap_or(0);
    let more = at.wrapping_sub(COLOURS.len());
    COLOURS.get(at).map_or_else(
        || format!("hsl({} 60% 30%)", more * 47 % 360),
        |&colour| colour.to_owned(),
    )
}

/// Returns the estimated width of a text.
fn width_of(text: &str, character: f64) -> f64 {
    text.chars().count() as f64 * character
}

/// Returns the width of the names left of the bars, the same in all measures.
fn width_of_names(sides: &[String]) -> f64 {
    let widths = sides.iter().map(|side| width_of(side, CHARACTER) + 6.0);
    widths.fold(NAMES, f64::max)
}

/// Wraps a text into lines.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= most {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// A part of a column, drawn with its upper left corner at 0, 0.
struct Block {
    height: f64,
    body: String,
}

fn heading(unit: &str) -> Block {
    let unit = escape(unit);
    let body = format!(
        r##"<text y="20" font-size="14" font-weight="bold">in {unit}</text><path d="M0 26H{COLUMN}" stroke="#1c1917"/>
"##
    );
    Block { height: 34.0, body }
}

/// Draws the bars of a measure.
fn bars(row: &Row, sides: &[String]) -> Block {
    let mut body = String::new();
    let mut y = 0.0;
    for line in wrapped(&row.measure, 68) {
        y += 14.0;
        let _ = writeln!(body, r##"<text y="{y}">{}</text>"##, escape(&line));
    }
    y += 3.0;
    let of_peers = row
        .peers
        .iter()
        .map(|(name, series)| (name.as_str(), series));
    let all: Vec<(&str, &Series)> = std::iter::once(("weir", &row.weir))
        .chain(of_peers)
        .filter(|(_, series)| !series.0.is_empty())
        .collect();
    let figures = all.iter().map(|(_, series)| series.max());
    let largest = figures.chain(row.goal).fold(f64::MIN_POSITIVE, f64::max);
    let names = width_of_names(sides);
    let scale = (COLUMN - names - FIGURES) / largest;
    let top = y;
    // The figures are drawn last, over the mark of the goal.
    let mut figures = String::new();
    for (name, series) in all {
        let (width, middle) = (series.median() * scale, y + BAR / 2.0);
        let (low, high) = (names + series.min() * scale, names + series.max() * scale);
        let _ = writeln!(
            body,
            r##"<text x="{}" y="{:.1}" text-anchor="end">{}</text><rect x="{names}" y="{:.1}" width="{width:.1}" height="{}" fill="{}"/><path d="M{low:.1} {middle:.1}H{high:.1}" stroke="#1c1917" stroke-width="1.5"/>"##,
            names - 6.0,
            middle + 4.0,
            escape(name),
            y + 1.5,
            BAR - 3.0,
            colour(sides, name),
        );
        let _ = writeln!(
            figures,
            r##"<text x="{:.1}" y="{:.1}" paint-order="stroke" stroke="white" stroke-width="3">{}</text>"##,
            high.max(names + width) + 5.0,
            middle + 4.0,
            figure(series.median()),
        );
        y += BAR;
    }
    if let Some(goal) = row.goal {
        let x = names + goal * scale;
        if y > top {
            let _ = writeln!(
                body,
                r##"<path d="M{x:.1} {top:.1}V{y:.1}" stroke="#1c1917" stroke-width="2" stroke-dasharray="3 2"/>"##
            );
        }
        let verdict = row.verdict();
        y += 13.0;
        let _ = writeln!(
            body,
            r##"<text x="{names}" y="{y:.1}" font-weight="bold" fill="{}">{} goal {} {}</text>"##,
            match verdict {
                Verdict::Held => "#00614a",
                Verdict::Missed => "#a33c00",
                Verdict::NotJudged => "#57534e",
            },
            verdict.sign(),
            figure(goal),
            verdict.word(),
        );
    }
    body.push_str(&figures);
    Block {
        height: y + 10.0,
        body,
    }
}

/// Formats a figure with as many digits as a reader needs.
fn figure(value: f64) -> String {
    match value {
        value if value >= 100.0 || value == value.trunc() => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Draws a curve under its name.
fn line(curve: &Curve) -> Block {
    const HEIGHT: f64 = 100.0;
    const LEFT: f64 = 60.0;
    let most = |of: fn(&(f64, f64)) -> f64| {
        let most = curve.points.iter().map(of).fold(0.0, f64::max);
        most.max(f64::MIN_POSITIVE)
    };
    let (right, top) = (most(|point| point.0), most(|point| point.1));
    let (high, bottom) = (24.0, 24.0 + HEIGHT);
    let x = |value: f64| LEFT + value / right * (COLUMN - LEFT - 10.0);
    let points: Vec<String> = curve
        .points
        .iter()
        .map(|&(over, value)| format!("{:.1},{:.1}", x(over), bottom - value / top * HEIGHT))
        .collect();
    let body = format!(
        r##"<text y="14">{}</text><path d="M{LEFT} {high}V{bottom}H{}" fill="none" stroke="#1c1917"/>
<polyline points="{}" fill="none" stroke="{}" stroke-width="2"/>
<text x="{}" y="{}" text-anchor="end">{}</text><text x="{}" y="{bottom}" text-anchor="end">0</text>
<text x="{}" y="{}" text-anchor="end">{} {}</text>
"##,
        escape(&curve.name),
        COLUMN - 10.0,
        points.join(" "),
        COLOURS[0],
        LEFT - 6.0,
        high + 8.0,
        figure(top),
        LEFT - 6.0,
        COLUMN - 10.0,
        bottom + 15.0,
        figure(right),
        escape(curve.over),
    );
    Block {
        height: bottom + 26.0,
        body,
    }
}

/// Draws stacked bars under their name, with a key of the parts.
fn stacked(stack: &Stack) -> Block {
    let mut parts: Vec<&String> = Vec::new();
    for (name, _) in stack.bars.iter().flat_map(|(_, parts)| parts) {
        if !parts.contains(&name) {
            parts.push(name);
        }
    }
    let colours: Vec<String> = parts.iter().map(|part| (*part).clone()).collect();
    let sum = |parts: &[(String, f64)]| parts.iter().map(|(_, figure)| figure).sum::<f64>();
    let sums = stack.bars.iter().map(|(_, parts)| sum(parts));
    let scale = (COLUMN - NAMES - FIGURES) / sums.fold(f64::MIN_POSITIVE, f64::max);
    let mut body = format!(r##"<text y="14">{}</text>"##, escape(&stack.name));
    let (mut x, mut y) = (0.0, 20.0);
    for part in &parts {
        let width = 20.0 + width_of(part, CHARACTER);
        if x + width > COLUMN {
            (x, y) = (0.0, y + 15.0);
        }
        let _ = write!(
            body,
            r##"<rect x="{x:.1}" y="{y}" width="10" height="10" fill="{}"/><text x="{:.1}" y="{}">{}</text>"##,
            colour(&colours, part),
            x + 14.0,
            y + 9.0,
            escape(part)
        );
        x += width;
    }
    y += 20.0;
    for (name, of_bar) in &stack.bars {
        let mut x = NAMES;
        let _ = write!(
            body,
            r##"<text x="{}" y="{}" text-anchor="end">{}</text>"##,
            NAMES - 6.0,
            y + 11.0,
            escape(name)
        );
        for (part, figure) in of_bar {
            let width = figure * scale;
            let _ = write!(
                body,
                r##"<rect x="{x:.1}" y="{}" width="{width:.1}" height="{}" fill="{}"/>"##,
                y + 1.5,
                BAR - 3.0,
                colour(&colours, part)
            );
            x += width;
        }
        let _ = writeln!(
            body,
            r##"<text x="{:.1}" y="{}">{}</text>"##,
            x + 5.0,
            y + 11.0,
            figure(sum(of_bar))
        );
        y += BAR;
    }
    Block {
        height: y + 12.0,
        body,
    }
}

/// Stacks blocks into as many columns as they need. Returns the columns, their width and the height
/// of the highest.
fn columns(groups: Vec<(String, Vec<Block>)>) -> (String, f64, f64) {
    let (mut body, mut x, mut y, mut highest) = (String::new(), 0.0, 0.0, 0.0_f64);
    let mut place = |block: &Block, x: f64, y: f64| {
        let _ = writeln!(
            body,
            r##"<g transform="translate({:.1} {:.1})">{}</g>"##,
            GAP + x * (COLUMN + GAP),
            TOP + y,
            block.body
        );
    };
    for (unit, blocks) in groups {
        let mut headed = false;
        for block in &blocks {
            let head = heading(&unit);
            let needed = block.height + if headed { 0.0 } else { head.height };
            if y > 0.0 && y + needed > HIGHEST {
                (x, y, headed) = (x + 1.0, 0.0, false);
            }
            if !headed {
                place(&head, x, y);
                y += head.height;
                headed = true;
            }
            place(block, x, y);
            y += block.height;
            highest = highest.max(y);
        }
    }
    (body, GAP + (x + 1.0) * (COLUMN + GAP), highest)
}

/// Draws the report.
pub fn svg(report: &Report) -> String {
    let mut sides = vec!["weir".to_owned()];
    let mut groups: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in &report.rows {
        for name in row.peers.keys() {
            if !sides.contains(name) {
                sides.push(name.clone());
            }
        }
        match groups.iter_mut().find(|(unit, _)| unit == row.unit) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((row.unit.to_owned(), vec![row])),
        }
    }
    let mut groups: Vec<(String, Vec<Block>)> = groups
        .into_iter()
        .map(|(unit, rows)| (unit, rows.iter().map(|row| bars(row, &sides)).collect()))
        .collect();
    for curve in &report.curves {
        match groups.iter_mut().find(|(unit, _)| unit == curve.unit) {
            Some((_, blocks)) => blocks.push(line(curve)),
            None => groups.push((curve.unit.to_owned(), vec![line(curve)])),
        }
    }
    for stack in &report.stacks {
        match groups.iter_mut().find(|(unit, _)| unit == stack.unit) {
            Some((_, blocks)) => blocks.push(stacked(stack)),
            None => groups.push((stack.unit.to_owned(), vec![stacked(stack)])),
        }
    }
    let (body, width, height) = columns(groups);
    let mut key = String::new();
    let mut x = GAP;
    for side in &sides {
        let _ = write!(
            key,
            r##"<rect x="{x:.1}" y="38" width="12" height="12" fill="{}"/><text x="{:.1}" y="49">{}</text>"##,
            colour(&sides, side),
            x + 17.0,
            escape(side)
        );
        x += 34.0 + width_of(side, CHARACTER);
    }
    let title = format!(
        "weir bench {} on {}: medians, with the smallest and the largest run",
        report.bench,
        super::result::machine()
    );
    let width = width
        .max(x)
        .max(2.0 * GAP + width_of(&title, TITLE_CHARACTER));
    let height = height + TOP + 10.0;
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}" font-family="sans-serif" font-size="11.5">
<rect width="100%" height="100%" fill="white"/>
<text x="{GAP}" y="26" font-size="15">{}</text>
{key}
{body}</svg>
"##,
        escape(&title),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn report(rows: usize) -> Report {
        let row = |i: usize| Row {
            id: format!("r{i}"),
            measure: format!("measure <{i}> {}", "of many words ".repeat(i % 9)),
            unit: ["ns", "M/s", "times"][i % 3],
            higher_is_better: i % 3 == 1,
            weir: Series(vec![1.0 + i as f64, 2.0 + i as f64]),
            peers: BTreeMap::from([(format!("peer {}", i % 11), Series(vec![3.0]))]),
            goal: i.is_multiple_of(2).then_some(4.0),
            note: String::new(),
        };
        Report {
            bench: "all",
            rows: (0..rows).map(row).collect(),
            curves: vec![Curve {
                name: "memory".into(),
                unit: "MB",
                over: "rules",
                points: vec![(0.0, 0.0), (10.0, 5.0)],
            }],
            stacks: vec![Stack {
                name: "parts".into(),
                unit: "ns",
                bars: vec![(
                    "1".into(),
                    vec![("a <part>".into(), 2.0), ("b".into(), 3.0)],
                )],
            }],
            detail: String::new(),
        }
    }

    fn number(svg: &str, name: &str) -> f64 {
        let rest = svg.split_once(&format!("{name}=\"")).unwrap().1;
        rest.split_once('"').unwrap().0.parse().unwrap()
    }

    #[test]
    fn a_chart_is_never_higher_than_a_screen() {
        for rows in [0, 1, 10, 300] {
            let svg = svg(&report(rows));
            assert!(number(&svg, "height") <= 1200.0, "{rows} rows");
            assert!(number(&svg, "width") >= 400.0, "{rows} rows");
        }
    }

    #[test]
    fn names_and_title_are_inside_the_chart() {
        let mut one = report(1);
        let side = "a peer with a very long name";
        one.curves.clear();
        one.rows[0].peers = BTreeMap::from([(side.to_owned(), Series(vec![3.0]))]);
        let svg = svg(&one);
        let (before, _) = svg
            .split_once(&format!(r#"text-anchor="end">{side}<"#))
            .unwrap();
        let label = &before[before.rfind("<text").unwrap()..];
        assert!(number(label, "x") >= side.len() as f64 * CHARACTER, "{svg}");
        let (_, title) = svg.split_once(r#"font-size="15">"#).unwrap();
        let (title, _) = title.split_once('<').unwrap();
        assert!(title.ends_with("largest run"), "{title}");
        assert!(
            number(&svg, "width") >= GAP + title.len() as f64 * 8.0,
            "{svg}"
        );
    }

    #[test]
    fn figures_are_drawn_over_the_mark_of_a_goal() {
        let svg = svg(&report(1));
        let mark = svg.find("stroke-dasharray").unwrap();
        let figure = svg.find(r#"paint-order="stroke""#).unwrap();
        assert!(mark < figure, "{svg}");
    }

    #[test]
    fn stacked_bars_have_a_key_and_a_sum() {
        let svg = svg(&report(0));
        assert!(
            svg.contains(">a &lt;part&gt;<") && svg.contains(">5<"),
            "{svg}"
        );
    }

    #[test]
    fn no_two_sides_share_a_colour() {
        let sides: Vec<String> = (0..16).map(|i| format!("side {i}")).collect();
        let mut colours: Vec<String> = sides.iter().map(|side| colour(&sides, side)).collect();
        colours.sort();
        colours.dedup();
        assert_eq!(colours.len(), sides.len());
    }

    #[test]
    fn units_are_grouped_and_goals_are_judged() {
        let svg = svg(&report(9));
        assert_eq!(svg.matches(">in ns<").count(), 1);
        // For a goal of at most 4 ns, row 0 has a median of 1.5 ns and row 6 one of 7.5 ns.
        assert!(svg.contains("✓ goal 4 held") && svg.contains("✗ goal 4 missed"));
        assert!(svg.contains("measure &lt;0&gt;"));
    }
}
