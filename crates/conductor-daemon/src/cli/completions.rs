//! `conductor completions` and `conductor man`: files for the shell and for `man`, made from the
//! definitions in `args.rs`.

use super::args::Args;
use super::{Failure, Verdict, file_error, out::Out};
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::Path;

pub fn run(shell: Shell, out: &mut Out) -> Result<Verdict, Failure> {
    // Generate into memory: the generator panics if it cannot write, for example to a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "conductor", &mut script);
    out.writer().write_all(&script)?;
    Ok(Verdict::Good)
}

/// Writes one page for each command into `folder`.
pub fn write_man_pages(folder: &Path, out: &mut Out) -> Result<Verdict, Failure> {
    std::fs::create_dir_all(folder).map_err(|error| file_error(folder, error))?;
    clap_mangen::generate_to(Args::command(), folder).map_err(|error| file_error(folder, error))?;
    out.line(format_args!("wrote the pages to {}", folder.display()))?;
    Ok(Verdict::Good)
}
