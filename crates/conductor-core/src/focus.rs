//! Per-app modes: selects a mode for the frontmost window, unless a mode was selected manually.
//!
//! Precedence: a mode selected manually, then window rules in file order, then app rules, then the
//! default. If the frontmost window is unknown, the mode does not change.
//!
//! Not here: watching windows (`conductor_hosts::focus`), and switching modes (`engine`).

use crate::config::PerAppModes;

/// The frontmost window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Identifies the window, so that a new title is not treated as a new window.
    pub id: u64,
    /// The window's class, or the program's name on platforms without window classes.
    pub app: String,
    /// The window's title.
    pub title: String,
}

/// The kind of rule that selected a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// A rule for the window's title.
    WindowRule,
    /// A rule for the program.
    AppRule,
    /// The default of the rules.
    Default,
}

/// A mode that the rules select.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The name of the mode.
    pub mode: String,
    /// The kind of rule that selected it.
    pub because: Because,
}

/// The rules of one configuration, the frontmost window, and the hold: a mode selected manually
/// stays until the hold ends. Without rules no mode is selected.
#[derive(Clone, Debug, Default)]
pub struct Focus {
    rules: Option<PerAppModes>,
    window: Option<Window>,
    /// The id of the last known frontmost window.
    last: Option<u64>,
    held: bool,
}

impl Focus {
    /// Creates the state for the rules of a configuration, without a window.
    pub fn new(rules: Option<PerAppModes>) -> Self {
        Focus { rules, ..Focus::default() }
    }

    /// Replaces the rules. A manually selected mode stays.
    pub fn reload(&mut self, rules: Option<PerAppModes>) -> Option<Wish> {
        self.rules = rules;
        self.wish()
    }

    /// The frontmost window, if it is known.
    pub fn window(&self) -> Option<&Window> {
        self.window.as_ref()
    }

    /// Whether a mode was selected manually, so that the rules do not apply.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Called when a pad, a tool or the command line selected a mode. The rules do not apply until
    /// this hold ends.
    pub fn chosen_by_hand(&mut self) {
        self.held = true;
    }

    /// Ends the hold of a manually selected mode, so that the rules apply at once (`conductor mode
    /// set --auto`).
    pub fn release(&mut self) -> Option<Wish> {
        self.held = false;
        self.wish()
    }

    /// Called when another window is frontmost, its title changed, or the window became unknown.
    /// Only a change to another window can end the hold of a manually selected mode, and only if
    /// `release_on_focus_change` is set.
    pub fn focused(&mut self, window: Option<Window>) -> Option<Wish> {
        if self.window == window {
            return None;
        }
        let arrived = window.as_ref().map(|it| it.id);
        if arrived.is_some() && arrived != self.last {
            let releases = self.rules.as_ref().is_some_and(|it| it.release_on_focus_change);
            // The first known window is not a change of windows.
            if releases && self.last.is_some() {
                self.held = false;
            }
            self.last = arrived;
        }
        self.window = window;
        self.wish()
    }

    /// The mode that the rules select now. `None` while a manually selected mode is held or the
    /// window is unknown.
    pub fn wish(&self) -> Option<Wish> {
        let (rules, window) = (self.rules.as_ref()?, self.window.as_ref()?);
        if self.held {
            return None;
        }
        let wish = |mode: &String, because| Some(Wish { mode: mode.clone(), because });
        let by_window =
            rules.window_rules.iter().find(|it| same(&it.app, &window.app) && glob(&it.title, &window.title));
        if let Some(rule) = by_window {
            return wish(&rule.mode, Because::WindowRule);
        }
        if let Some((_, mode)) = rules.rules.iter().find(|(app, _)| same(app, &window.app)) {
            return wish(mode, Because::AppRule);
        }
        wish(rules.default.as_ref()?, Because::Default)
    }
}

/// Compares window classes and ignores case.
fn same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

