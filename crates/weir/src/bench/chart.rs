// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A report as an SVG bar chart: a group a measure, a bar a side, a whisker for the spread, a line for
//! the goal.

use std::fmt::Write;

use super::{Curve, Report, Series};

const WIDTH: f64 = 720.0;
const BAR: f64 = 22.0;
const LEFT: f64 = 140.0;
const COLOURS: [&str; 4] = ["#2563a8", "#a8a29e", "#c2703d", "#5d8a5a"];

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Draws a line of points under its name; the height it took.
fn line(body: &mut String, curve: &Curve, y: f64) -> f64 {
    const HEIGHT: f64 = 140.0;
    let most = |of: fn(&(f64, f64)) -> f64| {
        let most = curve.points.iter().map(of).fold(0.0, f64::max);
        most.max(f64::MIN_POSITIVE)
    };
    let (right, top) = (most(|point| point.0), most(|point| point.1));
    let x = |value: f64| LEFT + value / right * (WIDTH - LEFT - 40.0);
    let bottom = y + 14.0 + HEIGHT;
    let place = |value: f64| bottom - value / top * HEIGHT;
    let (name, unit) = (escape(&curve.name), escape(curve.unit));
    let _ = writeln!(
        body,
        r##"<text x="12" y="{y}" font-weight="bold">{name} ({unit})</text>"##
    );
    let points: Vec<String> = curve
        .points
        .iter()
        .map(|&(over, value)| format!("{:.1},{:.1}", x(over), place(value)))
        .collect();
    let _ = writeln!(
        body,
        r##"<path d="M{LEFT} {}V{bottom}H{}" fill="none" stroke="#1c1917"/>
<polyline points="{}" fill="none" stroke="{}" stroke-width="2"/>"##,
        y + 14.0,
        WIDTH - 40.0,
        points.join(" "),
        COLOURS[0]
    );
    for (value, at) in [(top, y + 18.0), (0.0, bottom)] {
        let _ = writeln!(
            body,
            r##"<text x="{}" y="{at}" text-anchor="end">{value:.1}</text>"##,
            LEFT - 8.0
        );
    }
    let _ = writeln!(
        body,
        r##"<text x="{}" y="{}" text-anchor="end">{right:.0} {}</text>"##,
        WIDTH - 40.0,
        bottom + 14.0,
        escape(curve.over)
    );
    HEIGHT + 60.0
}

/// Draws the report.
pub fn svg(report: &Report) -> String {
    let mut body = String::new();
    let mut y = 50.0;
    for row in &report.rows {
        let sides: Vec<(&str, &Series)> = std::iter::once(("weir", &row.weir))
            .chain(
                row.peers
                    .iter()
                    .map(|(name, series)| (name.as_str(), series)),
            )
            .collect();
        let largest = sides
            .iter()
            .map(|(_, series)| series.max())
            .chain(row.goal)
            .fold(0.0, f64::max)
            .max(f64::MIN_POSITIVE);
        let scale = (WIDTH - LEFT - 110.0) / largest;
        let _ = writeln!(
            body,
            r##"<text x="12" y="{y}" font-weight="bold">{} ({})</text>"##,
            escape(&row.measure),
            escape(row.unit)
        );
        y += 10.0;
        let top = y;
        for (number, (name, series)) in sides.iter().enumerate() {
            let (width, middle) = (series.median() * scale, y + BAR / 2.0);
            let colour = COLOURS[number % COLOURS.len()];
            let _ = writeln!(
                body,
                r##"<text x="{}" y="{}" text-anchor="end">{}</text>"##,
                LEFT - 8.0,
                middle + 4.0,
                escape(name)
            );
            let _ = writeln!(
                body,
                r##"<rect x="{LEFT}" y="{}" width="{width:.1}" height="{}" fill="{colour}"/>"##,
                y + 2.0,
                BAR - 4.0
            );
            let (low, high) = (LEFT + series.min() * scale, LEFT + series.max() * scale);
            let _ = writeln!(
                body,
                r##"<path d="M{low:.1} {middle}H{high:.1}" stroke="#1c1917" stroke-width="1.5"/>"##
            );
            let _ = writeln!(
                body,
                r##"<text x="{:.1}" y="{}">{:.1}</text>"##,
                high + 6.0,
                middle + 4.0,
                series.median()
            );
            y += BAR;
        }
        if let Some(goal) = row.goal {
            let x = LEFT + goal * scale;
            let _ = writeln!(
                body,
                r##"<path d="M{x:.1} {top}V{y}" stroke="#b91c1c" stroke-dasharray="4 3"/>"##
            );
            let _ = writeln!(
                body,
                r##"<text x="{x:.1}" y="{}" text-anchor="middle" fill="#b91c1c">goal {goal}</text>"##,
                y + 13.0
            );
            y += 16.0;
        }
        y += 30.0;
    }
    for curve in &report.curves {
        y += line(&mut body, curve, y);
    }
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>
<text x="12" y="24" font-size="15">weir bench {} on {}</text>
{body}</svg>
"##,
        escape(report.bench),
        escape(&super::result::machine()),
    )
}
