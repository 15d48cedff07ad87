// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BPF expressions (pcap-filter(7)), compiled by libpcap (`pcap_compile(3PCAP)`), which is loaded when an
//! expression is first used. Where it cannot be loaded, the program tcpdump compiles.
#![allow(unsafe_code)] // functions of a library loaded at run time

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::ptr::NonNull;
use std::slice;
use std::sync::{Mutex, PoisonError};

use weir_packet::bpf::{Instruction, Program};

/// The names of the library: Debian's, which kept an old one, and that of other distributions.
const LIBRARIES: &[&CStr] = &[c"libpcap.so.0.8", c"libpcap.so.1"];
/// `DLT_EN10MB`.
const ETHERNET: c_int = 1;
/// The number of bytes of a frame that a program returns (`MAXIMUM_SNAPLEN`), as in tcpdump.
const LONGEST: c_int = 262_144;
/// `PCAP_NETMASK_UNKNOWN`: `ip broadcast` is refused.
const UNKNOWN: u32 = u32::MAX;

/// `struct bpf_program`; its instructions are laid out as `struct bpf_insn`.
#[repr(C)]
struct Code {
    len: c_uint,
    instructions: *const Raw,
}

/// `struct bpf_insn`.
#[repr(C)]
struct Raw {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

/// `pcap_t`, of which only pointers are passed.
type Handle = *mut c_void;

/// The functions of libpcap. The library stays loaded.
struct Library {
    open_dead: unsafe extern "C" fn(c_int, c_int) -> Handle,
    compile: unsafe extern "C" fn(Handle, *mut Code, *const c_char, c_int, u32) -> c_int,
    geterr: unsafe extern "C" fn(Handle) -> *const c_char,
    freecode: unsafe extern "C" fn(*mut Code),
    close: unsafe extern "C" fn(Handle),
}

/// Returns the address of a function of a library.
fn function(library: NonNull<c_void>, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the library is open, and the name ends with a zero.
    NonNull::new(unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) })
}

impl Library {
    /// Loads the first library of `names` that is there and has the functions.
    fn load(names: &[&CStr]) -> Option<Self> {
        names.iter().find_map(|name| {
            // SAFETY: the name ends with a zero. Loading libpcap runs no code that changes the process.
            let library =
                unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
            let library = NonNull::new(library)?;
            let [open_dead, compile, geterr, freecode, close] = [
                function(library, c"pcap_open_dead")?.as_ptr(),
                function(library, c"pcap_compile")?.as_ptr(),
                function(library, c"pcap_geterr")?.as_ptr(),
                function(library, c"pcap_freecode")?.as_ptr(),
                function(library, c"pcap_close")?.as_ptr(),
            ];
            // SAFETY: libpcap declares the functions of these names with these types since version 1.0.
            Some(unsafe {
                Self {
                    open_dead: std::mem::transmute::<
                        *mut c_void,
                        unsafe extern "C" fn(c_int, c_int) -> Handle,
                    >(open_dead),
                    compile: std::mem::transmute::<
                        *mut c_void,
                        unsafe extern "C" fn(Handle, *mut Code, *const c_char, c_int, u32) -> c_int,
                    >(compile),
                    geterr: std::mem::transmute::<
                        *mut c_void,
                        unsafe extern "C" fn(Handle) -> *const c_char,
                    >(geterr),
                    freecode: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut Code)>(
                        freecode,
                    ),
                    close: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(Handle)>(close),
                }
            })
        })
    }

    /// Compiles an expression for Ethernet frames. Returns libpcap's text if it is none.
    fn compile(&self, expression: &CStr) -> Result<Vec<Instruction>, String> {
        /// Before version 1.8, libpcap compiles one expression at a time.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: no memory is passed.
        let handle = unsafe { (self.open_dead)(ETHERNET, LONGEST) };
        if handle.is_null() {
            return Err("libpcap has no memory".into());
        }
        let mut code = Code {
            len: 0,
            instructions: std::ptr::null(),
        };
        let text = expression.as_ptr();
        // SAFETY: the handle is open, and the expression and the program live through the call.
        let done = unsafe { (self.compile)(handle, &raw mut code, text, 1, UNKNOWN) };
        let result = if done == 0 && !code.instructions.is_null() {
            // SAFETY: libpcap has set the program, which is not changed until it is freed.
            let raw = unsafe { slice::from_raw_parts(code.instructions, code.len as usize) };
            let instructions = raw.iter().map(|raw| Instruction {
                code: raw.code,
                jt: raw.jt,
                jf: raw.jf,
                k: raw.k,
            });
            Ok(instructions.collect())
        } else {
            // SAFETY: the handle holds the text, which ends with a zero, until it is closed.
            let text = unsafe { CStr::from_ptr((self.geterr)(handle)) };
            Err(text.to_string_lossy().trim().to_owned())
        };
        // SAFETY: the program is empty or libpcap's, and neither it nor the handle is used again.
        unsafe {
            (self.freecode)(&raw mut code);
            (self.close)(handle);
        }
        result
    }
}

