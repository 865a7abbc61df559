//! A configuration file that changes again and again.

use crate::torture::{Stage, daemon, pause};
use rustix::process::Signal;
use std::fs::File;
use std::io::Write;

pub const ROUNDS: u64 = 20;

/// Rewrites the file in a loop. The daemon is killed before round `kill_at`.
pub fn rewrite(stage: &mut Stage, kill_at: Option<u64>) -> Result<(), String> {
    for round in 0..ROUNDS {
        if Some(round) == kill_at {
            stage.daemon.end(Signal::KILL);
        }
        stage.world.value = 1 + (stage.world.value + stage.dice.below(100) as u8) % 120;
        write(stage).map_err(|it| it.to_string())?;
        pause(stage.dice.below(30));
    }
    Ok(())
}

/// Writes the file in two pieces, as some editors do. The first piece ends at a random place after
/// `[[modes]]`, so that it may be a complete file.
fn write(stage: &mut Stage) -> std::io::Result<()> {
    let text = daemon::config(&stage.world);
    let modes = text.find("[[modes]]").unwrap_or(0);
    let cut = modes + stage.dice.below((text.len() - modes) as u64) as usize;
    let mut file = File::create(stage.daemon.home.join("config.toml"))?;
    file.write_all(&text.as_bytes()[..cut])?;
    pause(2);
    file.write_all(&text.as_bytes()[cut..])
}
