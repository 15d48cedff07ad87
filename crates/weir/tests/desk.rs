// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts around the program: completions in a real shell, manual pages in the real `man`, and
//! Weir's devices in the real tshark.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Folder, User, has, ordinary_user, output, skip, text, users};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A running stack with the devices d0 and edge/d1. `socket` is its control socket; `XDG_RUNTIME_DIR`
/// finds it as the user's own.
struct Stack(Child);

impl Stack {
    /// Starts the stack of a user. `folder` must be the user's own.
    fn up(user: User, folder: &Path) -> Self {
        let weir = |args: &[&str]| {
            let mut command = common::weir(user, args);
            command.env("XDG_RUNTIME_DIR", folder);
            command
        };
        let mut child = weir(&["up"]).stdout(Stdio::piped()).spawn().unwrap();
        common::wait_until_up(&mut child);
        let stack = Self(child);
        let setup = "ip link add d0 type dummy && ip link set d0 up && ip netns add edge \
                     && ip -n edge link add d1 type dummy && ip -n edge link set d1 up";
        let status = weir(&["exec", "sh", "-c", setup]).status();
        assert!(status.unwrap().success());
        stack
    }
}

/// Creates a folder in `parent` that only this user can enter.
fn own_folder(user: User, parent: &Folder) -> PathBuf {
    let path = parent.0.join("own");
    let mut mkdir = common::command(user, "mkdir");
    assert!(
        mkdir
            .args(["-m", "700"])
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    path
}

impl Drop for Stack {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the candidates that bash gets for the last word of a command line.
fn complete(runtime: &Path, line: &str) -> Vec<String> {
    let script = r#"
source <(weir completions bash)
read -ra COMP_WORDS <<< "$1"
[[ "$1" == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
COMP_TYPE=9
_clap_complete_weir weir "${COMP_WORDS[COMP_CWORD]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;
    let path = Path::new(WEIR).parent().unwrap().display();
    let shown = output(
        Command::new("bash")
            .args(["-c", script, "bash", line])
            .env("PATH", format!("{path}:/usr/bin:/bin"))
            .env("XDG_RUNTIME_DIR", runtime),
    );
    assert!(shown.status.success(), "{line}: {}", text(&shown.stderr));
    let words = text(&shown.stdout);
    words.lines().map(|word| word.trim().to_owned()).collect()
}

#[test]
fn completions_know_benchmarks_devices_and_namespaces() {
    let folder = Folder::new();
    let runtime = &own_folder(User::Own, &folder);
    // No stack runs yet.
    assert_eq!(complete(runtime, "weir capture d"), [""]);
    let stack = Stack::up(User::Own, runtime);
    assert_eq!(complete(runtime, "weir cap"), ["capture"]);
    assert_eq!(complete(runtime, "weir capture d"), ["d0"]);
    assert_eq!(
        complete(runtime, "weir inject edge/"),
        ["edge/lo", "edge/d1"]
    );
    assert_eq!(complete(runtime, "weir exec --netns "), ["edge"]);
    assert_eq!(complete(runtime, "weir bench tr"), ["transmit"]);
    assert_eq!(complete(runtime, "weir port del d"), ["d0"]);
    assert_eq!(complete(runtime, "weir port add d0 ta"), ["tap"]);
    assert_eq!(complete(runtime, "weir trace e"), ["edge/lo", "edge/d1"]);
    assert_eq!(complete(runtime, "weir run --fro"), ["--frozen-clock"]);
    // A hidden option is no candidate, even if nothing else fits.
    assert_eq!(complete(runtime, "weir bench --pa"), [""]);
    let line = format!("weir capture --socket {}/weir.sock d", runtime.display());
    assert_eq!(complete(Path::new("/nonexistent"), &line), ["d0"]);
    drop(stack);
    assert_eq!(complete(runtime, "weir capture d"), [""]);
}

/// Runs a script of a shell with the words `line`, and returns its output.
fn shell(program: &str, args: &[&str], script: &str, line: &str, runtime: &Path) -> String {
    let path = Path::new(WEIR).parent().unwrap().display();
    let mut command = Command::new(program);
    command.args(args).args(["-c", script]);
    command
        .env("PATH", format!("{path}:/usr/bin:/bin"))
        .env("LINE", line)
        .env("TERM", "dumb")
        .env("HOME", runtime)
        .env("XDG_CONFIG_HOME", runtime)
        .env("XDG_RUNTIME_DIR", runtime);
    let shown = output(&mut command);
    assert!(shown.status.success(), "{line}: {}", text(&shown.stderr));
    text(&shown.stdout)
}

#[test]
fn fish_completes() {
    if !has("fish", "fish") {
        return;
    }
    let folder = Folder::new();
    let runtime = &own_folder(User::Own, &folder);
    let complete = |line: &str| {
        let script = "weir completions fish | source; complete -C $LINE";
        let said = shell("fish", &["--no-config"], script, line, runtime);
        // A candidate and, behind a tab, its description.
        let words = said.lines().filter_map(|line| line.split('\t').next());
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let stack = Stack::up(User::Own, runtime);
    assert_eq!(complete("weir cap"), ["capture"]);
    assert_eq!(complete("weir capture d"), ["d0"]);
    assert_eq!(complete("weir inject edge/"), ["edge/lo", "edge/d1"]);
    assert_eq!(complete("weir port add d0 ta"), ["tap"]);
    assert_eq!(complete("weir run --fro"), ["--frozen-clock"]);
    drop(stack);
}

/// Types a line and the tab key in an interactive zsh on a terminal of its own, which then prints the line.
#[test]
fn zsh_completes() {
    const SCRIPT: &str = r#"
zmodload zsh/zpty
zpty inner zsh -f -i
say() { zpty -w inner "$1" }
# Reads until the shell has printed a word that is not in the echo of what it was told.
until_printed() {
    local piece all
    while zpty -r inner piece; do
        all+=$piece
        [[ $all == *${~1}* ]] && break
    done
    REPLY=$all
}
say 'stty -echo; PROMPT=; RPROMPT=; bindkey -e; unset zle_bracketed_paste'
say 'autoload -U compinit; compinit -u -D; source <(weir completions zsh); print READY$((1+1))'
until_printed READY2
zpty -w -n inner "$LINE"$'	'"print -r -- RESULT\$((1+1)) "$'
'
until_printed 'RESULT2*'$'
'
print -r -- "$REPLY"
zpty -d inner
"#;
    if !has("zsh", "zsh") {
        return;
    }
    let folder = Folder::new();
    let runtime = &own_folder(User::Own, &folder);
    let complete = |line: &str| {
        let said = shell("zsh", &["-f"], SCRIPT, line, runtime);
        let line = said
            .lines()
            .rev()
            .find_map(|line| line.split_once("RESULT2 "));
        line.unwrap_or_else(|| panic!("{said}")).1.trim().to_owned()
    };
    let stack = Stack::up(User::Own, runtime);
    assert_eq!(complete("weir cap"), "weir capture");
    assert_eq!(complete("weir capture d"), "weir capture d0");
    assert_eq!(complete("weir exec --netns ed"), "weir exec --netns edge");
    assert_eq!(complete("weir port add d0 ta"), "weir port add d0 tap");
    assert_eq!(complete("weir run --fro"), "weir run --frozen-clock");
    // Nothing fits.
    assert_eq!(complete("weir capture x"), "weir capture x");
    drop(stack);
}

#[test]
fn every_shell_gets_a_script_without_hidden_options() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let shown = output(Command::new(WEIR).args(["completions", shell]));
        let script = text(&shown.stdout);
        assert!(shown.status.success(), "{shell}");
        assert!(script.contains("WEIR_COMPLETE"), "{shell}: {script}");
        assert!(!script.contains("--part"), "{shell}");
    }
}

#[test]
fn manual_pages_have_a_synopsis_with_values_examples_and_exit_statuses() {
    let folder = Folder::new();
    let pages = folder.0.as_path().join("pages");
    let written = output(Command::new(WEIR).arg("man").arg(&pages));
    assert!(written.status.success());
    if !has("groff", "groff-base") {
        return;
    }
    let read = |page: &str| {
        // groff is what `man` runs; -ww makes it report every fault of the page.
        let shown = output(
            Command::new("groff")
                .args(["-man", "-Tascii", "-ww", "-P-c", "-P-bou", "-rLL=100n"])
                .arg(pages.join(page)),
        );
        assert_eq!(text(&shown.stderr), "", "{page}");
        text(&shown.stdout)
    };
    let run = read("weir-run.1");
    let run = run.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "[--in DEV=FILE]...",
        "[--until TIME]",
        "[SCRIPT]",
        "[-- CMD...]",
        "EXAMPLES",
        "EXIT STATUS",
        "130 if Ctrl-C interrupted the run",
        "weir run --until 2s -- ip -s link show",
    ] {
        assert!(run.contains(part), "{part}\n{run}");
    }
    for page in std::fs::read_dir(&pages).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        let shown = read(&name);
        for heading in ["SYNOPSIS", "EXIT STATUS", "EXAMPLES"] {
            assert!(shown.contains(heading), "{name} has no {heading}");
        }
        assert!(!shown.contains("--part"), "{name}");
    }
}

/// Wireshark takes the extcap folder from the environment only if it does not run as root, so this
/// test runs as nobody then.
#[test]
fn wireshark_lists_the_devices_and_captures_from_them() {
    let user = ordinary_user();
    if !has("tshark", "tshark") {
        return;
    }
    let parent = Folder::new();
    let folder = &own_folder(user, &parent);
    let run = |program: &str, args: &[&str]| {
        let mut command = common::command(user, program);
        command
            .args(args)
            .env("WIRESHARK_EXTCAP_DIR", folder.join("extcap"))
            .env("XDG_RUNTIME_DIR", folder)
            .env("HOME", folder);
        output(&mut command)
    };
    // Twice, because an upgrade installs it again.
    for _ in 0..2 {
        let shown = run(WEIR, &["extcap", "--install"]);
        assert!(shown.status.success(), "{}", text(&shown.stderr));
    }
    let link = run("readlink", &[folder.join("extcap/weir").to_str().unwrap()]);
    assert_eq!(text(&link.stdout).trim(), WEIR);
    // A file that is not a link is not replaced.
    let other = parent.file("weir");
    std::fs::write(&other, "mine").unwrap();
    let refused = run(WEIR, &["extcap", "--install", parent.0.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(125));
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine");

    let listed = text(&run("tshark", &["-D"]).stdout);
    assert!(!listed.contains("weir-"), "no stack is running\n{listed}");
    let _stack = Stack::up(user, folder);
    let listed = text(&run("tshark", &["-D"]).stdout);
    if !listed.contains("weir-") && matches!(user, User::Own) && is_root() {
        return skip(
            "tshark ignores WIRESHARK_EXTCAP_DIR as root, and nobody cannot read this tree",
        );
    }
    for device in ["weir-d0 (Weir d0)", "weir-edge/d1 (Weir edge/d1)"] {
        assert!(listed.contains(device), "{device}\n{listed}");
    }
    let types = text(&run("tshark", &["-L", "-i", "weir-d0"]).stdout);
    assert!(types.contains("EN10MB"), "{types}");

    let frames = parent.file("frame.pcap");
    std::fs::write(&frames, one_frame()).unwrap();
    for device in ["d0", "edge/d1"] {
        // Frames leave the device until tshark has seen three.
        let script =
            "for n in $(seq 600); do \"$WEIR\" inject \"$1\" \"$2\" || exit; sleep 0.1; done";
        let mut sender = common::command(user, "sh")
            .args(["-c", script, "sh", device, &frames])
            .env("XDG_RUNTIME_DIR", folder)
            .spawn()
            .unwrap();
        let interface = format!("weir-{device}");
        let wrong = run("tshark", &["-i", &interface, "-f", "bogus", "-c", "1"]);
        assert_ne!(wrong.status.code(), Some(0));
        let wrong = text(&wrong.stderr);
        assert!(wrong.contains("`bogus` is no filter expression"), "{wrong}");
        let fields = ["-T", "fields", "-e", "frame.len", "-e", "udp.srcport"];
        let seen = run(
            "tshark",
            &[
                &["-i", &interface, "-f", "udp src port 4001", "-c", "3"],
                &fields[..],
            ]
            .concat(),
        );
        let _ = sender.kill();
        let _ = sender.wait();
        let (lines, errors) = (text(&seen.stdout), text(&seen.stderr));
        assert_eq!(lines, "60\t4001\n".repeat(3), "{device}: {errors}");
    }
}

#[test]
fn extcap_is_installed_in_the_users_folder_without_tshark() {
    for user in users() {
        let parent = Folder::new();
        let home = &own_folder(*user, &parent);
        let install = |home: &Path| {
            // setpriv is found in the PATH that this test has.
            let mut command = common::command(*user, "env");
            command
                .args(["PATH=/nonexistent", WEIR, "extcap", "--install"])
                .env_remove("WIRESHARK_EXTCAP_DIR")
                .env("HOME", home);
            output(&mut command)
        };
        let shown = install(home);
        assert!(shown.status.success(), "{}", text(&shown.stderr));
        let link = home.join(".local/lib/wireshark/extcap/weir");
        // The stack of this folder does not run: an empty list is no error.
        let mut listing = common::command(*user, link.to_str().unwrap());
        let listed = output(
            listing
                .args(["--extcap-interfaces", "--extcap-version=4.2"])
                .env("XDG_RUNTIME_DIR", home),
        );
        assert_eq!(listed.status.code(), Some(0));
        let lines = text(&listed.stdout);
        assert!(lines.starts_with("extcap {version="), "{lines}");
        assert!(!lines.contains("interface {"), "{lines}");
        let refused = install(Path::new(""));
        assert_eq!(refused.status.code(), Some(125));
        assert!(text(&refused.stderr).contains("HOME is not set"));
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self")
        .is_ok_and(|data| std::os::unix::fs::MetadataExt::uid(&data) == 0)
}

/// Returns a capture of one UDP datagram of 60 bytes from port 4001.
fn one_frame() -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1, 0, 0, 60, 60] {
        file.extend(word.to_le_bytes());
    }
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([
        0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    frame.extend([0x0f, 0xa1, 0x0f, 0xa2, 0, 26, 0, 0]);
    frame.resize(60, 0);
    file.extend(frame);
    file
}
