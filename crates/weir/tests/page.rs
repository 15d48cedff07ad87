// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir report --html`: pages of one run and of two, checked in a browser, and refused input.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Folder, User, output, text, weir};

/// Two namespaces, a narrow link between them with a queue of LIMIT bytes, and a flow that exceeds
/// it.
const SCRIPT: &str = "set -e
ip netns add left
ip netns add right
ip -n left link add in0 type dummy
ip -n left link add to-right type veth peer name to-left netns right
ip -n left addr add 10.1.0.1/24 dev in0
ip -n left addr add 10.9.0.1/30 dev to-right
ip -n right addr add 10.9.0.2/30 dev to-left
for link in in0 to-right; do ip -n left link set $link up; done
ip -n right link set to-left up
ip -n left route add 10.2.0.0/16 via 10.9.0.2
ip netns exec left sysctl -qw net.ipv4.ip_forward=1
tc -n left qdisc add dev to-right root handle 1: tbf rate 1mbit burst 3000 limit ${LIMIT}
";

fn command(folder: &Folder, args: &[&str]) -> Command {
    let mut command = weir(User::Own, args);
    command.current_dir(&folder.0);
    command
}

/// Runs the script with a queue of `limit` bytes. The report goes to NAME.json.
fn run(folder: &Folder, name: &str, limit: u32) {
    fs::write(folder.0.join("script.sh"), SCRIPT).unwrap();
    let json = format!("{name}.json");
    let flow = "left/in0=dst=10.2.0.2,rate=400,count=800,size=800,flows=3";
    let args = [
        "run",
        "--quiet",
        "--gen",
        flow,
        "--json",
        &json,
        "script.sh",
    ];
    let done = output(command(folder, &args).env("LIMIT", limit.to_string()));
    assert!(done.status.success(), "{}", text(&done.stderr));
}

#[test]
fn pages_render_in_a_browser() {
    let folder = Folder::new();
    run(&folder, "deep", 200_000);
    run(&folder, "short", 10_000);
    let title = "Two queues <&>";
    for args in [
        &["report", "--html", "one.html", "deep.json"][..],
        &[
            "report",
            "--html",
            "two.html",
            "--title",
            title,
            "--note",
            "A note.",
            "deep.json",
            "short.json",
        ],
    ] {
        let done = output(&mut command(&folder, args));
        assert!(done.status.success(), "{}", text(&done.stderr));
    }
    // Standard input and output give the same page.
    let deep = fs::File::open(folder.0.join("deep.json")).unwrap();
    let done = output(
        command(&folder, &["report", "--html", "-", "--title", "Weir: deep"])
            .stdin(Stdio::from(deep)),
    );
    let one = fs::read_to_string(folder.0.join("one.html")).unwrap();
    assert_eq!(
        text(&done.stdout).replace(r#""run":"run""#, r#""run":"deep""#),
        one
    );
    let two = fs::read_to_string(folder.0.join("two.html")).unwrap();
    assert!(two.contains("<h1>Two queues &lt;&amp;&gt;</h1>") && two.contains("A note."));

    if !common::has("chromium", "chromium") {
        return;
    }
    let check = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/check.py");
    let shows = |page: &str, words: &[&str]| {
        let mut command = Command::new("python3");
        command.arg(&check).current_dir(&folder.0);
        for word in words {
            command.args(["--shows", word]);
        }
        let looked = output(command.arg(page));
        assert!(looked.status.success(), "{}", text(&looked.stderr));
    };
    shows(
        "one.html",
        &[
            "median wait in the queues of left/to-right",
            "Topology",
            "to-right",
        ],
    );
    shows(
        "two.html",
        &[
            "deep → short",
            "Over time at left/to-right",
            "Drops of deep",
        ],
    );
}

#[test]
fn input_that_is_no_report_is_refused() {
    let folder = Folder::new();
    let refused = |args: &[&str], wanted: &str| {
        let done = output(command(&folder, args).stdin(Stdio::null()));
        assert_eq!(done.status.code(), Some(125));
        let said = text(&done.stderr);
        assert!(said.contains(wanted), "{said}");
        assert!(!folder.0.join("page.html").exists());
    };
    fs::write(folder.0.join("broken.json"), "{\n\n  nonsense\n").unwrap();
    fs::write(folder.0.join("other.json"), "{\"a\": 1}").unwrap();
    refused(
        &["report", "--html", "page.html", "gone.json"],
        "gone.json: No such file",
    );
    refused(
        &["report", "--html", "page.html", "broken.json"],
        "broken.json: line 3: ",
    );
    refused(
        &["report", "--html", "page.html", "other.json"],
        "other.json: not a report of `weir run --json`",
    );
    refused(
        &["report", "--html", "page.html"],
        "standard input: line 1: ",
    );
}
