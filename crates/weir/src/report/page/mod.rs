// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports as a page: one self-contained HTML file for one run, or for several side by side.
//!
//! The page contains the reports as data and draws them itself. `page.js` draws the figures, the
//! topology of the namespaces and the tables; uPlot (`uplot.min.js`, MIT) plots the counters over
//! time.

use serde_json::Value;

use super::SCHEMA;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const UPLOT: &str = include_str!("uplot.min.js");
const UPLOT_STYLE: &str = include_str!("uplot.min.css");

/// Parses a report. The error gives the problem and its position.
///
/// # Errors
/// The text is no JSON, no report of Weir, or a report of another version of the schema.
pub fn parse(text: &str) -> Result<Value, String> {
    let report: Value =
        serde_json::from_str(text).map_err(|error| format!("line {}: {error}", error.line()))?;
    match report["schema"].as_u64() {
        Some(schema) if schema == u64::from(SCHEMA) => {}
        Some(schema) => {
            return Err(format!(
                "the report has schema version {schema}, but this Weir reads version {SCHEMA}"
            ));
        }
        None => return Err("not a report of `weir run --json` or `weir stat --json`".into()),
    }
    for (field, held) in [
        ("devices", report["devices"].is_array()),
        ("gone", report["gone"].is_array()),
        ("inputs", report["inputs"].is_array()),
        ("now_ns", report["now_ns"].is_u64()),
    ] {
        if !held {
            return Err(format!("the report has no {field}"));
        }
    }
    Ok(report)
}

/// Returns the page of some reports, each with the name of its run.
pub fn html(title: &str, note: &str, reports: Vec<(String, Value)>) -> String {
    let named = |(name, mut report): (String, Value)| {
        report["run"] = name.into();
        report
    };
    let reports: Vec<Value> = reports.into_iter().map(named).collect();
    // `<` begins a tag even in a script's data. JSON allows an escape for it.
    let reports = Value::from(reports).to_string().replace('<', "\\u003c");
    let parts = [
        ("@TITLE@", escape(title)),
        ("@NOTE@", escape(note)),
        ("@STYLE@", format!("{UPLOT_STYLE}{STYLE}")),
        ("@REPORTS@", reports),
        ("@UPLOT@", UPLOT.to_owned()),
        ("@SCRIPT@", SCRIPT.to_owned()),
    ];
    // Inserted text is not searched again, because it may contain such a name itself.
    let mut page = String::new();
    let mut rest = TEMPLATE;
    while let Some((at, name, text)) = parts
        .iter()
        .filter_map(|(name, text)| Some((rest.find(name)?, name, text)))
        .min_by_key(|(at, ..)| *at)
    {
        page.push_str(&rest[..at]);
        page.push_str(text);
        rest = &rest[at + name.len()..];
    }
    page + rest
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Value {
        serde_json::json!({ "schema": SCHEMA, "devices": [], "gone": [], "inputs": [], "now_ns": 1 })
    }

    #[test]
    fn names_are_inserted_as_text() {
        let page = html("<b>&@NOTE@", "", vec![("</script>@STYLE@".into(), empty())]);
        assert!(page.contains("<h1>&lt;b&gt;&amp;@NOTE@</h1>"));
        assert!(page.contains(r#""run":"\u003c/script>@STYLE@""#));
        assert_eq!(page.matches("</script>").count(), 3);
    }

    #[test]
    fn input_that_is_no_report_is_refused() {
        let refused = |text: &str| parse(text).unwrap_err();
        assert!(refused("{\n\n nonsense").starts_with("line 3: "));
        assert!(refused("[1]").contains("not a report"));
        assert!(refused(r#"{"schema": 99}"#).contains("schema version 99"));
        assert!(refused(r#"{"schema": 1}"#).contains("no devices"));
        assert!(parse(&empty().to_string()).is_ok());
    }
}
