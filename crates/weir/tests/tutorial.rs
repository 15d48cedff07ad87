// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands of docs/tutorial.md run in order in one shell, and print what the page says.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;
#[path = "common/page.rs"]
mod page;

use std::process::Stdio;

const TUTORIAL: &str = include_str!("../../../docs/tutorial.md");

/// Runs the steps in one shell. Returns the output, errors included, and the status of each.
fn run(user: common::User, steps: &[page::Step]) -> Vec<(String, i32)> {
    let mut script = String::from("exec 2>&1\n");
    for step in steps {
        // The build has happened before: its result is the program under test.
        let built = "cargo build --release --bin weir\n";
        script += &step.commands.replace(built, "");
        script += "printf '\\001%d\\001' $?\n";
    }
    let checkout = page::checkout();
    let mut command = common::command(user, "timeout");
    command.current_dir(&checkout.0).stderr(Stdio::null());
    let output = common::output(command.args(["240", "bash", "-c", &script]));
    let printed = common::text(&output.stdout);
    let parts: Vec<&str> = printed.split('\u{1}').collect();
    let steps = parts.chunks_exact(2);
    steps
        .map(|step| (step[0].to_owned(), step[1].parse().unwrap()))
        .collect()
}

#[test]
fn tutorial() {
    if !common::has("tc", "iproute2")
        || !common::has("sysctl", "procps")
        || !common::has("tcpdump", "tcpdump")
        || !common::has("ping", "iputils-ping")
        || !common::has("curl", "curl")
        || !common::has("python3", "python3")
    {
        return;
    }
    let steps = page::steps(TUTORIAL);
    assert!(steps.len() >= 12 && steps.iter().any(|step| step.commands.contains("weir up")));
    for &user in common::users() {
        let results = run(user, &steps);
        assert_eq!(results.len(), steps.len(), "{user:?}: {results:?}");
        for (step, (printed, status)) in steps.iter().zip(&results) {
            let commands = &step.commands;
            let expected = step.output.as_deref().unwrap_or_default();
            assert!(
                page::matches(expected, printed),
                "{user:?}: docs/tutorial.md does not show what is printed by\n{commands}\n{printed}"
            );
            // One step fails on purpose, and the page shows that.
            let fails = expected.contains("ended with status 2");
            assert_eq!(*status != 0, fails, "{user:?}: {commands}\n{printed}");
        }
    }
}
