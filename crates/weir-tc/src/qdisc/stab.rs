// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A size table: the number of bytes that a packet counts for in a tree of qdiscs (`TCA_STAB`, `tc
//! ... stab`; `qdisc_get_stab`, `__qdisc_calculate_pkt_len` of net/sched/sch_api.c).
//!
//! Only a root qdisc has one. The size of a packet by the table is stored in the packet's scratch
//! word (`cb`) when it enters the tree. `tc` computes the entries of the table and their padding
//! (`mpu`, `mtu`, `linklayer`).

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, stab as attr};
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Strictness, TcSizeSpec, Writer, policy};

/// Largest logarithm in a table (`STAB_SIZE_LOG_MAX`).
const LOG_MAX: u8 = 30;

/// Policy of `TCA_STAB` (`stab_policy`).
static POLICY: Policy = policy! {
    max attr::MAX;
    attr::BASE => Rule::unspec(24),
    attr::DATA => Rule::binary(0),
};

/// A size table.
#[derive(Debug, PartialEq, Eq)]
pub struct SizeTable {
    spec: TcSizeSpec,
    data: Box<[u16]>,
}

fn invalid(text: &'static str) -> Error {
    Error::msg(EINVAL, text)
}

impl SizeTable {
    /// Parses `TCA_STAB`.
    ///
    /// # Errors
    /// EINVAL with a sentence for wrong or missing parts.
    pub fn parse(nest: &Attr<'_>) -> Result<Self, Error> {
        let attrs = nest.parse(&POLICY, Strictness::Liberal)?;
        let spec = attrs
            .get(attr::BASE)
            .and_then(|base| TcSizeSpec::from_bytes(base.payload))
            .ok_or_else(|| invalid("Size table base parameters are missing"))?;
        let mut data: Box<[u16]> = Box::default();
        if spec.tsize > 0 {
            let table = attrs
                .get(attr::DATA)
                .ok_or_else(|| invalid("Size table data is missing"))?;
            let entries = table.payload.chunks_exact(2);
            data = entries
                .filter_map(|entry| entry.first_chunk())
                .map(|entry| u16::from_ne_bytes(*entry))
                .collect();
        }
        if data.len() != spec.tsize as usize {
            return Err(invalid("Invalid size of size table"));
        }
        if spec.size_log > LOG_MAX || spec.cell_log > LOG_MAX {
            return Err(invalid("Invalid logarithmic size of size table"));
        }
        Ok(Self { spec, data })
    }

    /// Returns the number of bytes, at least 1, that a packet of `len` bytes counts for.
    #[inline]
    pub fn len(&self, len: u32) -> u32 {
        let spec = &self.spec;
        let mut counts = i64::from(len) + i64::from(spec.overhead);
        if let Some(last) = self.data.last() {
            let slot = (counts + i64::from(spec.cell_align)).max(0) as usize >> spec.cell_log;
            let size = self.data.len();
            // Past its end the table is continued as often as needed.
            let past = || {
                let rest = self.data.get(slot % size).copied().unwrap_or(0);
                i64::from(*last) * (slot / size) as i64 + i64::from(rest)
            };
            let found = self.data.get(slot).map_or_else(past, |len| i64::from(*len));
            counts = found << spec.size_log;
        }
        counts.clamp(1, i64::from(i32::MAX)) as u32
    }

    /// Writes the table's parameters (`qdisc_dump_stab`).
    pub fn dump(&self, w: &mut Writer) {
        let nest = w.nest_noflag(tca::STAB);
        w.put_fixed(attr::BASE, &self.spec);
        w.end(nest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(spec: TcSizeSpec, data: &[u16]) -> SizeTable {
        let spec = TcSizeSpec {
            tsize: data.len() as u32,
            ..spec
        };
        SizeTable {
            spec,
            data: data.into(),
        }
    }

    #[test]
    fn overhead_alone() {
        let with = |overhead| {
            table(
                TcSizeSpec {
                    overhead,
                    ..TcSizeSpec::default()
                },
                &[],
            )
        };
        assert_eq!(with(24).len(100), 124);
        assert_eq!(with(-14).len(100), 86);
        assert_eq!(with(-200).len(100), 1);
    }

    #[test]
    fn a_table_and_past_its_end() {
        let spec = TcSizeSpec {
            cell_log: 4,
            size_log: 1,
            cell_align: -1,
            overhead: 10,
            ..TcSizeSpec::default()
        };
        let table = table(spec, &[53, 106, 159, 212]);
        // (22 + 10 - 1) >> 4 = 1
        assert_eq!(table.len(22), 212);
        assert_eq!(table.len(0), 106);
        // (100 + 9) >> 4 = 6 = 4 + 2
        assert_eq!(table.len(100), (212 + 159) * 2);
    }
}
