// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A directory for the files of programs that a benchmark runs.

use std::path::{Path, PathBuf};

/// A directory that is removed on drop.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates the directory.
    pub fn new(name: &str) -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("weir-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.0.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns the seconds between the times in the files `start` and `end`.
    pub fn seconds(&self) -> Result<f64, String> {
        let time = |name| {
            let text = std::fs::read_to_string(self.0.join(name)).ok()?;
            text.trim().parse::<f64>().ok()
        };
        match (time("start"), time("end")) {
            (Some(start), Some(end)) if end > start => Ok((end - start) / 1e9),
            _ => Err("tc did not finish".into()),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A directory left behind in /tmp does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
