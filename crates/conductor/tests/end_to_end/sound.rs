//! A patch that is built with tools can be heard: the daemon's own Pd plays to a real JACK server,
//! and a third-party program records it.

use crate::studio::{Studio, until};
use conductor_testkit::line_client::{LineClient, modern};
use conductor_testkit::real::{jack, pd};
use conductor_testkit::require;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

const CONFIG: &str = "schema = 1\n[patch.pd]\nmode = \"spawn\"\naudio = \"jack\"\n";

/// Measurements of a recorded tone.
#[derive(Debug)]
struct Heard {
    hertz: f64,
    level: f64,
}

impl Heard {
    /// Measures the frequency between the first and the last upward zero crossing. The level is the
    /// root mean square of all samples.
    fn of(samples: &[f32], rate: f64) -> Heard {
        let level = (samples.iter().map(|it| f64::from(*it).powi(2)).sum::<f64>() / samples.len().max(1) as f64).sqrt();
        let crossings: Vec<f64> = samples
            .windows(2)
            .enumerate()
            .filter(|(_, pair)| pair[0] < 0.0 && pair[1] >= 0.0)
            .map(|(n, pair)| n as f64 + f64::from(pair[0]) / f64::from(pair[0] - pair[1]))
            .collect();
        let hertz = match (crossings.first(), crossings.last()) {
            (Some(first), Some(last)) if last > first => (crossings.len() - 1) as f64 * rate / (last - first),
            _ => 0.0,
        };
        Heard { hertz, level }
    }

    fn is(&self, hertz: f64, level: f64) -> bool {
        (self.hertz - hertz).abs() <= hertz * 0.01 && (self.level - level).abs() <= level * 0.02
    }
}

#[test]
fn the_ear_tells_pitch_and_level_apart() {
    let tone = |hertz: f64, gain: f64| -> Vec<f32> {
        (0..48_000).map(|n| (gain * (f64::from(n) * hertz * std::f64::consts::TAU / 48_000.0).sin()) as f32).collect()
    };
    let right = 0.3 / std::f64::consts::SQRT_2;
    assert!(Heard::of(&tone(440.0, 0.3), 48_000.0).is(440.0, right));
    for (hertz, gain) in [(446.0, 0.3), (880.0, 0.3), (440.0, 0.28), (440.0, 0.0)] {
        assert!(!Heard::of(&tone(hertz, gain), 48_000.0).is(440.0, right), "{hertz} {gain}");
    }
}

fn record(server: &str, file: &Path) -> Heard {
    let status = Command::new("jack_rec")
        .args(["-f", file.to_str().unwrap(), "-d", "1", "-b", "16", "conductor-pd:output_1"])
        .env("JACK_DEFAULT_SERVER", server)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    let mut reader = hound::WavReader::open(file).unwrap();
    let spec = reader.spec();
    let samples: Vec<f32> = reader.samples::<i16>().map(|it| f32::from(it.unwrap()) / 32768.0).collect();
    // Skip the start, which may contain an earlier sound.
    let from = samples.len() / 4;
    Heard::of(&samples[from..], f64::from(spec.sample_rate))
}

#[test]
fn an_oscillator_built_over_mcp_sounds_as_asked_and_undo_is_heard() {
    require!(jack::probe());
    require!(pd::probe());
    let folder = tempfile::tempdir().unwrap();
    let server = format!("ct-pd-{}", std::process::id());
    let _jack = require!(jack::start(folder.path(), &server, 256));
    let mut studio = Studio::empty();
    studio.set("JACK_DEFAULT_SERVER", &server);
    studio.set("JACK_NO_START_SERVER", "1");
    std::fs::write(studio.config_file(), CONFIG).unwrap();
    studio.up(&[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let socket = studio.home().join("mcp.sock");
    let mut client =
        runtime.block_on(async { LineClient::over(tokio::net::UnixStream::connect(socket).await.unwrap()) });
    let mut call = |tool: &str, arguments: Value| -> Value {
        let reply =
            runtime.block_on(client.request("tools/call", modern(json!({ "name": tool, "arguments": arguments }))));
        let body = reply["result"]["structuredContent"].clone();
        assert_eq!(reply["result"]["isError"], json!(false), "{tool}: {reply}");
        body
    };
    let made = call("create_patch", json!({ "host": "pd", "alias": "tone" }));
    assert_eq!((&made["host"], &made["format"]), (&json!("pd"), &json!("pd")));
    call(
        "edit_patch",
        json!({ "patch_id": "tone", "edits": [
        { "op": "add", "obj_type": "osc~ 440", "position": [50, 50], "varname": "osc" },
        { "op": "add", "obj_type": "*~ 0.3", "position": [50, 100], "varname": "gain" },
        { "op": "add", "obj_type": "dac~", "position": [50, 150], "varname": "out" },
        { "op": "connect", "src_varname": "osc", "outlet": 0, "dst_varname": "gain", "inlet": 0 },
        { "op": "connect", "src_varname": "gain", "outlet": 0, "dst_varname": "out", "inlet": 0 },
    ] }),
    );
    until("Pd plays into JACK", || {
        let listed = Command::new("jack_lsp").env("JACK_DEFAULT_SERVER", &server).output().ok()?;
        String::from_utf8_lossy(&listed.stdout).contains("conductor-pd:output_1").then_some(())
    });
    let level = 0.3 / std::f64::consts::SQRT_2;
    let file = folder.path().join("heard.wav");
    let heard = record(&server, &file);
    assert!(heard.is(440.0, level), "{heard:?}");
    call("replace_object_text", json!({ "patch_id": "tone", "varname": "osc", "new_text": "osc~ 660" }));
    let heard = record(&server, &file);
    assert!(heard.is(660.0, level), "{heard:?}");
    call("undo_patch", json!({ "patch_id": "tone" }));
    let heard = record(&server, &file);
    assert!(heard.is(440.0, level), "{heard:?}");
    call("replace_object_text", json!({ "patch_id": "tone", "varname": "gain", "new_text": "*~ 0.1" }));
    let heard = record(&server, &file);
    assert!(heard.is(440.0, level / 3.0), "{heard:?}");
    call("save_patch", json!({ "patch_id": "tone", "path": "tone.pd" }));
    call("close_patch", json!({ "patch_id": "tone" }));
}
