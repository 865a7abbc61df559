//! Faults of the disk that contains the home.

use crate::torture::daemon::{self, Disk};
use crate::torture::{Stage, pause};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::Write;

pub fn tear_line(stage: &mut Stage) -> Result<(), String> {
    stage.daemon.end(Signal::KILL);
    let segment = stage.daemon.segment().ok_or("there is no audit log")?;
    let bytes = fs::read(&segment).map_err(|it| it.to_string())?;
    let last = bytes.trim_ascii_end().rsplit(|it| *it == b'\n').next().unwrap_or_default();
    let length = stage.dice.below(last.len() as u64) as usize;
    append(stage, &last[..length])
}

pub fn tear_sector(stage: &mut Stage) -> Result<(), String> {
    stage.daemon.end(Signal::KILL);
    let zeros = vec![0; 1 + stage.dice.below(511) as usize];
    append(stage, &zeros)
}

fn append(stage: &Stage, torn: &[u8]) -> Result<(), String> {
    let segment = stage.daemon.segment().ok_or("there is no audit log")?;
    let file = File::options().append(true).open(segment);
    file.and_then(|mut it| it.write_all(torn)).map_err(|it| it.to_string())
}

pub fn fill(stage: &mut Stage) -> Result<(), String> {
    let ballast = stage.daemon.home.join("ballast");
    let mut file = File::create(&ballast).map_err(|it| it.to_string())?;
    for size in [1 << 20, 1 << 12, 1 << 6, 1] {
        let block = vec![1; size];
        while file.write(&block).is_ok_and(|it| it == size) {}
    }
    pause(100 + stage.dice.below(200));
    fs::remove_file(ballast).map_err(|it| it.to_string())
}

pub fn make_read_only(stage: &mut Stage) -> Result<(), String> {
    // Open files prevent a remount while the daemon runs. A disk that becomes read-only under a
    // running daemon reports errors, as the fault `WritesFail` does.
    stage.daemon.end(Signal::TERM);
    if !daemon::remount(&stage.daemon.home, "ro") {
        return Err("the home cannot be made read-only".to_owned());
    }
    // A daemon without a writable home may refuse to start, or run without a log.
    let _ = stage.daemon.start();
    pause(100);
    stage.daemon.end(Signal::KILL);
    daemon::remount(&stage.daemon.home, "rw");
    Ok(())
}

/// Makes the disk fail for a short time.
pub fn fail(stage: &mut Stage, how: Disk) {
    stage.daemon.set_disk(how);
    pause(100 + stage.dice.below(200));
    stage.daemon.set_disk(Disk::Works);
}
