// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of fragments that wait for reassembly, and how long those of connection tracking wait:
//! `net.ipv4.ipfrag_{high,low}_thresh`, `net.ipv6.ip6frag_{high,low}_thresh`, and
//! `net.netfilter.nf_conntrack_frag6_{high_thresh,low_thresh,timeout}`.
//!
//! Mirrors net/ipv4/ip_fragment.c, net/ipv6/reassembly.c and net/ipv6/netfilter/nf_conntrack_reasm.c. The lower limit
//! has no effect, as in Linux 6.1; it only bounds the upper one.

use weir_netlink::errno;

use crate::fragments::Limits;
use crate::ipv4::WithIpv4;
use crate::ipv6::WithIpv6;
use crate::namespace::Namespace;

/// Whose fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Ipv4,
    Ipv6,
    Conntrack,
}

/// Which value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    High,
    Low,
    Seconds,
}

/// A file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct File(Of, What);

const FILES: [(&str, File); 7] = [
    ("ipv4/ipfrag_high_thresh", File(Of::Ipv4, What::High)),
    ("ipv4/ipfrag_low_thresh", File(Of::Ipv4, What::Low)),
    ("ipv6/ip6frag_high_thresh", File(Of::Ipv6, What::High)),
    ("ipv6/ip6frag_low_thresh", File(Of::Ipv6, What::Low)),
    (
        "netfilter/nf_conntrack_frag6_high_thresh",
        File(Of::Conntrack, What::High),
    ),
    (
        "netfilter/nf_conntrack_frag6_low_thresh",
        File(Of::Conntrack, What::Low),
    ),
    (
        "netfilter/nf_conntrack_frag6_timeout",
        File(Of::Conntrack, What::Seconds),
    ),
];

/// Returns all paths.
pub(super) fn paths() -> impl Iterator<Item = String> {
    FILES.iter().map(|(path, _)| (*path).to_owned())
}

/// Returns the file at a path.
pub(super) fn file(path: &str) -> Option<File> {
    let found = FILES.iter().find(|(name, _)| *name == path);
    found.map(|(_, file)| *file)
}

fn limits(ns: &Namespace, of: Of) -> &Limits {
    match of {
        Of::Ipv4 => &ns.ipv4().fragments().limits,
        Of::Ipv6 => &ns.ipv6().fragments().limits,
        Of::Conntrack => &ns.ipv6().tracked_fragments().limits,
    }
}

/// Reads a file.
pub(super) fn read(ns: &Namespace, File(of, what): File) -> u64 {
    let limits = limits(ns, of);
    match what {
        What::High => limits.high(),
        What::Low => limits.low(),
        What::Seconds => limits.seconds().into(),
    }
}

/// Writes a file (`proc_doulongvec_minmax`, `proc_dointvec_jiffies`). The error is an errno.
pub(super) fn write(ns: &Namespace, File(of, what): File, text: &str) -> Result<(), i32> {
    let number: u64 = text.parse().map_err(|_| errno::EINVAL)?;
    let limits = limits(ns, of);
    let valid = match what {
        What::High => limits.set_high(number),
        What::Low => limits.set_low(number),
        What::Seconds => {
            // A number of jiffies has to fit an `int`.
            let seconds = u32::try_from(number).map_err(|_| errno::EINVAL)?;
            let valid = seconds <= (i32::MAX / 100) as u32;
            if valid {
                limits.set_seconds(seconds);
            }
            valid
        }
    };
    valid.then_some(()).ok_or(errno::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use crate::stack::{Config, Stack};

    #[test]
    fn limits_bound_each_other() {
        let stack = crate::build(Config::default());
        let ns = stack.namespace(Stack::INITIAL).unwrap();
        let other = stack.create_namespace();
        for folder in [
            "ipv4/ipfrag",
            "ipv6/ip6frag",
            "netfilter/nf_conntrack_frag6",
        ] {
            let [high, low] = ["high", "low"].map(|which| format!("{folder}_{which}_thresh"));
            let write = |path: &str, text: &[u8]| tree::write(&stack, &ns, path, text);
            assert_eq!(tree::read(&ns, &high).as_deref(), Ok("4194304\n"));
            assert_eq!(tree::read(&ns, &low).as_deref(), Ok("3145728\n"));
            assert!(write(&high, b"3145727\n").is_err());
            assert!(write(&low, b"4194305").is_err());
            assert!(write(&low, b"-1").is_err());
            assert_eq!(write(&low, b"0"), Ok(()));
            assert_eq!(write(&high, b"5000000000"), Ok(()));
            assert_eq!(tree::read(&ns, &high).as_deref(), Ok("5000000000\n"));
            assert_eq!(tree::read(&other, &high).as_deref(), Ok("4194304\n"));
        }
        let timeout = "netfilter/nf_conntrack_frag6_timeout";
        assert_eq!(tree::write(&stack, &ns, timeout, b"5"), Ok(()));
        assert_eq!(tree::read(&ns, timeout).as_deref(), Ok("5\n"));
        assert_eq!(tree::read(&other, timeout).as_deref(), Ok("60\n"));
        let listed = tree::list(&ns, "netfilter").unwrap();
        assert!(
            listed
                .iter()
                .any(|name| name == "nf_conntrack_frag6_timeout")
        );
    }
}
