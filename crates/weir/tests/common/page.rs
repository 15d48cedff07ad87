// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of the documentation whose commands a test runs: a block of commands (```` ```sh ````) and
//! the output that follows it (```` ```text ````). In the output, `…` stands for text that differs
//! from run to run or is left out: alone on a line for any lines, within a line for any characters.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{Folder, WEIR};

/// The checkout.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Commands, and the output that the page shows for them.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// The commands.
    pub commands: String,
    /// The output; `None` if the page shows none.
    pub output: Option<String>,
}

/// Returns the steps of a page in order.
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            continue;
        };
        let block = lines.by_ref().take_while(|line| *line != "```");
        let block: String = block.map(|line| format!("{line}\n")).collect();
        match language {
            "sh" => steps.push(Step {
                commands: block,
                output: None,
            }),
            "text" => {
                let step = steps.last_mut().expect("a page begins with commands");
                assert_eq!(step.output, None, "two outputs of\n{}", step.commands);
                step.output = Some(block);
            }
            _ => {}
        }
    }
    steps
}

/// Returns whether a line has the text of the pattern, in which `…` stands for any characters.
fn line_matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Returns whether the printed text is that of the page.
pub fn matches(page: &str, printed: &str) -> bool {
    fn these(page: &[&str], printed: &[&str]) -> bool {
        match page.split_first() {
            None => printed.is_empty(),
            Some((&"…", rest)) => {
                (0..=printed.len()).any(|skipped| these(rest, &printed[skipped..]))
            }
            Some((pattern, rest)) => printed
                .split_first()
                .is_some_and(|(line, others)| line_matches(pattern, line) && these(rest, others)),
        }
    }
    let page: Vec<&str> = page.lines().map(str::trim_end).collect();
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    these(&page, &printed)
}

/// Creates a folder that looks like a checkout in which `cargo build --release --bin weir` has run: the
/// program is the one under test.
pub fn checkout() -> Folder {
    let folder = Folder::new();
    for name in ["docs", "examples", "Makefile", "README.md"] {
        symlink(Path::new(ROOT).join(name), folder.0.join(name)).unwrap();
    }
    let target = folder.0.join("target");
    fs::create_dir(&target).unwrap();
    fs::create_dir(target.join("release")).unwrap();
    symlink(WEIR, target.join("release/weir")).unwrap();
    folder
}

#[test]
fn an_ellipsis_stands_for_lines_or_characters() {
    assert!(matches("a\n…\nd\n", "a\nb\nc\nd\n") && matches("a\n…\nd", "a\nd\n"));
    assert!(!matches("a\n…\nd\n", "a\nb\n") && !matches("a\n", "a\nb\n"));
    assert!(matches("x … z\n", "x y z  \n") && !matches("x … z\n", "x y zz z.\n"));
    assert!(matches("…b…d\n", "abcd\n") && !matches("…b…b\n", "ab\n"));
}

#[test]
fn a_page_has_steps() {
    let page = "text\n```sh\na\n```\n```text\nb\n```\n```\nno\n```\n```sh\nc\n```\n";
    let step = |commands: &str, output: Option<&str>| Step {
        commands: commands.into(),
        output: output.map(str::to_owned),
    };
    assert_eq!(steps(page), [step("a\n", Some("b\n")), step("c\n", None)]);
}
