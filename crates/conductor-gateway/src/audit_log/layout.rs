//! Paths and file names of the audit log in a home.

use std::io;
use std::path::{Path, PathBuf};

use super::files::Files;

#[derive(Debug, Clone)]
pub struct Layout {
    pub home: PathBuf,
    pub audit: PathBuf,
    pub state: PathBuf,
    pub secrets: PathBuf,
}

impl Layout {
    pub fn of(home: &Path) -> Self {
        Self {
            home: home.to_owned(),
            audit: home.join("audit"),
            state: home.join("state"),
            secrets: home.join("secrets"),
        }
    }

    pub fn segment(&self, number: u32) -> PathBuf {
        self.audit.join(segment_name(number))
    }

    pub fn checkpoints(&self) -> PathBuf {
        self.state.join("checkpoints.jsonl")
    }

    pub fn salt(&self) -> PathBuf {
        self.state.join("audit.salt")
    }

    pub fn public_key(&self) -> PathBuf {
        self.state.join("audit.pub")
    }

    pub fn signing_key(&self) -> PathBuf {
        self.secrets.join("audit.key")
    }

    /// The public path of the log: a relative link to the segment being written.
    pub fn link(&self) -> PathBuf {
        self.home.join("audit.log")
    }

    /// Numbers of the segments that exist, ascending.
    pub fn segments(&self, files: &dyn Files) -> io::Result<Vec<u32>> {
        segments_in(files, &self.audit)
    }

    /// The segment that the link points to, if there is one.
    pub fn linked(&self, files: &dyn Files) -> Option<u32> {
        let target = files.read_link(&self.link()).ok()?;
        segment_number(target.strip_prefix("audit/")?)
    }
}

pub fn segment_name(number: u32) -> String {
    format!("{number:06}.jsonl")
}

pub fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".jsonl")?;
    let plain = digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|number| plain && *number > 0)?;
    (segment_name(number) == name).then_some(number)
}

/// Numbers of the segments in `dir`, ascending. A missing directory has no segments.
pub fn segments_in(files: &dyn Files, dir: &Path) -> io::Result<Vec<u32>> {
    let names = match files.names(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names?,
    };
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(segment_number(&segment_name(1)), Some(1));
        assert_eq!(segment_number(&segment_name(1_234_567)), Some(1_234_567));
        for name in ["000000.jsonl", "1.jsonl", "0000001.jsonl", "+00001.jsonl", "000001.json", "torn-4.bin", ""] {
            assert_eq!(segment_number(name), None, "{name}");
        }
    }
}
