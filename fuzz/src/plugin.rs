//! The plugin protocol: the daemon and the plugin process read the same frames from the same bytes.
//! A valid manifest that is stored and read again is the same, with the same pin.

use crate::SEEDED;
use crate::outside::frame;
use crate::outside::manifest::Manifest;
use conductor_core::digest::Digest;
use serde_json::Value;

const LIMIT: usize = 1 << 16;

/// Whether the first frame has an allowed length of at least `LIMIT`. Reading stops before such a
/// frame.
fn is_huge(data: &[u8]) -> bool {
    data.first_chunk::<4>().is_some_and(|it| (LIMIT..=frame::MAX_BYTES).contains(&(u32::from_le_bytes(*it) as usize)))
}

fn blocking(mut from: &[u8]) -> Vec<Result<Vec<u8>, std::io::ErrorKind>> {
    let mut frames = Vec::new();
    while !is_huge(from) {
        let mut frame = frame::blocking::read(&mut from).map_err(|it| it.kind());
        // The seeded mistake: the child treats an empty frame as the end of the stream.
        if SEEDED && frame.as_ref().is_ok_and(Vec::is_empty) {
            frame = Err(std::io::ErrorKind::UnexpectedEof);
        }
        let is_over = frame.is_err();
        frames.push(frame);
        if is_over {
            break;
        }
    }
    frames
}

async fn waiting(mut from: &[u8]) -> Vec<Result<Vec<u8>, std::io::ErrorKind>> {
    let mut frames = Vec::new();
    while !is_huge(from) {
        let frame = frame::read(&mut from).await.map_err(|it| it.kind());
        let is_over = frame.is_err();
        frames.push(frame);
        if is_over {
            break;
        }
    }
    frames
}

pub fn check(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let frames = blocking(data);
    assert_eq!(frames, runtime.block_on(waiting(data)), "the two ends read different frames");
    let mut again = Vec::new();
    for frame in frames.into_iter().flatten() {
        frame::blocking::write(&mut again, &frame).expect("a frame cannot be written");
    }
    assert!(data.starts_with(&again), "a frame was written with other bytes");
    let Ok(declared) = serde_json::from_slice::<Value>(data) else { return };
    let code = Digest::of(b"code");
    if let Ok(manifest) = Manifest::check(&declared, code) {
        let text = manifest.to_json().to_string();
        let stored = serde_json::from_str(&text).expect("JSON");
        assert_eq!(Manifest::from_json(&stored), Some(manifest), "storing and reading changed a manifest");
    }
}
