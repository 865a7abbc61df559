//! `conductor patch check|info|diff|render`. Reads the files directly, without a daemon.

use super::args::PatchCommand;
use super::{Failure, Verdict, file_error, list, out::Out, progress, text, texts};
use conductor_hosts::picture::patch;
use conductor_patch::{Diagnostic, Document, Format, Limits, Severity, diff};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

pub fn run(command: &PatchCommand, out: &mut Out) -> Result<Verdict, Failure> {
    match command {
        PatchCommand::Check { files } => check(files, out),
        PatchCommand::Info { file } => info(file, out),
        PatchCommand::Diff { a, b } => compare(a, b, out),
        PatchCommand::Render { file, out: to } => draw(file, to.as_deref(), out),
    }
}

fn read(path: &Path) -> Result<(Vec<u8>, Document), Failure> {
    let format = path
        .file_name()
        .and_then(|it| Format::of_name(&it.to_string_lossy()))
        .ok_or_else(|| file_error(path, "the file extension must be .maxpat, .maxhelp, .amxd or .pd"))?;
    let limits = Limits::default();
    let size = fs::metadata(path).map_err(|error| file_error(path, error))?.len();
    if size > limits.max_bytes as u64 {
        return Err(file_error(path, format_args!("the file has {size} bytes; the limit is {}", limits.max_bytes)));
    }
    let bytes = fs::read(path).map_err(|error| file_error(path, error))?;
    let document = Document::open(bytes.clone(), format, &limits).map_err(|error| file_error(path, error))?;
    Ok((bytes, document))
}

fn wire(diagnostic: &Diagnostic) -> Value {
    let severity = match diagnostic.severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
    };
    json!({
        "severity": severity, "message": diagnostic.message, "line": diagnostic.line, "subject": diagnostic.subject,
    })
}

fn check(files: &[PathBuf], out: &mut Out) -> Result<Verdict, Failure> {
    let check_one = |path: &PathBuf| match read(path) {
        Ok((bytes, document)) => {
            let same = document.to_bytes() == bytes;
            let found: Vec<Value> = document.diagnostics().iter().map(wire).collect();
            json!({ "file": path, "readable": true, "unchanged": same, "diagnostics": found })
        }
        Err(failure) => json!({
            "file": path, "readable": false, "unchanged": false, "message": failure.to_string(), "diagnostics": [],
        }),
    };
    let rows: Vec<Value> = progress::over_files("checking", files, check_one);
    let verdict = Verdict::good_if(rows.iter().all(|it| it["unchanged"] == true));
    out.show(&json!({ "files": rows }), |out, value| {
        for row in list(value, "files") {
            if row["readable"] != true {
                out.line(text(row, "message"))?;
                continue;
            }
            let word = if row["unchanged"] == true { "ok" } else { "a save would change the file" };
            out.line(format_args!("{}: {word}", text(row, "file")))?;
            for it in list(row, "diagnostics") {
                let place = it["line"].as_u64().map(|line| format!("line {line}: ")).unwrap_or_default();
                out.line(format_args!("  {}: {place}{}", text(it, "severity"), text(it, "message")))?;
            }
        }
        Ok(())
    })?;
    Ok(verdict)
}

fn info(path: &Path, out: &mut Out) -> Result<Verdict, Failure> {
    let (bytes, document) = read(path)?;
    let (mut patchers, mut objects, mut cords) = (0, 0, 0);
    document.walk(&mut |view| {
        patchers += 1;
        objects += view.box_count();
        cords += view.cord_count();
    });
    let value = json!({
        "file": path, "format": document.format().extension(), "style": document.style_name(), "bytes": bytes.len(),
        "app_version": document.app_version(), "patchers": patchers, "objects": objects, "cords": cords,
        "unknown_classes": document.unknown_classes(), "read_only": document.read_only(),
        "diagnostics": document.diagnostics().iter().map(wire).collect::<Vec<_>>(),
    });
    out.show(&value, |out, value| {
        let version = document.app_version().map(|it| format!(", written by Max {it}")).unwrap_or_default();
        out.line(format_args!("{}: {} ({}){version}", path.display(), text(value, "format"), text(value, "style")))?;
        out.line(format_args!("{objects} objects and {cords} cords in {patchers} patchers, {} bytes", bytes.len()))?;
        let unknown = texts(value, "unknown_classes");
        if !unknown.is_empty() {
            out.line(format_args!("unknown classes: {}", unknown.join(", ")))?;
        }
        if let Some(reason) = document.read_only() {
            out.line(format_args!("cannot be edited: {reason}"))?;
        }
        for it in list(value, "diagnostics") {
            out.line(format_args!("{}: {}", text(it, "severity"), text(it, "message")))?;
        }
        Ok(())
    })
}

