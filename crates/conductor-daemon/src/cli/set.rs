//! `conductor set check|info|diff|render`: reads Live Sets directly, without a daemon. No command
//! writes a Set.

use super::{Failure, Verdict, file_error, list, out::Out, progress, text, texts};
use clap::Subcommand;
use conductor_hosts::live::document::faults;
use conductor_hosts::picture::{piano_roll, session};
use conductor_set::{DEFAULT_XML_LIMIT, Document, OpenSet, PathId, diff};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub enum SetCommand {
    /// Check that files can be read, and that saving them would not change a byte
    Check {
        #[arg(required = true, num_args = 1..)]
        files: Vec<PathBuf>,
    },
    /// Show tempo, tracks and scenes
    Info { file: PathBuf },
    /// Compare two Sets; exit code 1 when they differ
    Diff { old: PathBuf, new: PathBuf },
    /// Draw the session grid or one clip as SVG, or as PNG if OUTPUT ends in .png
    Render {
        file: PathBuf,
        /// Id of a clip, such as track:0/clipslot:1/clip
        #[arg(long)]
        clip: Option<String>,
        /// Width in pixels
        #[arg(long, default_value_t = 1200, value_parser = clap::value_parser!(u32).range(320..=4096))]
        width: u32,
        /// Output file, instead of stdout
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
}

pub fn run(command: &SetCommand, out: &mut Out) -> Result<Verdict, Failure> {
    match command {
        SetCommand::Check { files } => check(files, out),
        SetCommand::Info { file } => info(file, out),
        SetCommand::Diff { old, new } => compare(old, new, out),
        SetCommand::Render { file, clip, width, output } => {
            render(file, clip.as_deref(), *width, output.as_deref(), out)
        }
    }
}

fn open(path: &Path) -> Result<Document, Failure> {
    let bytes = fs::read(path).map_err(|error| file_error(path, error))?;
    Document::open(&bytes, DEFAULT_XML_LIMIT).map_err(|refusal| file_error(path, refusal))
}

/// Checks every file, even if an earlier file failed.
fn check(files: &[PathBuf], out: &mut Out) -> Result<Verdict, Failure> {
    let rows: Vec<Value> = progress::over_files("checking", files, |path| check_one(path));
    let verdict = Verdict::good_if(rows.iter().all(|it| it["ok"] == true));
    out.show(&json!({ "files": rows }), |out, value| {
        for row in list(value, "files") {
            let ok = if row["ok"] == true { "ok" } else { "FAILED" };
            let reason = row["reason"].as_str().unwrap_or_default();
            out.line(format_args!("{}: {ok} {reason}", text(row, "path")))?;
            texts(row, "faults").iter().try_for_each(|it| out.line(format_args!("  note: {it}")))?;
        }
        Ok(())
    })?;
    Ok(verdict)
}

fn check_one(path: &Path) -> Value {
    let failed = |reason: String| json!({ "path": path, "ok": false, "reason": reason, "faults": [] });
    let als = match fs::read(path) {
        Ok(als) => als,
        Err(error) => return failed(error.to_string()),
    };
    match OpenSet::open(&als, DEFAULT_XML_LIMIT) {
        Err(refusal) => failed(refusal.to_string()),
        Ok(set) if *set.save() != *als => failed("a save would change the file".into()),
        // Existing faults are reported but are not a failure, because Live opens such files.
        Ok(set) => json!({ "path": path, "ok": true, "reason": null, "faults": faults(set.document()) }),
    }
}

fn info(path: &Path, out: &mut Out) -> Result<Verdict, Failure> {
    let document = open(path)?;
    let schema = document.schema();
    let mut value = json!(document.overview());
    value["path"] = json!(path);
    value["creator"] = json!(schema.creator);
    value["minorVersion"] = json!(schema.minor_version);
    value["scenes"] = json!(document.scenes().scenes);
    out.show(&value, |out, value| {
        out.line(format_args!("{} ({})", text(value, "path"), text(value, "creator")))?;
        let (signature, revision) = (text(value, "timeSignature"), text(value, "revision"));
        out.line(format_args!("tempo {}  {signature}  revision {revision}", value["tempo"]))?;
        out.line(format_args!(
            "{} tracks, {} returns, {} scenes, {} locators",
            value["trackCount"], value["returnTrackCount"], value["sceneCount"], value["cuePointCount"]
        ))?;
        list(value, "tracks").iter().try_for_each(|it| {
            out.line(format_args!("  {:<9} {:<6} {}", text(it, "id"), text(it, "type"), text(it, "name")))
        })
    })
}

fn compare(old: &Path, new: &Path, out: &mut Out) -> Result<Verdict, Failure> {
    let found = diff(&open(old)?, &open(new)?);
    let same = found.count == 0;
    out.show(&json!(found), |out, _| if same { Ok(()) } else { out.line(found.text.trim_end_matches('\n')) })?;
    Ok(Verdict::good_if(same))
}

fn render(
    path: &Path,
    clip: Option<&str>,
    width: u32,
    output: Option<&Path>,
    out: &mut Out,
) -> Result<Verdict, Failure> {
    let document = open(path)?;
    let picture = match clip {
        None => session::draw(&document, width),
        Some(clip) => {
            let drawn = clip.parse::<PathId>().and_then(|clip| piano_roll::draw_clip(&document, clip, width));
            drawn.map_err(|refusal| Failure::Text(format!("{refusal}; {}", refusal.hint())))?.picture
        }
    };
    let Some(output) = output else {
        let svg = picture.to_svg();
        return out.show(&json!({ "svg": svg }), |out, _| out.line(svg.trim_end()));
    };
    let bytes = if output.extension().is_some_and(|it| it.eq_ignore_ascii_case("png")) {
        picture.to_png().map_err(|error| file_error(output, error))?
    } else {
        picture.to_svg().into_bytes()
    };
    write_and_sync(output, &bytes).map_err(|error| file_error(output, error))?;
    out.show(&json!({ "path": output, "bytes": bytes.len() }), |out, _| out.line(output.display()))
}

fn write_and_sync(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
