//! The JACK server is killed while a note sounds.

use crate::real::PATIENCE;
use crate::torture::checks::{Breach, NO_STUCK_NOTE};
use crate::torture::control::Client;
use crate::torture::parts::Jack;
use crate::torture::{RECOVERY, Stage, pause, until};
use serde_json::json;

/// The pad whose note goes to the JACK server, and the number of that note.
pub const PAD: u8 = 39;
pub const NOTE: u8 = 64;

pub fn kill(stage: &mut Stage) -> Result<(), Breach> {
    let is_released_early = stage.dice.below(2) == 0;
    let ms = stage.dice.below(200);
    let mut hand = stage.daemon.client()?;
    press(stage, &mut hand)?;
    stage.parts.jack.as_mut().ok_or("there is no JACK")?.kill();
    // Wait until the daemon has noticed the end of the server, before the server is started again,
    // as in `tests/end_to_end/jack.rs`.
    connected(stage, false)?;
    if is_released_early {
        pause(ms);
        stage.daemon.play(&mut hand, [0x80, PAD, 0])?;
    }
    stage.parts.jack.as_mut().ok_or("there is no JACK")?.start_again().map_err(|it| it.to_string())?;
    // Request a scan: by itself, the daemon looks for a server only after a delay that grows with
    // each attempt.
    let mut client = stage.daemon.client()?;
    client.call("conductor_scan_ports", json!({})).map_err(|it| it.to_string())?;
    connected(stage, true)?;
    if !is_released_early {
        stage.daemon.play(&mut hand, [0x80, PAD, 0])?;
    }
    let stuck = |text: String| Breach { invariant: NO_STUCK_NOTE, text: format!("at the JACK server: {text}") };
    jack(stage)?.hear(0x80, NOTE, PATIENCE).map_err(stuck)?;
    // The port still plays notes.
    press(stage, &mut hand)?;
    stage.daemon.play(&mut hand, [0x80, PAD, 0])?;
    jack(stage)?.hear(0x80, NOTE, PATIENCE).map_err(stuck)
}

/// Presses the pad, and waits until the listener hears the note.
fn press(stage: &Stage, hand: &mut Client) -> Result<(), Breach> {
    connected(stage, true)?;
    stage.daemon.play(hand, [0x90, PAD, 100])?;
    Ok(jack(stage)?.hear(0x90, NOTE, PATIENCE)?)
}

fn jack(stage: &Stage) -> Result<&Jack, Breach> {
    stage.parts.jack.as_ref().ok_or_else(|| "there is no JACK".into())
}

/// Waits until the daemon is connected to the port of the listener (`wanted`), or is not connected.
pub fn connected(stage: &Stage, wanted: bool) -> Result<(), String> {
    until(RECOVERY, || {
        let mut client = stage.daemon.client()?;
        let rows = client.call("conductor_list_device_bindings", json!({})).map_err(|it| it.to_string())?;
        let mut rows = rows["device_bindings"].as_array().into_iter().flatten();
        let is_connected = rows.any(|it| it["device_id"] == "box" && it["connected"] == true);
        if is_connected == wanted { Ok(()) } else { Err(format!("the JACK output: connected {is_connected}")) }
    })
}
