//! A progress bar on stderr, for work that takes longer than a second. Results are on stdout, so a
//! bar never mixes with them.

use conductor_core::event::Micros;
use conductor_hosts::system::{Clock, RealClock};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::path::PathBuf;

/// Shorter work shows no bar.
const SHOWN_AFTER_US: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
pub enum Unit {
    Bytes,
    Files,
}

/// A bar that is drawn only if the work takes long enough. It is removed when the value is dropped.
pub struct Progress<'a> {
    bar: ProgressBar,
    clock: &'a dyn Clock,
    start: Micros,
    /// Whether a bar may be drawn: stderr is a terminal.
    wanted: bool,
}

impl<'a> Progress<'a> {
    pub fn new(what: &'static str, total: u64, unit: Unit, clock: &'a dyn Clock, wanted: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let amounts = match unit {
            Unit::Bytes => "{bytes} of {total_bytes}",
            Unit::Files => "{pos} of {len} files",
        };
        if let Ok(style) =
            ProgressStyle::with_template(&format!("{{msg}} [{{bar:30}}] {{percent}}%, {amounts}, {{eta}}"))
        {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what);
        Progress { bar, clock, start: clock.now(), wanted }
    }

    /// Counts finished work.
    pub fn add(&self, amount: u64) {
        if self.wanted && self.bar.is_hidden() && self.clock.now().since(self.start) >= SHOWN_AFTER_US {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(amount);
    }
}

/// Handles each file in turn, with a bar.
pub fn over_files<T>(what: &'static str, files: &[PathBuf], handle: impl Fn(&PathBuf) -> T) -> Vec<T> {
    let clock = RealClock::new();
    let progress = Progress::new(what, files.len() as u64, Unit::Files, &clock, io::stderr().is_terminal());
    let handle = |file| {
        let result = handle(file);
        progress.add(1);
        result
    };
    files.iter().map(handle).collect()
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conductor_hosts::system::ManualClock;
    use std::time::Duration;

    #[test]
    fn a_bar_is_attached_after_a_second_and_only_on_a_terminal() {
        let clock = ManualClock::at_wall_ms(0);
        let shown = Progress::new("checking", 10, Unit::Files, &*clock, true);
        let piped = Progress::new("checking", 10, Unit::Files, &*clock, false);
        let attached = |it: &Progress<'_>| it.clock.now().since(it.start) >= SHOWN_AFTER_US && it.wanted;
        shown.add(1);
        assert!(!attached(&shown) && shown.bar.position() == 1);
        clock.advance(Duration::from_secs(1));
        shown.add(1);
        piped.add(1);
        assert!(attached(&shown) && !attached(&piped) && piped.bar.is_hidden());
        assert_eq!((shown.bar.position(), shown.bar.length()), (2, Some(10)));
    }
}
