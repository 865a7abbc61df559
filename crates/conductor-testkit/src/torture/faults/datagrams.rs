//! Faults of datagrams: damaged ones to the OSC input, and lost, delayed or duplicated ones between
//! the daemon and Live.
//!
//! While datagrams to Live are disturbed, the tempo is set again and again. A call may fail, but
//! an acknowledged call must have set the tempo in Live.

use crate::real::fakelive::Faults;
use crate::torture::calls::{Caller, Calls};
use crate::torture::checks::{Breach, EFFECTS};
use crate::torture::parts::Live;
use crate::torture::{Stage, pause};
use serde_json::json;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

pub fn damage(stage: &mut Stage) -> Result<(), String> {
    let dice = &mut stage.dice;
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(|it| it.to_string())?;
    let good = b"/fader/1\0\0\0\0,f\0\0\x3f\0\0\0";
    let bundle = [&b"#bundle\0\0\0\0\0\0\0\0\x01\0\0\0\x14"[..], good].concat();
    for _ in 0..200 {
        let source = if dice.below(2) == 0 { &good[..] } else { &bundle };
        let mut packet = source.to_vec();
        match dice.below(4) {
            0 => packet.truncate(dice.below(packet.len() as u64) as usize),
            1 => {
                let at = dice.below(packet.len() as u64) as usize;
                packet[at] ^= 1 << dice.below(8);
            }
            _ => {}
        }
        for _ in 0..=dice.below(2) {
            let _ = socket.send_to(&packet, ("127.0.0.1", stage.world.osc_port));
        }
    }
    Ok(())
}

/// Loses every nth datagram. If n is 1, Live seems to be silent.
pub fn lose(stage: &mut Stage) -> Result<(), Breach> {
    let every = 1 + stage.dice.below(6) as u32;
    disturb(stage, Faults { lose_every: Some(every), ..Faults::default() })
}

pub fn delay(stage: &mut Stage) -> Result<(), Breach> {
    let delay = Duration::from_millis(1 + stage.dice.below(400));
    disturb(stage, Faults { delayed: Some(delay), ..Faults::default() })
}

pub fn duplicate(stage: &mut Stage) -> Result<(), Breach> {
    disturb(stage, Faults { doubled: true, ..Faults::default() })
}

fn disturb(stage: &mut Stage, faults: Faults) -> Result<(), Breach> {
    let ms = 200 + stage.dice.below(200);
    let live = stage.parts.live.as_ref().ok_or("there is no Live")?;
    let caller = set_tempo(stage, live, true);
    let result = caller.until_acknowledged().and_then(|()| {
        *live.way.faults() = faults;
        pause(ms);
        *live.way.faults() = Faults::default();
        caller.until_acknowledged()
    });
    caller.stop();
    result?;
    match stage.promised.missing.lock().drain(..).next() {
        None => Ok(()),
        Some(text) => Err(Breach { invariant: EFFECTS, text }),
    }
}

/// Sets another tempo with each call. With `is_compared`, the tempo of Live is compared after each
/// acknowledged call.
pub fn set_tempo(stage: &Stage, live: &Live, is_compared: bool) -> Caller {
    // The tempos of two calls in a row differ.
    let bpm = |number: u32| 60 + number % 100;
    let promised = Arc::clone(&stage.promised);
    let tempo = live.tempo();
    let calls = Calls {
        tool: "live_set_tempo",
        arguments: Box::new(move |number| json!({ "bpm": bpm(number) })),
        after: Box::new(move |number, is_acknowledged| {
            *promised.tempo.lock() = (is_acknowledged && is_compared).then(|| bpm(number));
            if is_acknowledged && is_compared && tempo.get() != Some(f64::from(bpm(number))) {
                let text = format!("tempo {} was acknowledged, Live has {:?}", bpm(number), tempo.get());
                promised.missing.lock().push(text);
            }
        }),
        deadline: Duration::from_secs(20),
        pace_ms: 5,
        pause_ms: 20,
    };
    Caller::start(stage.daemon.control_socket(), Arc::clone(&stage.promised), calls)
}
