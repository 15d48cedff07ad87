// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests of the program share: runs of the binary as this user and, where that is root,
//! as nobody too; programs that must be there; folders that go with the test.
#![allow(dead_code, reason = "each test uses its part")]

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::{env, fs, process};

/// The program under test.
pub const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Who runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// Who runs the tests.
    Own,
    /// `nobody`, without groups and capabilities.
    Nobody,
}

fn setpriv() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args(["--inh-caps=-all", "--bounding-set=-all", "--"]);
    command
}

/// This user, and nobody where we are root and nobody can read the tree.
pub fn users() -> &'static [User] {
    static USERS: OnceLock<&[User]> = OnceLock::new();
    USERS.get_or_init(|| {
        let root = fs::metadata("/proc/self").is_ok_and(|data| {
            use std::os::unix::fs::MetadataExt;
            data.uid() == 0
        });
        if !root {
            return &[User::Own];
        }
        let reads = setpriv()
            .args([
                "test",
                "-x",
                WEIR,
                "-a",
                "-r",
                concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
            ])
            .stderr(Stdio::null())
            .status();
        if reads.is_ok_and(|status| status.success()) {
            &[User::Own, User::Nobody]
        } else {
            // No `skip`: ci/unprivileged runs the tests as nobody, wherever the tree is.
            say("not as nobody too: nobody cannot read this tree (ci/unprivileged)");
            &[User::Own]
        }
    })
}

/// Says something even when the test passes.
pub fn say(text: &str) {
    // Not captured by the test runner, unlike `eprintln!`; there is nobody to tell of a failure.
    let _ = writeln!(std::io::stderr(), "weir tests: {text}");
}

/// `PROGRAM ARGS` as that user; finds programs of the administrator too.
pub fn command(user: User, program: &str) -> Command {
    let mut command = match user {
        User::Own => Command::new(program),
        User::Nobody => {
            let mut command = setpriv();
            command.arg(program);
            command
        }
    };
    let path = env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
        .env("LC_ALL", "C")
        .env("WEIR", WEIR)
        .stdin(Stdio::null());
    command.current_dir(env::temp_dir());
    command
}

/// `weir ARGS` as that user.
pub fn weir(user: User, args: &[&str]) -> Command {
    let mut command = command(user, WEIR);
    command.args(args);
    command
}

/// `weir run --quiet -- bash -c SCRIPT`: what it printed, errors among it, and its exit status.
pub fn script(user: User, script: &str) -> (String, i32) {
    script_with(user, &[], script)
}

/// The same with more arguments of `weir run`.
pub fn script_with(user: User, args: &[&str], script: &str) -> (String, i32) {
    let mut command = weir(user, &["run", "--quiet"]);
    command
        .args(args)
        .args(["--", "bash", "-c", &format!("exec 2>&1\n{script}")]);
    let output = output(&mut command);
    (text(&output.stdout), output.status.code().unwrap_or(-1))
}

/// A script whose standard error is Weir's alone: what it printed and what Weir said.
pub fn script_and_weir(user: User, script: &str) -> (String, String, i32) {
    let mut command = weir(user, &["run", "--quiet", "--", "bash", "-c"]);
    let output = output(command.arg(format!("exec 2>&1\n{script}")));
    let status = output.status.code().unwrap_or(-1);
    (text(&output.stdout), text(&output.stderr), status)
}

/// Runs a script that must succeed; answers what it printed.
#[track_caller]
pub fn works(user: User, text: &str) -> String {
    let (printed, status) = script(user, text);
    assert_eq!(status, 0, "{user:?}: {text}\nprinted\n{printed}");
    printed
}

#[track_caller]
pub fn output(command: &mut Command) -> Output {
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Says that a test is skipped and why; fails where none may be (`WEIR_REQUIRE_ALL=1`, as in CI).
#[track_caller]
pub fn skip(why: &str) {
    let all = env::var("WEIR_REQUIRE_ALL").as_deref() == Ok("1");
    assert!(!all, "skipped, and WEIR_REQUIRE_ALL is set: {why}");
    say(&format!("SKIPPED: {why}"));
}

/// Whether a program or file is there. If not, says which Debian package has it, and that the test is
/// skipped.
#[track_caller]
pub fn has(program: &str, package: &str) -> bool {
    let found = if program.contains('/') {
        Path::new(program).exists()
    } else {
        let path = env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin:/usr/local/go/bin";
        path.split(':')
            .any(|dir| Path::new(dir).join(program).exists())
    };
    if !found {
        skip(&format!(
            "no {program} here (Debian package {package}; ci/setup test)"
        ));
    }
    found
}

/// A folder of the test's own that everybody may write to, gone with it.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // A name is taken where a test was killed, or by a process of the same number in another container.
        let free = |number: u32| {
            let path = env::temp_dir().join(format!("weir-test-{}-{number}", process::id()));
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => None,
                made => Some(made.map(|()| path).unwrap()),
            }
        };
        let path = std::iter::repeat_with(|| NUMBER.fetch_add(1, Relaxed))
            .find_map(free)
            .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        Self(path)
    }

    /// A file in it, as text.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left over is in the temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}