/// Compiles an expression with tcpdump, which is looked for in `path`.
fn by_tcpdump(expression: &str, path: &str) -> Result<Program, String> {
    let compiled = Command::new("tcpdump")
        .env("PATH", path)
        .args(["-y", "EN10MB", "-ddd", "--", expression])
        .stdin(Stdio::null())
        .output();
    let output = compiled.map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            "libpcap compiles expressions, and neither it (package libpcap0.8) nor \
                                tcpdump (package tcpdump) is installed"
                .to_owned()
        }
        _ => format!("tcpdump: {error}"),
    })?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.trim().lines().last().unwrap_or_default();
        let last = last.trim_start_matches("tcpdump: ");
        return Err(format!("`{expression}` is no filter expression: {last}"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Program::parse(&text).map_err(|error| format!("tcpdump -ddd: {error}"))
}

/// Compiles an expression with one of the libraries, or with tcpdump if none can be loaded.
fn compile_by(libraries: &[&CStr], path: &str, expression: &str) -> Result<Program, String> {
    let Some(library) = Library::load(libraries) else {
        return by_tcpdump(expression, path);
    };
    let refused =
        |why: &dyn std::fmt::Display| format!("`{expression}` is no filter expression: {why}");
    let text = CString::new(expression).map_err(|_| refused(&"it contains a zero byte"))?;
    let instructions = library.compile(&text).map_err(|why| refused(&why))?;
    Program::new(instructions).map_err(|error| format!("libpcap: {error}"))
}

/// Compiles an expression for Ethernet frames.
pub fn compile(expression: &str) -> Result<Program, String> {
    let path = std::env::var("PATH").unwrap_or_default();
    // Debian's tcpdump was in /usr/sbin, which is not in the PATH of ordinary users.
    compile_by(LIBRARIES, &format!("{path}:/usr/bin:/usr/sbin"), expression)
}

/// Compiles the words of a command line. Returns `None` without words.
pub fn compile_words(words: &[String]) -> Result<Option<Program>, String> {
    match words.is_empty() {
        true => Ok(None),
        false => compile(&words.join(" ")).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: &[&CStr] = &[c"libpcap.so.none"];
    const PATH: &str = "/usr/bin:/usr/sbin";

    fn skipped(what: &str) -> bool {
        let all = std::env::var("WEIR_REQUIRE_ALL").as_deref() == Ok("1");
        assert!(!all, "{what} is not installed");
        eprintln!("SKIPPED: {what} is not installed");
        true
    }

    #[test]
    fn the_library_and_tcpdump_compile_the_same() {
        let loads = Library::load(LIBRARIES).is_some() || !skipped("libpcap0.8");
        let runs = Command::new("tcpdump")
            .env("PATH", PATH)
            .arg("--version")
            .output()
            .is_ok()
            || !skipped("tcpdump");
        for expression in [
            "tcp port 80",
            "vlan 7 and udp",
            "ip6 host fd00::1 or arp",
            "ether src 02:00:00:00:00:01",
            "greater 100 and icmp[0] == 8",
        ] {
            if loads {
                let ours = compile_by(LIBRARIES, "", expression).unwrap();
                if runs {
                    assert_eq!(
                        ours,
                        compile_by(NONE, PATH, expression).unwrap(),
                        "{expression}"
                    );
                }
            }
        }
        for (wrong, libraries) in [
            ("tcp prot 80", LIBRARIES),
            ("tcp prot 80", NONE),
            ("ip and", LIBRARIES),
        ] {
            if if libraries == NONE { runs } else { loads } {
                let error = compile_by(libraries, PATH, wrong).unwrap_err();
                assert!(
                    error.starts_with(&format!("`{wrong}` is no filter expression: ")),
                    "{error}"
                );
                assert!(error.contains("syntax error"), "{error}");
            }
        }
        if loads {
            let error = compile_by(LIBRARIES, "", "ip\0").unwrap_err();
            assert!(error.contains("zero byte"), "{error}");
        }
    }

    #[test]
    fn without_either_an_expression_is_refused() {
        let error = compile_by(NONE, "/nonexistent", "tcp").unwrap_err();
        assert_eq!(
            error,
            "libpcap compiles expressions, and neither it (package libpcap0.8) nor tcpdump (package tcpdump) is installed"
        );
    }
}
