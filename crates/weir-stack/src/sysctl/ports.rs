// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Local ports: `ip_local_reserved_ports` (`proc_do_large_bitmap`) and `ip_unprivileged_port_start`.

/// Ports that are not chosen for sockets.
pub(super) const RESERVED: &str = "ipv4/ip_local_reserved_ports";
/// The first port that needs no privilege. The range of local ports begins there at the earliest.
pub(super) const FIRST_UNPRIVILEGED: &str = "ipv4/ip_unprivileged_port_start";

/// Returns a list of ports and ranges in its shortest form, or `None` if it is none.
pub(super) fn normalized(text: &str) -> Option<String> {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    let list = text.strip_suffix(',').unwrap_or(text);
    if !list.is_empty() {
        for part in list.split(',') {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let port = |text: &str| {
                let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                digits.then(|| text.parse::<u16>().ok()).flatten()
            };
            let range = (port(low)?, port(high)?);
            if range.0 > range.1 {
                return None;
            }
            ranges.push(range);
        }
    }
    ranges.sort_unstable();
    let mut joined: Vec<(u16, u16)> = Vec::new();
    for (low, high) in ranges {
        match joined.last_mut() {
            Some(last) if u32::from(low) <= u32::from(last.1) + 1 => last.1 = last.1.max(high),
            _ => joined.push((low, high)),
        }
    }
    let text = joined.iter().map(|(low, high)| match low == high {
        true => low.to_string(),
        false => format!("{low}-{high}"),
    });
    Some(text.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::normalized;

    #[test]
    fn lists_are_joined() {
        let of = |text| normalized(text);
        assert_eq!(of("9,3-5,6,4").as_deref(), Some("3-6,9"));
        assert_eq!(of("").as_deref(), Some(""));
        assert_eq!(of("0-65535").as_deref(), Some("0-65535"));
        for wrong in ["5-3", "65536", "1,2x", "1, 2", "-5", "5-", "x"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
