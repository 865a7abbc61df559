//! Reads the samples of a Set and writes renders, as WAV files. Not here: mixing (`conductor-set`).

use super::LiveHostError;
use super::roots::Roots;
use crate::system::files::{Opening as _, private_folders};
use conductor_set::{Elsewhere, LiveError, RenderPiece, Samples};
use hound::{SampleFormat, WavReader, WavSpec, WavWriter};
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Cursor};
use std::path::{Path, PathBuf};

/// Maximum size of a sample file, in bytes. Compressed audio is not supported, so a decoded sample
/// needs at most four times this memory.
const MAX_SAMPLE_BYTES: usize = 1 << 30;

fn cannot(piece: &RenderPiece, reason: impl Into<String>) -> LiveHostError {
    LiveHostError::Set(LiveError::Unsupported {
        subject: Some(piece.clip_id.to_string()),
        reason: reason.into(),
        instead: "ask the person to move the sample into a folder of [live] file_roots, or to export the track in Live"
            .into(),
        elsewhere: Elsewhere::Nowhere,
    })
}

/// Reads the sample of a clip: first relative to the Set, then at the stored path. Both paths must
/// be inside the roots.
pub fn read_sample(roots: &Roots, folder_of_set: &Path, piece: &RenderPiece) -> Result<Samples, LiveHostError> {
    let near = piece.relative_path.as_ref().map(|it| folder_of_set.join(it));
    let candidates = near.into_iter().chain(std::iter::once(PathBuf::from(&piece.path)));
    let mut last = None;
    for path in candidates {
        match roots.find(&path).and_then(|place| place.read(MAX_SAMPLE_BYTES)) {
            Ok((bytes, _)) => {
                return decode(bytes).map_err(|reason| cannot(piece, format!("{}: {reason}", path.display())));
            }
            Err(refusal) => last = Some(refusal),
        }
    }
    let reason = match last {
        Some(LiveHostError::OutsideRoots { path, .. }) => {
            format!("its sample {} is outside the allowed folders", path.display())
        }
        Some(_) | None => format!("its sample {} does not exist or cannot be read", piece.path),
    };
    Err(cannot(piece, reason))
}

fn decode(bytes: Vec<u8>) -> Result<Samples, String> {
    let mut reader =
        WavReader::new(Cursor::new(bytes)).map_err(|fault| format!("only WAV files are supported: {fault}"))?;
    let WavSpec { channels, sample_rate, bits_per_sample, sample_format } = reader.spec();
    if channels == 0 || sample_rate == 0 {
        return Err("the WAV header states no channels or no sample rate".into());
    }
    let values: Result<Vec<f32>, hound::Error> = match sample_format {
        SampleFormat::Float => reader.samples::<f32>().collect(),
        SampleFormat::Int => {
            // The scale maps the most negative sample to exactly -1. The most positive sample is
            // slightly below 1.
            let scale = 1.0 / (1_i64 << (bits_per_sample.clamp(1, 32) - 1)) as f32;
            reader.samples::<i32>().map(|it| it.map(|it| it as f32 * scale)).collect()
        }
    };
    let values = values.map_err(|fault| fault.to_string())?;
    let width = usize::from(channels);
    let mut lines = vec![Vec::with_capacity(values.len() / width); width];
    for frame in values.chunks_exact(width) {
        for (line, value) in lines.iter_mut().zip(frame) {
            line.push(*value);
        }
    }
    Ok(Samples { sample_rate, channels: lines })
}

/// Converts a track name to a safe file name.
pub fn slug(name: &str) -> String {
    let plain: String =
        name.chars().map(|it| if it.is_alphanumeric() || it == '-' { it } else { '_' }).take(60).collect();
    if plain.trim_matches('_').is_empty() { "track".into() } else { plain }
}

/// Writes a 32-bit float WAV file under an unused name.
pub fn write_new(folder: &Path, stem: &str, samples: &Samples) -> Result<PathBuf, LiveHostError> {
    private_folders().recursive(true).create(folder).map_err(|fault| LiveHostError::io(folder, fault))?;
    for again in 1_u32.. {
        let name = if again == 1 { format!("{stem}.wav") } else { format!("{stem}_{again}.wav") };
        let path = folder.join(name);
        let file = match OpenOptions::new().write(true).create_new(true).owner_only().open(&path) {
            Ok(file) => file,
            Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists && again < 10_000 => continue,
            Err(fault) => return Err(LiveHostError::io(&path, fault)),
        };
        let written = write_all(file, samples);
        return match written {
            Ok(()) => Ok(path),
            Err(fault) => {
                let _ = fs::remove_file(&path);
                Err(LiveHostError::Io { path, reason: fault.to_string() })
            }
        };
    }
    Err(LiveHostError::Broken { reason: "there is no free file name for the render".into() })
}

fn write_all(file: fs::File, samples: &Samples) -> Result<(), hound::Error> {
    let channels = u16::try_from(samples.channels.len()).map_err(|_| hound::Error::Unsupported)?;
    let spec =
        WavSpec { channels, sample_rate: samples.sample_rate, bits_per_sample: 32, sample_format: SampleFormat::Float };
    let mut writer = WavWriter::new(BufWriter::new(file), spec)?;
    let frames = samples.channels.first().map_or(0, Vec::len);
    for frame in 0..frames {
        for line in &samples.channels {
            writer.write_sample(line.get(frame).copied().unwrap_or(0.0))?;
        }
    }
    writer.finalize()
}
