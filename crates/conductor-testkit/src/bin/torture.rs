//! Runs the built daemon under a random schedule of faults.
//!
//! `torture BINARY FAULTS [SEED [FAULT]]` prints one line per fault and fails if an invariant is
//! violated. With `FAULT`, such as `PdKilled`, only this fault is injected; with `-FAULT`, all
//! others.
//! `torture BINARY broken [SEED]` removes one guarantee after another and fails if the removal is
//! not noticed; it needs a build with the feature `broken`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a separate program for tests")]
#![expect(clippy::disallowed_methods, reason = "reads its own environment and the time")]

use conductor_testkit::torture::faults::Fault;
use conductor_testkit::torture::{self, Settings};
use std::path::PathBuf;
use std::process::ExitCode;

const INSIDE: &str = "CONDUCTOR_TORTURE_INSIDE";

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let (Some(binary), Some(what)) = (words.get(1), words.get(2).and_then(|it| it.to_str())) else {
        eprintln!("usage: torture BINARY FAULTS|broken [SEED [FAULT]]");
        return ExitCode::from(2);
    };
    if std::env::var_os(INSIDE).is_none() {
        let own = std::env::current_exe().expect("own path");
        let rest: Vec<_> = words[1..].iter().map(|it| it.as_os_str()).collect();
        let status = torture::enter(&own, &rest).env(INSIDE, "1").status();
        return match status {
            Ok(status) if status.success() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("cannot create a mount namespace: unshare: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |it| it.as_secs());
    let seed = words.get(3).and_then(|it| it.to_str()).and_then(|it| it.parse().ok()).unwrap_or(now);
    let word = words.get(4).and_then(|it| it.to_str());
    let without = word.and_then(|it| it.strip_prefix('-'));
    let named = without.or(word).map(|name| Fault::ALL.into_iter().find(|it| format!("{it:?}") == name));
    if named == Some(None) {
        eprintln!("there is no such fault; the faults are {:?}", Fault::ALL);
        return ExitCode::from(2);
    }
    let named = named.flatten();
    let (only, without) = if without.is_some() { (None, named) } else { (named, None) };
    println!("seed {seed}");
    let binary = PathBuf::from(binary);
    if what == "broken" {
        return broken(binary, seed, only);
    }
    let Ok(faults) = what.parse() else {
        eprintln!("{what} is neither a number of faults nor `broken`");
        return ExitCode::from(2);
    };
    #[cfg(feature = "broken")]
    let settings = Settings { binary, faults, seed, only, without, broken: None };
    #[cfg(not(feature = "broken"))]
    let settings = Settings { binary, faults, seed, only, without };
    match torture::run(&settings, &mut |line| println!("{line}")) {
        Ok(found) if found.is_empty() => {
            println!("{faults} faults with seed {seed}: no violation");
            ExitCode::SUCCESS
        }
        Ok(found) => {
            println!("{} violations with seed {seed}", found.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(feature = "broken"))]
fn broken(_: PathBuf, _: u64, _: Option<Fault>) -> ExitCode {
    eprintln!("this build has no negative controls; build it with --features broken");
    ExitCode::from(2)
}

#[cfg(feature = "broken")]
fn broken(binary: PathBuf, seed: u64, only: Option<Fault>) -> ExitCode {
    use conductor_testkit::torture::broken::Broken;
    // This fault does not end the daemon. The end of the daemon would release the note, and the
    // check would miss `Broken::Note`.
    let only = only.or(Some(Fault::BadDatagrams));
    let mut missed = 0;
    for broken in Broken::ALL {
        let settings = Settings { binary: binary.clone(), faults: 1, seed, only, without: None, broken: Some(broken) };
        let mut log = Vec::new();
        let found = torture::run(&settings, &mut |line| log.push(line.to_owned())).unwrap_or_else(|error| {
            println!("{error}");
            Vec::new()
        });
        let is_noticed = found.iter().any(|it| it.breach.invariant == broken.invariant());
        println!("{broken:?}: {}", if is_noticed { "noticed" } else { "NOT NOTICED" });
        if !is_noticed {
            missed += 1;
            log.iter().for_each(|line| println!("    {line}"));
        }
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
