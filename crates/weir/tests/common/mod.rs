// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared parts of the program's tests: runs of the binary as this user and, if that is root, also
//! as nobody; required programs; temporary folders.
#![allow(dead_code, reason = "each test uses its part")]

use std::io::{BufRead as _, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::{env, fs, process};

/// The program under test.
pub const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// The user who runs the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// The user who runs the tests.
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

/// Returns when `weir up`, started with its output in a pipe, says that the stack is up. The pipe is closed then.
pub fn wait_until_up(stack: &mut Child) {
    let mut line = String::new();
    let output = stack.stdout.take().expect("the output is a pipe");
    BufReader::new(output)
        .read_line(&mut line)
        .expect("the output can be read");
    assert!(line.contains("is up"), "{line}");
}

/// Returns this user, and also nobody if this is root and nobody can read the tree. `WEIR_TEST_USERS=own` leaves
/// nobody out, where ci/unprivileged runs the tests as nobody anyway.
pub fn users() -> &'static [User] {
    match env::var("WEIR_TEST_USERS").as_deref() {
        Ok("own") => &[User::Own],
        Ok("all") | Err(_) => all_users(),
        Ok(other) => panic!("WEIR_TEST_USERS={other}: `own` or `all`"),
    }
}

/// Returns an ordinary user: nobody if this is root and nobody can read the tree, else this user.
pub fn ordinary_user() -> User {
    *all_users().last().unwrap_or(&User::Own)
}

fn all_users() -> &'static [User] {
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
            // Not a `skip`: ci/unprivileged runs the tests as nobody, regardless of where the tree
            // is.
            say("not run as nobody, who cannot read this tree (see ci/unprivileged)");
            &[User::Own]
        }
    })
}

/// Prints a message even if the test passes.
pub fn say(text: &str) {
    // Unlike `eprintln!`, the test runner does not capture this. A failure cannot be reported.
    let _ = writeln!(std::io::stderr(), "weir tests: {text}");
}

/// Returns the command `PROGRAM ARGS` for that user, which also finds administration tools.
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

/// Returns the command `weir ARGS` for that user.
pub fn weir(user: User, args: &[&str]) -> Command {
    let mut command = command(user, WEIR);
    command.args(args);
    command
}

/// Runs `weir run --quiet -- bash -c SCRIPT`. Returns its output, including errors, and its exit
/// status.
pub fn script(user: User, script: &str) -> (String, i32) {
    script_with(user, &[], script)
}

/// Runs a script with more arguments of `weir run`.
pub fn script_with(user: User, args: &[&str], script: &str) -> (String, i32) {
    let mut command = weir(user, &["run", "--quiet"]);
    command
        .args(args)
        .args(["--", "bash", "-c", &format!("exec 2>&1\n{script}")]);
    let output = output(&mut command);
    (text(&output.stdout), output.status.code().unwrap_or(-1))
}

/// Runs a script whose own errors go to its output. Returns the output and Weir's messages.
pub fn script_and_weir(user: User, script: &str) -> (String, String, i32) {
    let mut command = weir(user, &["run", "--quiet", "--", "bash", "-c"]);
    let output = output(command.arg(format!("exec 2>&1\n{script}")));
    let status = output.status.code().unwrap_or(-1);
    (text(&output.stdout), text(&output.stderr), status)
}

/// Runs a script that must succeed. Returns its output.
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

/// Reports that a test is skipped, and why. Fails if no test may be skipped (`WEIR_REQUIRE_ALL=1`,
/// as in CI).
#[track_caller]
pub fn skip(why: &str) {
    let all = env::var("WEIR_REQUIRE_ALL").as_deref() == Ok("1");
    assert!(!all, "skipped, and WEIR_REQUIRE_ALL is set: {why}");
    say(&format!("SKIPPED: {why}"));
}

/// Returns whether a program or file exists. If not, reports the Debian package that has it and
/// skips the test.
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

/// Returns a Go program of `tests/clients/FOLDER`, built by `ci/setup test`, or here if Go is installed but the program is
/// not built yet.
#[track_caller]
pub fn go_program(folder: &str, name: &str) -> Option<String> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = tree.join("../../target/clients").join(name);
    let path = || built.to_str().unwrap().to_owned();
    if built.exists() {
        return Some(path());
    }
    if !has("go", "golang-go") {
        return None;
    }
    let programs = env::var("PATH").unwrap_or_default() + ":/usr/local/go/bin";
    let status = Command::new("go")
        .env("PATH", programs)
        .env("CGO_ENABLED", "0")
        .args(["build", "-o"])
        .arg(&built)
        .arg(".")
        .current_dir(tree.join("tests/clients").join(folder))
        .status()
        .unwrap();
    if !status.success() {
        skip("the Go program does not build: modules come from Go's proxy");
        return None;
    }
    Some(path())
}

/// A folder of the test's own that everybody may write to, removed on drop.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // A name may be taken by a killed test, or by a process with the same id in another
        // container.
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

    /// Returns the path of a file in it, as text.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Leftovers remain in the temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}
