// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The support table of README.md names exactly the kinds in the code.

use std::collections::BTreeSet;

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