/// Matches a title and ignores case: `*` is any number of characters, `?` is one. The time is
/// linear in the title length times the number of stars.
fn glob(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
    let text: Vec<char> = text.to_lowercase().chars().collect();
    let (mut at, mut read) = (0, 0);
    // The position of the last star, and the end of the text that it matches.
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = text.get(read) {
        match (pattern.get(at), star) {
            (Some('*'), _) => {
                star = Some((at, read));
                at += 1;
            }
            (Some(it), _) if *it == '?' || it == c => {
                at += 1;
                read += 1;
            }
            (_, Some((place, taken))) => {
                star = Some((place, taken + 1));
                at = place + 1;
                read = taken + 1;
            }
            (_, None) => return false,
        }
    }
    pattern.get(at..).is_none_or(|rest| rest.iter().all(|it| *it == '*'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WindowRule;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn rules(release: bool) -> PerAppModes {
        let rule =
            |app: &str, title: &str, mode: &str| WindowRule { app: app.into(), title: title.into(), mode: mode.into() };
        PerAppModes {
            default: Some("Default".into()),
            rules: BTreeMap::from([("Live".into(), "Session".into()), ("firefox".into(), "Web".into())]),
            window_rules: vec![
                rule("live", "*mix*", "Mix"),
                rule("Live", "*", "Any"),
                rule("Firefox", "?ews - *", "News"),
            ],
            release_on_focus_change: release,
        }
    }

    fn window(id: u64, app: &str, title: &str) -> Option<Window> {
        Some(Window { id, app: app.into(), title: title.into() })
    }

    fn mode(wish: Option<Wish>) -> Option<(String, Because)> {
        wish.map(|it| (it.mode, it.because))
    }

    #[test]
    fn window_rules_come_before_app_rules_and_those_before_the_default() {
        let mut focus = Focus::new(Some(rules(true)));
        let mut at = |it| mode(focus.focused(it));
        assert_eq!(at(window(1, "LIVE", "My Mixdown")), Some(("Mix".into(), Because::WindowRule)));
        assert_eq!(
            at(window(1, "Live", "Song")),
            Some(("Any".into(), Because::WindowRule)),
            "the rules were not tried in file order"
        );
        assert_eq!(at(window(2, "Firefox", "News - today")), Some(("News".into(), Because::WindowRule)));
        assert_eq!(at(window(2, "Firefox", "Mail")), Some(("Web".into(), Because::AppRule)));
        assert_eq!(at(window(3, "xterm", "sh")), Some(("Default".into(), Because::Default)));
        assert_eq!(at(window(3, "xterm", "sh")), None, "an unchanged window selected a mode again");
        assert_eq!(at(None), None, "the rules selected a mode for an unknown window");
    }

    #[test]
    fn a_hold_lasts_until_another_window_or_auto() {
        let mut focus = Focus::new(Some(rules(true)));
        focus.focused(window(1, "xterm", "a"));
        focus.chosen_by_hand();
        assert_eq!(focus.focused(window(1, "xterm", "b")), None, "a new title ended the hold");
        focus.focused(None);
        assert_eq!(focus.focused(window(1, "xterm", "b")), None, "the hold ended when its window was frontmost again");
        assert_eq!(mode(focus.focused(window(2, "xterm", "c"))), Some(("Default".into(), Because::Default)));
        focus.chosen_by_hand();
        assert_eq!(mode(focus.release()), Some(("Default".into(), Because::Default)));
        let mut kept = Focus::new(Some(rules(false)));
        kept.focused(window(1, "xterm", "a"));
        kept.chosen_by_hand();
        assert_eq!(kept.focused(window(2, "Live", "mix")), None, "a focus change ended the hold");
        assert!(kept.is_held());
        let mut none = Focus::new(None);
        assert_eq!(none.focused(window(1, "Live", "mix")), None);
    }

    #[derive(Clone, Debug)]
    enum Op {
        Focus(u64, &'static str, String),
        Lost,
        Hand,
        Auto,
        Rules(bool, bool),
    }

    fn op() -> impl Strategy<Value = Op> {
        let app = proptest::sample::select(vec!["Live", "LIVE", "firefox", "xterm"]);
        prop_oneof![
            6 => (0u64..3, app, "(News - |my mix|[a-zA-Z -]{0,6})").prop_map(|(id, app, title)| Op::Focus(id, app, title)),
            1 => Just(Op::Lost),
            2 => Just(Op::Hand),
            1 => Just(Op::Auto),
            1 => (any::<bool>(), any::<bool>()).prop_map(|(there, release)| Op::Rules(there, release)),
        ]
    }

    /// A title rule as a regular expression, used for comparison.
    fn as_regex(glob: &str) -> regex::Regex {
        let inner: String = glob
            .chars()
            .map(|c| match c {
                '*' => ".*".to_owned(),
                '?' => ".".to_owned(),
                other => regex::escape(&other.to_string()),
            })
            .collect();
        regex::Regex::new(&format!("(?is)^{inner}$")).expect("escaped")
    }

    proptest! {
        #[test]
        fn hold_then_window_then_app_then_default(ops in proptest::collection::vec(op(), 1..60)) {
            let mut focus = Focus::new(Some(rules(true)));
            let mut rules_now = Some(rules(true));
            let (mut held, mut shown, mut last) = (false, None::<Window>, None::<u64>);
            for op in ops {
                match op {
                    Op::Focus(id, app, title) => {
                        let next = Some(Window { id, app: app.into(), title });
                        if last.is_some_and(|it| it != id) && rules_now.as_ref().is_some_and(|it| it.release_on_focus_change) {
                            held = false;
                        }
                        last = Some(id);
                        focus.focused(next.clone());
                        shown = next;
                    }
                    Op::Lost => {
                        focus.focused(None);
                        shown = None;
                    }
                    Op::Hand => {
                        focus.chosen_by_hand();
                        held = true;
                    }
                    Op::Auto => {
                        focus.release();
                        held = false;
                    }
                    Op::Rules(there, release) => {
                        rules_now = there.then(|| rules(release));
                        focus.reload(rules_now.clone());
                    }
                }
                prop_assert_eq!(focus.is_held(), held);
                let expected = match (&rules_now, &shown) {
                    (Some(rules), Some(window)) if !held => {
                        let app = window.app.to_lowercase();
                        let by_window = rules.window_rules.iter()
                            .find(|it| it.app.to_lowercase() == app && as_regex(&it.title).is_match(&window.title));
                        let by_app = rules.rules.iter().find(|it| it.0.to_lowercase() == app);
                        by_window.map(|it| it.mode.clone()).or(by_app.map(|it| it.1.clone())).or(rules.default.clone())
                    }
                    (_, _) => None,
                };
                prop_assert_eq!(focus.wish().map(|it| it.mode), expected);
            }
        }

        #[test]
        fn globs_read_as_people_mean_them(pattern in "[ab*?.]{0,8}", text in "[abAB.]{0,10}") {
            prop_assert_eq!(glob(&pattern, &text), as_regex(&pattern).is_match(&text));
        }
    }
}