fn compare(a: &Path, b: &Path, out: &mut Out) -> Result<Verdict, Failure> {
    let ((_, before), (_, after)) = (read(a)?, read(b)?);
    if before.format().is_pd() != after.format().is_pd() {
        return Err(Failure::Text("a Max patch and a Pure Data patch cannot be compared".to_owned()));
    }
    let found = diff(&before, &after, 3);
    let changes: Vec<Value> = found
        .changes
        .iter()
        .map(|it| json!({ "kind": it.kind.name(), "subject": it.subject, "before": it.before, "after": it.after }))
        .collect();
    let value = json!({ "identical": found.identical, "changes": changes, "text_diff": found.text });
    out.show(&value, |out, _| {
        for it in &found.changes {
            let from = it.before.as_deref().map(|it| format!(" {it}")).unwrap_or_default();
            let to = it.after.as_deref().map(|it| format!(" -> {it}")).unwrap_or_default();
            out.line(format_args!("{} {}:{from}{to}", it.kind.name(), it.subject))?;
        }
        if found.changes.is_empty() && !found.identical {
            out.line("the patches are equal, but the files are formatted differently")?;
        }
        Ok(())
    })?;
    Ok(Verdict::good_if(found.identical))
}

fn draw(path: &Path, to: Option<&Path>, out: &mut Out) -> Result<Verdict, Failure> {
    let (_, document) = read(path)?;
    let to = to.map_or_else(|| path.with_extension("png"), Path::to_owned);
    let drawn = patch::draw(&document.root(), &patch::Options::default());
    let picture = &drawn.picture;
    let ending = to.extension().map(|it| it.to_string_lossy().to_lowercase());
    let bytes = match ending.as_deref() {
        Some("svg") => picture.to_svg().into_bytes(),
        Some("png") => picture.to_png().map_err(|error| file_error(&to, error))?,
        Some(_) | None => return Err(file_error(&to, "use a file name that ends in .png or .svg")),
    };
    fs::write(&to, bytes).map_err(|error| file_error(&to, error))?;
    let value = json!({ "file": to, "width": picture.width, "height": picture.height, "omitted": drawn.omitted });
    out.show(&value, |out, _| out.line(to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "#N canvas 0 0 300 200 12;\n#X obj 20 20 osc~ 440;\n#X obj 20 60 dac~;\n#X connect 0 0 1 0;\n";

    fn files() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a.pd"), folder.path().join("b.pd"));
        fs::write(&a, PATCH).unwrap();
        fs::write(&b, PATCH.replace("440", "880")).unwrap();
        (folder, a, b)
    }

    fn verdict(command: PatchCommand) -> Option<Verdict> {
        run(&command, &mut Out::new(true, crate::cli::out::ColorChoice::Never)).ok()
    }

    #[test]
    fn a_sound_file_is_good_and_a_broken_one_bad() {
        let (folder, a, b) = files();
        assert_eq!(verdict(PatchCommand::Check { files: vec![a.clone(), b] }), Some(Verdict::Good));
        let cut = folder.path().join("cut.maxpat");
        fs::write(&cut, "{\"patcher\":").unwrap();
        assert_eq!(verdict(PatchCommand::Check { files: vec![a.clone(), cut] }), Some(Verdict::Bad));
        assert_eq!(verdict(PatchCommand::Check { files: vec![folder.path().join("none.pd")] }), Some(Verdict::Bad));
        assert_eq!(verdict(PatchCommand::Info { file: a }), Some(Verdict::Good));
    }

    #[test]
    fn a_difference_is_a_no() {
        let (_folder, a, b) = files();
        assert_eq!(verdict(PatchCommand::Diff { a: a.clone(), b: a.clone() }), Some(Verdict::Good));
        assert_eq!(verdict(PatchCommand::Diff { a, b }), Some(Verdict::Bad));
    }

    #[test]
    fn a_picture_goes_where_its_ending_says() {
        let (folder, a, _) = files();
        assert_eq!(verdict(PatchCommand::Render { file: a.clone(), out: None }), Some(Verdict::Good));
        assert!(fs::read(folder.path().join("a.png")).unwrap().starts_with(b"\x89PNG"));
        let svg = folder.path().join("x.svg");
        assert_eq!(verdict(PatchCommand::Render { file: a.clone(), out: Some(svg.clone()) }), Some(Verdict::Good));
        assert!(fs::read_to_string(svg).unwrap().starts_with("<svg"));
        assert_eq!(verdict(PatchCommand::Render { file: a, out: Some(folder.path().join("x.jpg")) }), None);
    }
}
