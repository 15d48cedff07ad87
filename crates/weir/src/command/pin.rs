// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir up --pin`: the processors that stack CPUs run on.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Parses a list of processors such as `0-3,6`, without repetition.
fn parse(list: &str) -> Result<Vec<usize>, String> {
    let bad = |why: &str| format!("--pin {list}: {why}");
    let number = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| digits);
        number.ok_or_else(|| bad("not a list of processors such as 0-3,6"))
    };
    let mut all = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (number(first)?, number(last)?);
        if last >= CpuSet::MAX_CPU {
            return Err(bad(&format!("there is no processor {last}")));
        }
        if first > last {
            return Err(bad(&format!("{first}-{last} ends before it begins")));
        }
        for processor in first..=last {
            if all.contains(&processor) {
                return Err(bad(&format!("processor {processor} is named twice")));
            }
            all.push(processor);
        }
    }
    Ok(all)
}

/// Formats processors as a list.
fn shown(all: &[usize]) -> String {
    let all: Vec<_> = all.iter().map(usize::to_string).collect();
    all.join(",")
}

/// Chooses a processor for each of `cpus` stack CPUs: those of the list, or those this process may use.
pub fn choose(list: Option<&str>, cpus: usize) -> Result<Vec<usize>, String> {
    let allowed = sched_getaffinity(None).map_err(|error| format!("--pin: {error}"))?;
    let allowed: Vec<_> = (0..CpuSet::MAX_CPU)
        .filter(|processor| allowed.is_set(*processor))
        .collect();
    choose_from(list, cpus, &allowed)
}

fn choose_from(list: Option<&str>, cpus: usize, allowed: &[usize]) -> Result<Vec<usize>, String> {
    let mut chosen = match list {
        Some(list) => parse(list)?,
        None => allowed.to_vec(),
    };
    if let Some(other) = chosen.iter().find(|one| !allowed.contains(one)) {
        return Err(format!(
            "--pin: this process may not use processor {other}; it may use {}",
            shown(allowed)
        ));
    }
    if chosen.len() < cpus {
        return Err(format!(
            "--pin: {cpus} stack CPUs need {cpus} processors, and {} has {}",
            list.unwrap_or("this process"),
            chosen.len()
        ));
    }
    chosen.truncate(cpus);
    Ok(chosen)
}

/// Pins the calling thread to a processor.
pub fn pin(processor: usize) -> std::io::Result<()> {
    let mut only = CpuSet::new();
    only.set(processor);
    Ok(sched_setaffinity(None, &only)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_chosen_in_the_order_of_the_list() {
        let allowed = [0, 1, 2, 3, 6];
        let choose = |list, cpus| choose_from(list, cpus, &allowed);
        assert_eq!(choose(None, 2), Ok(vec![0, 1]));
        assert_eq!(choose(Some("6,0-2"), 3), Ok(vec![6, 0, 1]));
        for (list, why) in [
            ("", "not a list"),
            ("1-", "not a list"),
            ("+1", "not a list"),
            ("a", "not a list"),
            ("3-1", "ends before it begins"),
            ("0-2,1", "processor 1 is named twice"),
            ("9999999", "no processor 9999999"),
            ("99999999999999999999", "not a list"),
            ("4", "may not use processor 4; it may use 0,1,2,3,6"),
            ("0", "2 stack CPUs need 2 processors, and 0 has 1"),
        ] {
            let error = choose(Some(list), 2).unwrap_err();
            assert!(error.contains(why), "{list}: {error}");
        }
        assert!(choose(None, 6).unwrap_err().contains("this process has 5"));
    }

    #[test]
    fn a_thread_is_pinned() {
        let processor = choose(None, 1).unwrap()[0];
        let pinned = std::thread::spawn(move || {
            pin(processor).unwrap();
            let now = sched_getaffinity(None).unwrap();
            (now.count(), now.is_set(processor))
        });
        assert_eq!(pinned.join().unwrap(), (1, true));
    }
}
