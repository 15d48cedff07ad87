// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir stat rcu`: callbacks that wait, the threads that run them, grace periods, slow readers.

use std::fmt::Write;

use serde_json::{Value, json};
use weir_sync::rcu::{Domain, Report, SlowReader};

use super::units::count;

/// Returns the state of a domain as JSON and as text.
pub fn stat(domain: &Domain) -> Value {
    let report = domain.report();
    json!({ "data": to_json(&report), "text": to_text(&report) })
}

/// Age in ns.
fn reader(reader: &SlowReader) -> Value {
    json!({
        "reader": reader.name,
        "thread": reader.thread,
        "place": reader.place,
        "age_ns": reader.age.as_nanos() as u64,
    })
}

fn to_json(report: &Report) -> Value {
    let cpus = report.cpus.iter().map(|cpu| {
        json!({
            "cpu": cpu.cpu,
            "offloaded": cpu.offloaded,
            "deferred": cpu.deferred,
            "run": cpu.run,
            "waiting": cpu.waiting(),
            "bytes": cpu.bytes,
            "past_bound": cpu.past_bound,
        })
    });
    let ran = report.runners.iter();
    let ran = ran.map(|(runner, ran)| json!({ "runner": runner.to_string(), "callbacks": ran }));
    let stats = &report.stats;
    json!({
        "mode": report.mode.to_string(),
        "waiting": stats.waiting(),
        "bytes": stats.bytes,
        "deferred": stats.deferred,
        "run": stats.run,
        "past_bound": stats.helped,
        "grace_periods": stats.grace_periods,
        "expedited": stats.expedited,
        "stalls": stats.stalls,
        "readers": stats.readers,
        "guards": stats.guards,
        "cpus": cpus.collect::<Vec<_>>(),
        "runners": ran.collect::<Vec<_>>(),
        "oldest_reader": report.oldest.as_ref().map(reader),
        "slowest_reader": report.slowest.as_ref().map(reader),
    })
}

fn to_text(report: &Report) -> String {
    let mut text = String::new();
    let stats = &report.stats;
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "callbacks {}: {} waiting ({} bytes), {} deferred, {} run",
        report.mode,
        count(stats.waiting()),
        count(stats.bytes),
        count(stats.deferred),
        count(stats.run),
    );
    let _ = writeln!(
        text,
        "grace periods: {} completed, {} expedited; {} stalls",
        count(stats.grace_periods),
        count(stats.expedited),
        count(stats.stalls),
    );
    let _ = writeln!(text, "readers: {}, {} guards", stats.readers, stats.guards);
    for (title, slow) in [("oldest", &report.oldest), ("slowest", &report.slowest)] {
        if let Some(slow) = slow {
            let _ = writeln!(text, "  {title}: {slow}");
        }
    }
    if !report.cpus.is_empty() {
        let _ = writeln!(
            text,
            "{:<16} {:<9} {:>12} {:>10} {:>12} {:>10}",
            "deferred by", "run", "deferred", "waiting", "bytes", "past bound"
        );
    }
    for cpu in &report.cpus {
        let name = cpu
            .cpu
            .map_or("control threads".into(), |cpu| format!("cpu {cpu}"));
        let _ = writeln!(
            text,
            "{name:<16} {:<9} {:>12} {:>10} {:>12} {:>10}",
            if cpu.offloaded {
                "offloaded"
            } else {
                "in place"
            },
            count(cpu.deferred),
            count(cpu.waiting()),
            count(cpu.bytes),
            count(cpu.past_bound),
        );
    }
    for (runner, ran) in &report.runners {
        let _ = writeln!(text, "run by {runner}: {}", count(*ran));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sync::rcu::Config;

    #[test]
    fn waiting_callbacks_and_the_reader_in_their_way_are_shown() {
        let domain = Domain::new(Config::default());
        let reader = domain.named_reader("cpu 7");
        let guard = reader.pin();
        domain.defer_bytes(1000, || ());
        domain.poll();
        let answer = stat(&domain);
        let text = answer["text"].as_str().unwrap();
        assert!(
            text.starts_with("callbacks in-place: 1 waiting (1,032 bytes), 1 deferred, 0 run\n"),
            "{text}"
        );
        assert!(text.contains("  oldest: cpu 7 (thread "), "{text}");
        assert!(text.contains("report/rcu.rs:"), "{text}");
        assert!(text.contains("control threads  in place"), "{text}");
        drop(guard);
        domain.set_mode(&"offload-all".parse().unwrap()).unwrap();
        domain.barrier();
        let data = &stat(&domain)["data"];
        assert_eq!(
            (&data["waiting"], &data["bytes"], &data["run"]),
            (&json!(0), &json!(0), &json!(1))
        );
        assert_eq!(data["runners"][0]["runner"], "weir-rcu");
        assert_eq!(
            (&data["mode"], &data["oldest_reader"]),
            (&json!("offload-all"), &Value::Null)
        );
    }
}
