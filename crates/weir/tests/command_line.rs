// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line of `weir run`: scripts from standard input, `weir` inside scripts, standard
//! output for captures and JSON, files that would be overwritten, exit statuses, invalid
//! generators.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use common::{Folder, User, output, text, users, weir};

/// Returns status, standard output and standard error.
fn outcome(command: &mut Command) -> (i32, String, String) {
    let output = output(command);
    let status = output.status.code().unwrap_or(-1);
    (status, text(&output.stdout), text(&output.stderr))
}

/// Runs the command with `input` on standard input.
fn fed(command: &mut Command, input: &str) -> Output {
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The command may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn a_script_comes_from_standard_input() {
    for user in users() {
        let script = "ip link add d0 type dummy\nip -br link show d0 | cut -d' ' -f1\n";
        let run = fed(&mut weir(*user, &["run", "--quiet", "-"]), script);
        assert_eq!(
            (run.status.code(), text(&run.stdout), text(&run.stderr)),
            (Some(0), "d0\n".into(), String::new())
        );
        let run = fed(&mut weir(*user, &["run", "-"]), "exit 3\n");
        assert_eq!(run.status.code(), Some(3));
        let stderr =
            "weir: the script on standard input ended with status 3; nothing was played after it\n";
        assert_eq!(text(&run.stderr), stderr);
        let (status, _, stderr) = outcome(&mut weir(*user, &["run", "--in", "d0=-", "-"]));
        let both = "--in d0 and the script: both would read standard input";
        assert!(status == 125 && stderr.contains(both), "{stderr}");
    }
}

/// `weir` without a path is this program in scripts, in the programs they start, and as the
/// command.
#[test]
fn weir_is_found_without_a_path_to_it() {
    let script = "command -v weir; env -i PATH=\"$PATH\" weir play --until 2s; weir stat >/dev/null && echo good";
    for user in users() {
        for path in [Some("/usr/bin:/bin"), None] {
            let run = |args: &[&str]| {
                let mut command = weir(*user, &["run", "--quiet", "--"]);
                match path {
                    Some(path) => command.env("PATH", path),
                    None => command.env_remove("PATH"),
                };
                outcome(command.args(args))
            };
            let (status, printed, stderr) = run(&["sh", "-c", script]);
            assert_eq!((status, stderr.as_str()), (0, ""), "{user:?} {path:?}");
            assert!(printed.ends_with("/bin/weir\ngood\n"), "{printed}");
            let (status, printed, _) = run(&["weir", "--version"]);
            assert!(status == 0 && printed.starts_with("weir "), "{printed}");
        }
    }
}

const TALKS: &str =
    "echo words; ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up; cat";

#[test]
fn standard_output_has_the_capture_or_the_json_alone() {
    let folder = Folder::new();
    let none = folder.file("none.pcapng");
    fs::write(&none, "").unwrap();
    for user in users() {
        let run = |args: &[&str]| {
            let mut command = weir(*user, &["run"]);
            output(command.args(args).args(["--", "sh", "-c", TALKS]))
        };
        for quiet in [false, true] {
            let to_v1 = "--gen=v0=count=3";
            let args = ["--out", "v1=-", to_v1, "--quiet"];
            let ran = run(&args[..if quiet { 4 } else { 3 }]);
            let (capture, stderr) = (&ran.stdout, text(&ran.stderr));
            assert!(ran.status.success(), "{stderr}");
            assert_eq!(capture[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
            assert!(stderr.starts_with("words\n"), "{stderr}");
            assert_eq!(stderr.contains("Devices"), !quiet, "{stderr}");

            let args = ["--json", "-", to_v1, "--quiet"];
            let ran = run(&args[..if quiet { 4 } else { 3 }]);
            let report: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
            assert!(report["seed"] == 1, "{report}");
            let stderr = text(&ran.stderr);
            assert!(stderr.starts_with("words\n"), "{stderr}");
            assert_eq!(stderr.contains("Devices"), !quiet, "{stderr}");
        }
        // The script does not read a capture on standard input.
        let mut command = weir(*user, &["run", "--quiet", "--in", "v0=-", "--"]);
        let ran = fed(command.args(["sh", "-c", TALKS]), "not a capture");
        assert!(!text(&ran.stdout).contains("not a capture"));
        let two = ["--out", "v0=-", "--json", "-"];
        let stderr = text(&run(&two).stderr);
        assert!(
            stderr.contains("--out v0 and --json: both would write standard output"),
            "{stderr}"
        );
    }
}

/// Command lines that are refused before anything runs or is written.
#[test]
fn a_file_is_not_written_twice_nor_read_and_written() {
    for user in users() {
        let folder = Folder::new();
        let (kept, new) = (folder.file("kept"), folder.file("new"));
        let alias = folder.file("alias");
        fs::write(&kept, "precious").unwrap();
        std::os::unix::fs::symlink(&kept, &alias).unwrap();
        let refused = |args: &[&str], sentence: &str| {
            let mut command = weir(*user, &["run"]);
            command.args(args).args(["--", "touch", "ran"]);
            let (status, _, stderr) = outcome(command.current_dir(&folder.0));
            assert!(
                status == 125 && stderr.contains(sentence),
                "{args:?}: {stderr}"
            );
            assert!(!folder.0.join("ran").exists(), "{args:?}");
            assert_eq!(fs::read(&kept).unwrap(), b"precious", "{args:?}");
            assert!(!folder.0.join("new").exists(), "{args:?}");
        };
        let (a_new, b_new) = (format!("a={new}"), "b=new");
        refused(
            &["--out", &a_new, "--out", b_new],
            "--out a and --out b: both would write new",
        );
        refused(
            &["--out", "a=./new", "--json", &new],
            "--out a and --json: both would write",
        );
        refused(
            &["--drops", &new, "--json", &new],
            "--drops and --json: both would write",
        );
        refused(
            &["--in", "a=kept", "--out", "b=alias"],
            "--in a reads what --out b would write",
        );
        refused(
            &["--out", "a=kept", "--drops", &alias],
            "--out a and --drops: both would write",
        );
        // Files that cannot be created.
        refused(
            &["--json", "no/folder/x"],
            "no/folder/x: No such file or directory",
        );
        refused(&["--json", "."], ".: Is a directory");
        refused(
            &["--json", "new", "--out", "a=no/folder/x"],
            "no/folder/x: cannot be created",
        );
        refused(
            &["--json", "new", "--in", "a=no/folder/x"],
            "no/folder/x: cannot be opened",
        );

        let script = folder.file("script.sh");
        fs::write(&script, "exit 0\n").unwrap();
        let mut command = weir(*user, &["run", "--json", &script, &script]);
        let (status, _, stderr) = outcome(&mut command);
        assert!(
            status == 125 && stderr.contains("the script reads what --json would write"),
            "{stderr}"
        );

        // Devices have no identity, and one capture may be played twice.
        let nowhere = [
            "--json",
            "/dev/null",
            "--drops",
            "/dev/null",
            "-q",
            "--",
            "true",
        ];
        assert_eq!(
            outcome(weir(*user, &["run"]).args(nowhere)),
            (0, String::new(), String::new())
        );

        // The old report stays until there is a new one.
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o666)).unwrap();
        let report = |script: &str| {
            let mut command = weir(
                *user,
                &["run", "-q", "--json", &kept, "--", "sh", "-c", script],
            );
            let (status, ..) = outcome(&mut command);
            (status, fs::read_to_string(&kept).unwrap())
        };
        assert_eq!(report("exit 1"), (1, "precious".into()));
        fs::write(&kept, "x".repeat(1 << 20)).unwrap();
        let (status, json) = report("exit 0");
        assert!(status == 0 && serde_json::from_str::<serde_json::Value>(&json).is_ok());
    }
}

#[test]
fn exit_statuses_match_the_help() {
    let folder = Folder::new();
    let unreadable = folder.file("no-interpreter");
    fs::write(&unreadable, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o755)).unwrap();
    for user in users() {
        let status = |args: &[&str]| outcome(weir(*user, &["run", "-q"]).args(args)).0;
        assert_eq!(status(&["--", "sh", "-c", "exit 9"]), 9);
        assert_eq!(status(&["--", "sh", "-c", "kill -TERM $$"]), 128 + 15);
        assert_eq!(status(&["/etc"]), 126);
        assert_eq!(status(&["--", "/etc/passwd"]), 126);
        assert_eq!(status(&["/no/such/script"]), 127);
        assert_eq!(status(&["--", "no-such-program"]), 127);
        assert_eq!(status(&[&unreadable]), 127);
        assert_eq!(status(&["--in", "d0=/no/such/capture", "--", "true"]), 125);
        assert_eq!(status(&["--no-such-flag"]), 2);
        for command in ["run", "exec"] {
            let (_, help, _) = outcome(&mut weir(*user, &[command, "--help"]));
            let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
            for sentence in [
                "126 if it cannot be executed and 127 if it is not found",
                "125 if Weir itself failed; 2 if the command line is wrong",
            ] {
                assert!(words.contains(sentence), "{help}");
            }
        }
    }
}

