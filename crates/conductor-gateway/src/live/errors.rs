//! Converts errors of Live hosts to tool errors.

use conductor_core::error::{Code, Effect, Subject, ToolError};
use conductor_hosts::live::{LiveHostError, Op};
use conductor_set::{Elsewhere, Listing, LiveError};
use std::path::PathBuf;

/// A hint that names a host that supports the operation.
fn who_can(op: Op) -> &'static str {
    match op {
        Op::Launch | Op::Transport => in_other_host(Elsewhere::Running),
        Op::Files => "Use a document: the person saves the Set in Live; then open the .als file with live_open_set.",
        Op::RenderTrack => {
            "Use a document: the person saves the Set in Live; then open the .als file with live_open_set and \
             render its audio tracks there."
        }
        Op::TryOut => {
            "Only a document supports dryRun. Leave dryRun out and use live_undo, or open the saved .als file with \
             live_open_set and try it there."
        }
    }
}

fn in_other_host(elsewhere: Elsewhere) -> &'static str {
    match elsewhere {
        Elsewhere::Running => {
            "Use a running Live, attached by [live] host = \"script\" or \"abletonosc\" in config.toml."
        }
        Elsewhere::Script => {
            "Use a running Live with Conductor's script, attached by [live] host = \"script\" in config.toml \
             (inserting a device needs Live 12.3)."
        }
        Elsewhere::Nowhere => "No host supports this: stop, and tell the person.",
    }
}

pub fn refused(refusal: LiveHostError) -> ToolError {
    match refusal {
        LiveHostError::Set(error) => of_set(&error),
        LiveHostError::QueueFull { waiting } => ToolError::new(Code::SdkRejected, format!("{waiting} writes to this Set are already queued"))
            .hint("Wait for running calls to finish, then repeat this one once. Put many notes into one live_set_notes."),
        LiveHostError::Missing { host, op, reason } => ToolError::new(Code::Unsupported, format!("the {host} host cannot do this: {reason}"))
            .hint(format!("Do not retry another way. {}", who_can(op)))
            .subject(Subject::Host(host.into())),
        // The code is not HOST_OFFLINE, because waiting does not help: the caller must open a Set.
        LiveHostError::NoSet { open } => ToolError::new(Code::NotFound, "this session has no current Live Set, and there is no default Set").hint(if open.is_empty() {
            "Call live_open_set with the path of a .als file, or live_new_set. `conductor doctor` reports what else is missing.".to_owned()
        } else {
            format!("Call live_open_set, or pass one of these as setId: {}.", open.join(", "))
        }),
        LiveHostError::UnknownSet { id, open } => {
            let known = if open.is_empty() { "none is open; call live_open_set".to_owned() } else { open.join(", ") };
            ToolError::new(Code::NotFound, format!("no open Set has the id {id:?}"))
                .hint(format!("Known setIds: {known}. live_open_set opens a file and makes it the current Set."))
                .subject(Subject::Other(id))
        }
        LiveHostError::NoSuchFile { path } => ToolError::new(Code::NotFound, format!("{} does not exist", path.display()))
            .hint("Check the path with the person; live_new_set creates a new Set.")
            .subject(about(&path)),
        LiveHostError::NotAFile { path } => ToolError::new(Code::BadInput, format!("{} is not a plain file", path.display()))
            .hint("Give the path of a .als file.")
            .subject(about(&path)),
        LiveHostError::NotALiveSetName { path } => ToolError::new(Code::BadInput, format!("{} does not end in .als", path.display()))
            .hint("Give a file name that ends in .als, or Live will not open it.")
            .subject(Subject::Argument("path".into())),
        LiveHostError::TooLarge { path, limit } => ToolError::new(Code::BadInput, format!("{} is larger than {limit} bytes", path.display()))
            .hint("The person may raise [live] max_xml_mb in config.toml.")
            .subject(about(&path)),
        LiveHostError::FileExists { path } => ToolError::new(Code::SdkRejected, format!("{} already exists", path.display()))
            .hint("Choose another path, or open that file with live_open_set. live_save_set replaces a file only with overwrite: true.")
            .subject(about(&path)),
        LiveHostError::OutsideRoots { path, roots } => {
            let roots: Vec<String> = roots.iter().map(|it| it.display().to_string()).collect();
            ToolError::new(Code::Denied, format!("{} is outside the folders that tools may reach", path.display()))
                .hint(format!("Use a path under {}. The person may add folders to [live] file_roots.", roots.join(" or ")))
                .subject(about(&path))
        }
        LiveHostError::ChangedOnDisk { path } => {
            ToolError::new(Code::StaleReference, format!("{} was changed by another program since it was opened or saved", path.display()))
                .hint("Ask the person which version to keep: live_open_set with reload: true uses the file; live_save_set with overwrite: true writes our edits (the file is kept as a backup).")
                .subject(about(&path))
        }
        LiveHostError::AllDirty { open } => ToolError::new(Code::Busy, "the maximum number of Sets is open, and each has unsaved edits or a running write")
            .hint(format!("Save one first: live_save_set with one of these as setId: {}.", open.join(", "))),
        LiveHostError::Io { path, reason } => ToolError::new(Code::SdkRejected, format!("{}: {reason}", path.display()))
            .hint("The operating system refused the operation. Tell the person; the old file is intact.")
            .subject(about(&path)),
        LiveHostError::Offline { host, reason } => ToolError::new(Code::HostOffline, format!("{host}: {reason}"))
            .hint("Ask the person to start Live and run `conductor doctor`, or open a document with live_open_set.")
            .subject(Subject::Host(host.into())),
        LiveHostError::NoAnswer { host } => ToolError::new(Code::Timeout, format!("{host} did not answer in time"))
            .hint("Live may show a dialog, or AbletonOSC may not be loaded: ask the person to check Live and run `conductor doctor`. Read the state before repeating a write.")
            .subject(Subject::Host(host.into())),
        LiveHostError::Said { host, code, message, subject } => {
            let error = ToolError::new(code, message);
            // This version of Live does not support the operation. A document does not depend on
            // the version of Live.
            let error = if code == Code::Unsupported {
                error.hint(
                    "Do not retry another way in this Live. Use a document: the person saves the Set in Live; then \
                     open the .als file with live_open_set.",
                )
            } else {
                error
            };
            error.subject(subject.map_or_else(|| Subject::Host(host.into()), Subject::Other))
        }
        LiveHostError::HalfDone { done, why } => {
            let mut error = refused(*why);
            error.message = format!("{}; {done}", error.message);
            // A caller may repeat a call after HostOffline. This write may already have happened,
            // so use another code.
            if error.code == Code::HostOffline {
                error.code = Code::Timeout;
            }
            let hint = "Read the state before anything else, and tell the person. live_undo undoes the edits that were made.";
            error.hint(hint).effect(Effect::Unknown)
        }
        LiveHostError::Broken { reason } => ToolError::new(Code::Internal, reason),
    }
}

