//! `conductor set check|info|diff|render`: reads Live Sets directly, without a daemon. No command
//! writes a Set.

use super::{Failure, Verdict, out::Out};
use clap::{Args as ClapArgs, Subcommand};
use conductor_hosts::live::document::faults;
use conductor_hosts::picture::{piano_roll, session};
use conductor_set::{DEFAULT_XML_LIMIT, Document, OpenSet, PathId, diff};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    command: SetCommand,
}

#[derive(Debug, Subcommand)]
enum SetCommand {
    /// Check that each file can be read, is sound, and would be saved unchanged
    Check {
        #[arg(required = true, num_args = 1..)]
        files: Vec<PathBuf>,
    },
    /// Show tempo, tracks and scenes
    Info { file: PathBuf },
    /// List the differences; exit code 1 when there are any
    Diff { old: PathBuf, new: PathBuf },
    /// Draw the session grid or one clip as SVG, or as PNG if OUTPUT ends in .png
    Render {
        file: PathBuf,
        /// A clip id, such as track:0/clipslot:1/clip
        #[arg(long)]
        clip: Option<String>,
        /// Width in pixels
        #[arg(long, default_value_t = 1200, value_parser = clap::value_parser!(u32).range(320..=4096))]
        width: u32,
        /// Write here instead of to stdout
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
}

pub fn run(args: &Args, out: &mut Out) -> Result<Verdict, Failure> {
    match &args.command {
        SetCommand::Check { files } => check(files, out),
        SetCommand::Info { file } => info(file, out),
        SetCommand::Diff { old, new } => compare(old, new, out),
        SetCommand::Render { file, clip, width, output } => {
            render(file, clip.as_deref(), *width, output.as_deref(), out)
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|fault| Failure::Text(format!("{}: {fault}", path.display())))
}

fn open(path: &Path) -> Result<Document, Failure> {
    Document::open(&read(path)?, DEFAULT_XML_LIMIT)
        .map_err(|refusal| Failure::Text(format!("{}: {refusal}", path.display())))
}

/// Checks every file, even after one failed.
fn check(files: &[PathBuf], out: &mut Out) -> Result<Verdict, Failure> {
    let mut verdict = Verdict::Good;
    let mut rows = Vec::new();
    for path in files {
        let row = check_one(path);
        if row["ok"] != Value::Bool(true) {
            verdict = Verdict::Bad;
        }
        rows.push(row);
    }
    out.show(&json!({ "files": rows }), |out, value| {
        for row in super::list(value, "files") {
            let ok = if row["ok"] == Value::Bool(true) { "ok" } else { "FAILED" };
            out.line(format_args!(
                "{}: {ok} {}",
                super::text(row, "path"),
                row["reason"].as_str().unwrap_or_default()
            ))?;
            for fault in super::list(row, "faults") {
                out.line(format_args!("  note: {}", fault.as_str().unwrap_or_default()))?;
            }
        }
        Ok(())
    })?;
    Ok(verdict)
}

fn check_one(path: &Path) -> Value {
    let failed = |reason: String| json!({ "path": path, "ok": false, "reason": reason, "faults": [] });
    let als = match fs::read(path) {
        Ok(als) => als,
        Err(fault) => return failed(fault.to_string()),
    };
    match OpenSet::open(&als, DEFAULT_XML_LIMIT) {
        Err(refusal) => failed(refusal.to_string()),
        Ok(set) if *set.save() != *als => failed("a save would change it".into()),
        // Existing faults are reported but are not a failure: Live opens such files.
        Ok(set) => json!({ "path": path, "ok": true, "reason": null, "faults": faults(set.document()) }),
    }
}

fn info(path: &Path, out: &mut Out) -> Result<Verdict, Failure> {
    let document = open(path)?;
    let schema = document.schema();
    let mut value = serde_json::to_value(document.overview()).map_err(|fault| Failure::Text(fault.to_string()))?;
    value["path"] = json!(path);
    value["creator"] = json!(schema.creator);
    value["minorVersion"] = json!(schema.minor_version);
    value["scenes"] = json!(document.scenes().scenes);
    out.show(&value, |out, value| {
        out.line(format_args!("{} ({})", super::text(value, "path"), super::text(value, "creator")))?;
        out.line(format_args!(
            "tempo {}  {}  revision {}",
            value["tempo"],
            super::text(value, "timeSignature"),
            super::text(value, "revision")
        ))?;
        out.line(format_args!(
            "{} tracks, {} returns, {} scenes, {} locators",
            value["trackCount"], value["returnTrackCount"], value["sceneCount"], value["cuePointCount"]
        ))?;
        for track in super::list(value, "tracks") {
            out.line(format_args!(
                "  {:<9} {:<6} {}",
                super::text(track, "id"),
                super::text(track, "type"),
                super::text(track, "name")
            ))?;
        }
        Ok(())
    })?;
    Ok(Verdict::Good)
}

fn compare(old: &Path, new: &Path, out: &mut Out) -> Result<Verdict, Failure> {
    let found = diff(&open(old)?, &open(new)?);
    let value = serde_json::to_value(&found).map_err(|fault| Failure::Text(fault.to_string()))?;
    out.show(&value, |out, _| if found.count == 0 { Ok(()) } else { out.line(found.text.trim_end_matches('\n')) })?;
    Ok(if found.count == 0 { Verdict::Good } else { Verdict::Bad })
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
        out.show(&json!({ "svg": svg }), |out, _| out.line(svg.trim_end()))?;
        return Ok(Verdict::Good);
    };
    let bytes = if output.extension().is_some_and(|it| it.eq_ignore_ascii_case("png")) {
        picture.to_png().map_err(|fault| Failure::Text(fault.to_string()))?
    } else {
        picture.to_svg().into_bytes()
    };
    write_whole(output, &bytes).map_err(|fault| Failure::Text(format!("{}: {fault}", output.display())))?;
    out.show(&json!({ "path": output, "bytes": bytes.len() }), |out, _| out.line(output.display()))?;
    Ok(Verdict::Good)
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
