// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The support table of README.md names exactly the kinds in the code, its first commands print what
//! it says, and its picture is that of the reports they write.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;
#[path = "common/page.rs"]
mod page;

use std::collections::BTreeSet;
use std::fs;

use common::User;

const README: &str = include_str!("../../../README.md");

/// Returns the names in the second column of the row `row`.
fn served(row: &str) -> BTreeSet<String> {
    let start = format!("| {row} |");
    let line = README
        .lines()
        .find(|line| line.starts_with(&start))
        .unwrap_or_else(|| panic!("README has no row `{row}`"));
    let column = line.split('|').nth(2).unwrap_or_default();
    column
        .split(',')
        .map(|name| name.trim().to_owned())
        .collect()
}

fn names<'a>(kinds: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    kinds.map(str::to_owned).collect()
}

#[test]
fn link_kinds() {
    assert_eq!(
        served("link kinds"),
        names(weir_stack::link::KINDS.iter().map(|kind| kind.name))
    );
}

#[test]
fn qdisc_kinds() {
    assert_eq!(
        served("qdisc kinds"),
        names(weir_tc::qdisc::KINDS.iter().map(|ops| ops.kind))
    );
}

#[test]
fn classifier_kinds() {
    assert_eq!(
        served("classifier kinds"),
        names(weir_tc::classifier::KINDS.iter().map(|ops| ops.kind))
    );
}

#[test]
fn action_kinds() {
    assert_eq!(
        served("action kinds"),
        names(weir_tc::action::KINDS.iter().map(|ops| ops.kind))
    );
}

/// Runs the first commands of README.md in a checkout, as this user and as nobody. The build has
/// happened before: its result is the program under test.
#[test]
fn first_commands_and_picture() {
    if !common::has("python3", "python3") || !common::has("tc", "iproute2") {
        return;
    }
    let steps = page::steps(README);
    let step = &steps[0];
    let (build, rest) = step.commands.split_once('\n').unwrap();
    assert_eq!(build, "cargo build --release --bin weir");
    for &user in common::users() {
        let checkout = page::checkout();
        let mut command = common::command(user, "bash");
        command.current_dir(&checkout.0).env_remove("WEIR");
        let output = common::output(command.args(["-ec", rest]));
        let printed = common::text(&output.stdout);
        let errors = common::text(&output.stderr);
        assert!(output.status.success(), "{user:?}: {printed}{errors}");
        let expected = step.output.as_deref().unwrap();
        assert!(page::matches(expected, &printed), "{user:?}: {printed}");

        let mut command = common::command(user, "bash");
        command.current_dir(&checkout.0);
        let draw = "python3 docs/picture out/bottleneck";
        let drawn = common::output(command.args(["-ec", draw]));
        assert!(drawn.status.success(), "{}", common::text(&drawn.stderr));
        let committed = fs::read(format!("{}/docs/bottleneck.svg", page::ROOT)).unwrap();
        assert!(
            drawn.stdout == committed,
            "docs/bottleneck.svg is out of date: run examples/bottleneck/run.sh and docs/picture"
        );
    }
}

/// The tables of measured results are those of docs/results.json.
#[test]
fn measured_results() {
    if !common::has("python3", "python3") {
        return;
    }
    let mut command = common::command(User::Own, "python3");
    let checked = common::output(
        command
            .arg(format!("{}/docs/results", page::ROOT))
            .arg("--check"),
    );
    assert!(
        checked.status.success(),
        "{}",
        common::text(&checked.stderr)
    );
}
