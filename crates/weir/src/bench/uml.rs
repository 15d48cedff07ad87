// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Linux 6.1 in User-Mode Linux (Debian's `user-mode-linux`) as a peer: an ordinary process that boots with a script as
//! its only work.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use super::folder::Folder;

/// The name of the peer.
pub const PEER: &str = "linux 6.1 (UML)";

/// Boots the kernel, runs a script of bash in it, and returns the figures that the script prints: those of each line that
/// begins with `figures `. In the script `$weir` is this program, and `load NAME...` loads modules and what they need.
/// The kernel has 1 GiB of memory, which the host provides as it is touched, and may run for `seconds`.
///
/// # Errors
/// A sentence for a note: why the peer is left out.
pub fn boot(script: &str, seconds: u32) -> Result<Vec<Vec<f64>>, String> {
    let left_out = |why: &str| format!("Linux 6.1 left out: {why}");
    let system = |error: std::io::Error| left_out(&error.to_string());
    let folder = Folder::new("uml")?;
    let (init, output) = (folder.path().join("init"), folder.path().join("figures"));
    let weir = std::env::current_exe().map_err(system)?;
    let text = format!(
        "#!/bin/bash\n\
         export PATH=/usr/sbin:/usr/bin:/sbin:/bin weir='{}'\n\
         mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs tmpfs /run\n\
         mkdir -p /run/modules/lib; ln -s /usr/lib/uml/modules /run/modules/lib/modules\n\
         load() {{ for module; do modprobe -d /run/modules $module; done; }}\n\
         ( set -e\n{script}\n) >'{}' 2>&1\n\
         sync; poweroff -f\n",
        weir.display(),
        output.display(),
    );
    std::fs::write(&init, text).map_err(system)?;
    std::fs::set_permissions(&init, std::fs::Permissions::from_mode(0o755)).map_err(system)?;
    let ran = Command::new("timeout")
        .args(["-k", "5", &seconds.to_string(), "linux.uml", "mem=1G"])
        .args(["rootfstype=hostfs", "rootflags=/", "rw"])
        .arg(format!("init={}", init.display()))
        .args(["con=null", "con0=null,null", "quiet"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(system)?;
    match ran.code() {
        // `timeout` did not find it.
        Some(127) => {
            return Err(left_out(
                "User-Mode Linux (package user-mode-linux) is not installed",
            ));
        }
        Some(124 | 137) => return Err(left_out(&format!("it did not end in {seconds} s"))),
        _ => {}
    }
    let text = std::fs::read_to_string(output).unwrap_or_default();
    let lines = figures(&text);
    if !lines.is_empty() {
        return Ok(lines);
    }
    Err(left_out(match text.trim().lines().last() {
        Some(said) => said,
        None => {
            "it did not run here; it needs the packages user-mode-linux, kmod and iproute2, and 1 GiB in /dev/shm"
        }
    }))
}

/// Returns the figures of the lines that begin with `figures `.
fn figures(text: &str) -> Vec<Vec<f64>> {
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("figures "));
    lines
        .map(|line| {
            line.split(' ')
                .filter_map(|word| word.parse().ok())
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::figures;

    #[test]
    fn the_figures_of_each_line_are_read() {
        let text = "weir bench x on y\n\nfigures 1.5 2\nno figures 3\nfigures 4\n";
        assert_eq!(figures(text), [vec![1.5, 2.0], vec![4.0]]);
        assert!(figures("Error: Unknown device type.\n").is_empty());
    }
}