fn about(path: &std::path::Path) -> Subject {
    Subject::Other(PathBuf::from(path).to_string_lossy().into_owned())
}

fn list_tool(listing: Listing) -> &'static str {
    match listing {
        Listing::Tracks => "live_get_song_overview",
        Listing::Clips => "live_list_clips",
        Listing::Devices => "live_list_devices",
    }
}

fn of_set(error: &LiveError) -> ToolError {
    let code = match error.code() {
        conductor_set::Code::BadInput => Code::BadInput,
        conductor_set::Code::StaleReference => Code::StaleReference,
        conductor_set::Code::WrongType => Code::WrongType,
        conductor_set::Code::SdkRejected => Code::SdkRejected,
        conductor_set::Code::Unsupported => Code::Unsupported,
        conductor_set::Code::Internal => Code::Internal,
    };
    let mut hint = sentence(&error.hint());
    match (error, error.listing()) {
        (LiveError::RevisionDiffers { .. }, _) => hint.push_str(" live_get_song_overview returns the revision."),
        (LiveError::Unsupported { elsewhere, .. }, _) => hint.push_str(&format!(" {}", in_other_host(*elsewhere))),
        (_, Some(listing)) => hint.push_str(&format!(" Call {}.", list_tool(listing))),
        (_, None) => {}
    }
    let subject = error.subject().map(|it| match error {
        LiveError::BadValue { .. } | LiveError::RevisionDiffers { .. } => Subject::Argument(it),
        LiveError::BadFile { .. }
        | LiveError::BadPath { .. }
        | LiveError::WrongKind { .. }
        | LiveError::WrongType { .. }
        | LiveError::Gone { .. }
        | LiveError::EmptySlot { .. }
        | LiveError::StructureShifted
        | LiveError::SlotOccupied { .. }
        | LiveError::UnknownDevice { .. }
        | LiveError::Refused { .. }
        | LiveError::Unsupported { .. }
        | LiveError::Broken { .. } => Subject::Other(it),
    });
    let made = ToolError::new(code, error.to_string()).hint(hint);
    match subject {
        Some(subject) => made.subject(subject),
        None => made,
    }
}

/// Turns a lower-case clause into a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|it| it.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}
