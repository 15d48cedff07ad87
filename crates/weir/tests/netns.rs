// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir netns`: many namespaces at once, inside a stack and from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use common::{Folder, script, users, works};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A router: its loopback device up, forwarding on, a link to the namespace `hub`.
const ROUTER: &str = "\
set -e
ip link set lo up
ip link add eth0 type veth peer name $NETNS netns hub
ip link set eth0 up
ip addr add 10.1.$NUMBER.1/24 dev eth0
sysctl -qw net.ipv4.ip_forward=1
";

#[test]
fn namespaces_are_added_listed_and_deleted_together() {
    for &user in users() {
        let said = works(
            user,
            "weir netns list
             weir netns add --count 1200 r%d
             weir netns add one
             cmp <(weir netns list | sort) <(ip netns list | sort)
             weir netns list | wc -l
             weir netns list --json | python3 -c 'import json,sys; print(len(json.load(sys.stdin)))'
             ip netns exec r1199 ip -br link
             weir netns del r0 one r1199
             weir netns list | wc -l
             ip netns del r1
             weir netns del --all
             weir netns list --json",
        );
        let lines: Vec<&str> = said.split_whitespace().collect();
        assert_eq!(lines[..2], ["1201", "1201"], "{said}");
        assert_eq!(lines[2], "lo", "{said}");
        assert_eq!(lines[lines.len() - 2..], ["1198", "[]"], "{said}");
    }
}

#[test]
fn a_template_runs_in_each_namespace() {
    for &user in users() {
        let folder = Folder::new();
        let router = folder.file("router.sh");
        std::fs::write(&router, ROUTER).unwrap();
        let said = works(
            user,
            &format!(
                "weir netns add hub
                 weir netns add --count 3 --template {router} r%d
                 for r in r0 r1 r2; do
                     ip netns exec $r sysctl -n net.ipv4.ip_forward
                     ip -n $r -o -4 addr show eth0 | awk '{{print $4}}'
                 done
                 ip -n hub -br link show type veth | sed 's/@.*//' | sort
                 weir netns del r1
                 ip -n hub -br link show type veth | wc -l"
            ),
        );
        let lines: Vec<&str> = said.split_whitespace().collect();
        let wanted = [
            "1",
            "10.1.0.1/24",
            "1",
            "10.1.1.1/24",
            "1",
            "10.1.2.1/24",
            "r0",
            "r1",
            "r2",
            "2",
        ];
        assert_eq!(lines, wanted, "{said}");
    }
}

#[test]
fn what_cannot_be_added_leaves_nothing() {
    for &user in users() {
        let folder = Folder::new();
        let router = folder.file("router.sh");
        std::fs::write(
            &router,
            "test $NUMBER -lt 2 || exit 7\nip link add d0 type dummy\n",
        )
        .unwrap();
        let long = "n".repeat(256);
        let longest = "n".repeat(255);
        let (said, _) = script(
            user,
            &format!(
                "exec 2>&1
                 weir netns add r1500
                 weir netns add r1500; echo $?
                 weir netns add --count 2000 r%d; echo $?
                 weir netns add --count 3 --template {router} t%d; echo $?
                 weir netns add --count 3 --template /none t%d; echo $?
                 weir netns add --count 3 --template / t%d; echo $?
                 weir netns add --count 3 same; echo $?
                 weir netns add a/b; echo $?
                 weir netns add ..; echo $?
                 weir netns add ''; echo $?
                 weir netns add {long}; echo $?
                 weir netns del r1500 none; echo $?
                 weir netns del ../names; echo $?
                 weir netns list
                 weir netns add {longest} && weir netns del {longest} r1500 && weir netns list"
            ),
        );
        let invalid = "a name has 1 to 255 bytes, no slash, and is not . or ..";
        let lines: Vec<&str> = said.lines().collect();
        let mut at = 0;
        let mut next = |wanted: &[&str]| {
            for text in wanted {
                assert!(lines[at].contains(text), "{text}: {said}");
            }
            assert_eq!(lines[at + 1], "125", "{said}");
            at += 2;
        };
        next(&["weir: there is already a namespace r1500"]);
        next(&["there is already a namespace r1500; no namespace was added"]);
        next(&["router.sh ended with status 7 in namespace t2; no namespace was added"]);
        next(&["/none: No such file or directory"]);
        next(&["/: a template is a file"]);
        next(&["same: the name of several namespaces contains %d"]);
        next(&["invalid name \"a/b\"", invalid]);
        next(&["invalid name \"..\"", invalid]);
        next(&["invalid name \"\"", invalid]);
        next(&["invalid name \"nnn", invalid]);
        next(&["there is no namespace none"]);
        next(&["invalid name \"../names\"", invalid]);
        assert_eq!(lines[at..], ["r1500"], "{said}");
    }
}

/// A stack that is up.
struct Stack(Child, PathBuf);

impl Stack {
    fn up(folder: &Folder) -> Self {
        let socket = PathBuf::from(folder.file("control"));
        let mut child = Command::new(WEIR)
            .args(["up", "--socket"])
            .arg(&socket)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        common::wait_until_up(&mut child);
        Self(child, socket)
    }

    fn netns(&self, what: &str, args: &[&str]) -> Output {
        let mut command = Command::new(WEIR);
        command.args(["netns", what, "--socket"]).arg(&self.1);
        command.args(args).output().unwrap()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_stack_is_reached_from_outside() {
    let folder = Folder::new();
    let router = folder.file("router.sh");
    std::fs::write(&router, "ip link add d$NUMBER type dummy || exit 3\n").unwrap();
    let stack = Stack::up(&folder);
    let done = |output: Output| {
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    done(stack.netns("add", &["--count", "50", "--template", &router, "x%d"]));
    assert_eq!(done(stack.netns("list", &[])).lines().count(), 50);
    let inside = Command::new(WEIR)
        .args(["exec", "--socket"])
        .arg(&stack.1)
        .args(["--netns", "x49", "--", "ip", "-br", "link", "show", "d49"])
        .output()
        .unwrap();
    assert!(done(inside).starts_with("d49"));
    // A namespace in use loses its name, and goes with its last user.
    let refused = stack.netns("del", &["x0", "y"]);
    assert_eq!(refused.status.code(), Some(125));
    done(stack.netns("del", &["--all"]));
    assert_eq!(done(stack.netns("list", &["--json"])), "[]\n");
}
