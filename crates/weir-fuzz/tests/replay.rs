// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs every file of the fuzz corpora and seeded mutations of each through its target. The
//! requests of real `ip` and `tc` that weir-netlink and weir-tc keep as test vectors are part of
//! the netlink corpus.
//!
//! `WEIR_FUZZ_ROUNDS` sets how many mutations of each file are tried (default 16), and `WEIR_FUZZ_TARGET` runs one
//! target only. A failure names
//! the file and saves the input in the temporary folder, ready for the corpus.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::{env, fs};

use weir_fuzz::netlink::Benches;
use weir_fuzz::{TARGETS, Target, router};
use weir_netlink::messages;
use weir_stack::connection::NoPeer;
use weir_stack::{Config, Connection, Stack};

/// Folders of recorded requests, relative to `crates`; ci/fuzz starts from them, too.
const VECTORS: [&str; 3] = [
    "weir-netlink/tests/vectors",
    "weir-tc/tests/vectors",
    "weir-tc/tests/actions",
];

/// SplitMix64. A mutation depends only on its file and number.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Applies a few common mutations: bit flips, extreme bytes and words, truncations, duplications.
fn mutate(input: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            2 if bytes.len() >= 4 => {
                let at = at.min(bytes.len() - 4);
                let word = [0, 1, 3, 0x7fff_ffff, u32::MAX, random.next() as u32][random.below(6)];
                bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
            3 => bytes.truncate(at),
            4 => {
                let piece = bytes[at..].iter().take(64).copied().collect::<Vec<u8>>();
                bytes.splice(at..at, piece);
            }
            _ => {
                let end = (at + random.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
    bytes
}

/// Runs an input; those of the target netlink on `benches`.
fn run(target: &Target, benches: &mut Benches, (from, what): (&Path, &str), input: &[u8]) {
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| match target.name {
        "netlink" => benches.run(input),
        _ => (target.run)(input),
    }));
    if let Err(cause) = outcome {
        let left = env::temp_dir().join(format!("weir-fuzz-{}.crash", target.name));
        let _ = fs::write(&left, input);
        eprintln!(
            "{}: {} ({what}); input in {}",
            target.name,
            from.display(),
            left.display()
        );
        panic::resume_unwind(cause);
    }
}

/// Returns the inputs of a target, each with its name, in a fixed order.
fn inputs(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = files(&crates.join("../fuzz/corpus").join(target.name));
    if target.name == "netlink" {
        for folder in VECTORS {
            let vectors = files_of(&crates.join(folder), "vec");
            assert!(!vectors.is_empty());
            files.extend(vectors);
        }
    }
    let mut inputs = Vec::new();
    for file in files {
        let bytes = fs::read(&file).unwrap();
        if file.extension().is_some_and(|name| name == "vec") {
            for (command, datagrams) in recorded(&String::from_utf8(bytes).unwrap()) {
                inputs.push((file.join(command), datagrams));
            }
        } else {
            inputs.push((file, bytes));
        }
    }
    assert!(!inputs.is_empty(), "{}: no corpus", target.name);
    inputs
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files = entries
        .map(|entry| entry.unwrap().path())
        .collect::<Vec<_>>();
    files.sort();
    files
}

fn files_of(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = files(folder);
    files.retain(|file| file.extension().is_some_and(|name| name == extension));
    files
}

/// Returns the datagrams of each command of a vector file as an input of the netlink target with
/// extended ACKs. One more input holds the whole file, so that commands find the objects of earlier
/// ones.
fn recorded(text: &str) -> Vec<(String, Vec<u8>)> {
    let mut all = vec![("all".to_owned(), vec![1])];
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            all.push((command.to_owned(), vec![1]));
        } else if let Some(hex) = line.strip_prefix("> ") {
            let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
            let bytes = hex
                .as_bytes()
                .chunks(2)
                .map(|pair| digit(pair[0]) << 4 | digit(pair[1]));
            let bytes = bytes.collect::<Vec<u8>>();
            all[0].1.extend_from_slice(&bytes);
            all.last_mut().unwrap().1.extend_from_slice(&bytes);
        }
    }
    all
}

/// Runs the corpus of a target.
fn corpus(name: &str) {
    if env::var("WEIR_FUZZ_TARGET").is_ok_and(|only| only != name) {
        return;
    }
    let rounds = env::var("WEIR_FUZZ_ROUNDS").map_or(16, |text| text.parse().unwrap());
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let mut benches = Benches::default();
    run(target, &mut benches, (Path::new("-"), "nothing"), &[]);
    for (name, input) in inputs(target) {
        run(target, &mut benches, (&name, "as it is"), &input);
        let mut random = Random(input.iter().fold(1, |seed, byte| {
            (seed ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        }));
        for round in 0..rounds {
            let input = mutate(&input, &mut random);
            let what = format!("mutation {round}");
            run(target, &mut benches, (&name, &what), &input);
        }
    }
}

/// A test for each corpus, so that they run beside each other.
macro_rules! corpora {
    ($($name:ident)*) => {
        /// Every file of the corpora, and mutations of each.
        mod corpora {
            $(
                #[test]
                fn $name() {
                    super::corpus(stringify!($name));
                }
            )*

            #[test]
            fn every_target_is_run() {
                let names = [$(stringify!($name)),*];
                assert!(weir_fuzz::TARGETS.iter().all(|target| names.contains(&target.name)));
            }
        }
    };
}

corpora! {
    extremes frame gateway headers map netlink nfnetlink pcap port ring sockets tcp
}

/// The corpus creates a qdisc, a filter and an action of every kind.
#[test]
fn every_kind_is_created() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(crates.join("weir-tc/tests/vectors/kinds.vec")).unwrap();
    let mut sent = Vec::new();
    for (command, requests) in recorded(&text).into_iter().skip(1) {
        let stack = weir_stack::build(Config::default());
        let namespace = stack.namespace(Stack::INITIAL).unwrap();
        let mut client = Connection::new(&stack, &namespace, 1, Box::new(NoPeer), None);
        let pairs = router::PAIRS.map(router::pair);
        let made = messages(&requests[1..]).filter(|message| message.header.ty & 3 == 0);
        for request in pairs.iter().map(Vec::as_slice).chain(made.map(|m| m.bytes)) {
            assert_eq!(router::send(&mut client, request), 0, "{command}");
        }
        sent.extend(requests);
    }
    let qdiscs = weir_tc::qdisc::KINDS.iter().map(|ops| ops.kind);
    let classifiers = weir_tc::classifier::KINDS.iter().map(|ops| ops.kind);
    // tc cannot make the action `balance`. Its own tests do.
    let actions = weir_tc::action::KINDS.iter().map(|ops| ops.kind);
    let actions = actions.filter(|kind| *kind != "balance");
    for kind in qdiscs.chain(classifiers).chain(actions) {
        // `TCA_KIND`, or `TCA_ACT_KIND`.
        let length = 5 + kind.len() as u8;
        let attribute = [&[length, 0, 1, 0], kind.as_bytes(), &[0]].concat();
        let there = sent
            .windows(attribute.len())
            .any(|window| window == attribute);
        assert!(there, "{kind}");
    }
}
