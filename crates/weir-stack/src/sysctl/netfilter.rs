// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `net.netfilter.nf_conntrack_*` and `net.nf_conntrack_max`: the settings of a namespace's connections.
//!
//! Mirrors net/netfilter/nf_conntrack_standalone.c. The table's limits (`nf_conntrack_max`,
//! `nf_conntrack_expect_max`) hold for all namespaces. They can be written in the initial one, and so can
//! `nf_conntrack_buckets`, whose value has no effect. Other names of `net.netfilter` are in `names.tsv`.

use weir_conntrack::Setting;
use weir_conntrack::settings::Kind;
use weir_netlink::errno;

use crate::namespace::Namespace;
use crate::stack::Stack;

const FOLDER: &str = "netfilter/";
const COUNT: &str = "netfilter/nf_conntrack_count";
const BUCKETS: &str = "netfilter/nf_conntrack_buckets";
/// A second name of `nf_conntrack_max`, in the initial namespace.
const MAX: &str = "nf_conntrack_max";

/// A file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum File {
    Setting(Setting),
    /// The number of connections.
    Count,
    /// The number of buckets of the table.
    Buckets,
}

/// Returns all paths.
pub(super) fn paths() -> impl Iterator<Item = String> {
    let settings = Setting::ALL.iter();
    settings
        .map(|setting| format!("{FOLDER}{}", setting.file()))
        .chain([COUNT, BUCKETS, MAX].map(str::to_owned))
}

/// Returns the file at a path.
pub(super) fn file(path: &str) -> Option<File> {
    match path {
        COUNT => Some(File::Count),
        BUCKETS => Some(File::Buckets),
        MAX => Some(File::Setting(Setting::max)),
        _ => {
            let name = path.strip_prefix(FOLDER)?;
            let setting = Setting::ALL.iter().find(|setting| setting.file() == name);
            setting.copied().map(File::Setting)
        }
    }
}

/// Returns whether a path exists in the initial namespace only.
pub(super) fn is_global(path: &str) -> bool {
    path == MAX
}

/// Returns whether a namespace may write a file.
pub(super) fn is_writable(ns: &Namespace, file: File) -> bool {
    match file {
        File::Count => false,
        File::Buckets => ns.id == Stack::INITIAL,
        File::Setting(setting) => ns.id == Stack::INITIAL || !setting.is_shared(),
    }
}

/// Reads a file.
pub(super) fn read(ns: &Namespace, file: File) -> u64 {
    let table = ns.tc.conntrack_if_used();
    let settings = ns.tc.conntrack_settings();
    match file {
        File::Setting(setting) => settings.get(setting).into(),
        File::Count => table.map_or(0, |table| table.count()).into(),
        File::Buckets => match table {
            Some(table) => table.buckets() as u64,
            None => settings.get(Setting::max).into(),
        },
    }
}

/// Writes a file. The error is an errno.
pub(super) fn write(stack: &Stack, ns: &Namespace, file: File, value: i32) -> Result<(), i32> {
    if !is_writable(ns, file) {
        return Err(errno::EACCES);
    }
    let File::Setting(setting) = file else {
        return Ok(());
    };
    let most = match setting {
        Setting::events => 2,
        _ => match setting.kind() {
            Kind::Flag => 1,
            Kind::Byte => 255,
            Kind::Int | Kind::Seconds => i32::MAX,
        },
    };
    if !(0..=most).contains(&value) {
        return Err(errno::EINVAL);
    }
    ns.tc.conntrack_settings().set(setting, value as u32);
    if setting.is_shared() {
        // Namespaces made from now on find the value there.
        ns.tc.set_conntrack_limit(setting, value as u32);
        for other in stack.all_namespaces() {
            other.tc.conntrack_settings().set(setting, value as u32);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tree::{self, Node};
    use super::*;
    use crate::stack::Config;

    #[test]
    fn limits_are_shared_and_time_outs_are_not() {
        let stack = crate::build(Config::default());
        let initial = stack.namespace(Stack::INITIAL).unwrap();
        let other = stack.create_namespace();
        let established = "netfilter/nf_conntrack_tcp_timeout_established";
        let max = "netfilter/nf_conntrack_max";
        assert_eq!(tree::read(&other, established).as_deref(), Ok("432000\n"));
        assert_eq!(tree::write(&stack, &other, established, b"77\n"), Ok(()));
        assert_eq!(tree::read(&other, established).as_deref(), Ok("77\n"));
        assert_eq!(tree::read(&initial, established).as_deref(), Ok("432000\n"));
        assert_eq!(tree::write(&stack, &initial, max, b"5000"), Ok(()));
        assert_eq!(tree::read(&initial, MAX).as_deref(), Ok("5000\n"));
        assert_eq!(tree::read(&other, max).as_deref(), Ok("5000\n"));
        let new = stack.create_namespace();
        assert_eq!(tree::read(&new, max).as_deref(), Ok("5000\n"));
        assert_eq!(tree::read(&new, established).as_deref(), Ok("432000\n"));
        assert_eq!(tree::write(&stack, &other, max, b"1"), Err(errno::EACCES));
        assert_eq!(tree::read(&other, MAX), Err(errno::ENOENT));
        assert_eq!(tree::lookup(&other, max), Some(Node::File(false)));
        assert_eq!(tree::lookup(&initial, max), Some(Node::File(true)));
        assert_eq!(tree::lookup(&initial, COUNT), Some(Node::File(false)));
        let acct = "netfilter/nf_conntrack_acct";
        assert_eq!(
            tree::write(&stack, &initial, acct, b"2"),
            Err(errno::EINVAL)
        );
        assert_eq!(tree::write(&stack, &initial, acct, b"1"), Ok(()));
        let listed = tree::list(&initial, "netfilter").unwrap();
        assert!(listed.contains(&"nf_log".to_owned()) && listed.len() > 50);
    }
}