#[test]
fn invalid_generators_are_refused() {
    for (spec, sentence) in [
        (
            "d0=size=20",
            "size=20 is too short: the headers need 42 bytes",
        ),
        (
            "d0=size=50,proto=tcp",
            "size=50 is too short: the headers need 54 bytes",
        ),
        (
            "d0=sizes=60",
            "sizes is not a parameter; did you mean size?",
        ),
        (
            "d0=coutn=5",
            "coutn is not a parameter; did you mean count?",
        ),
        (
            "d0=eth-dst=2:0:0:0:0:1",
            "eth-dst is not a parameter; did you mean eth_dst?",
        ),
        (
            "d0=w=5",
            "w is not a parameter; the parameters are proto, rate,",
        ),
    ] {
        let (status, _, stderr) = outcome(&mut weir(User::Own, &["run", "--gen", spec, "true"]));
        assert!(status == 2 && stderr.contains(sentence), "{spec}: {stderr}");
    }
    // The default size has room for the headers.
    let made = [
        "run",
        "-q",
        "--gen",
        "d0=proto=tcp,src=2001:db8::1,dst=2001:db8::2,count=2",
    ];
    let setup = ["--", "ip", "link", "add", "d0", "type", "dummy"];
    assert_eq!(outcome(weir(User::Own, &made).args(setup)).0, 0);
}
