//! A difference of two texts as lines, for a person to read and for [`apply`] to prove.
//!
//! A text is its lines joined by `\n`; a text that ends in a newline therefore ends in an empty
//! line, and a missing one shows. Lines start with `+ `, `- ` or two blanks. There are no
//! positions: three lines of context find the place. Where they would not, each hunk is preceded by
//! a line of two blanks and `@@ -line,count +line,count @@`.

const CONTEXT: usize = 3;

/// Above this many differing lines the middle is shown as removed and added as a whole; the search
/// would cost more than it tells.
const MAX_EDITS: usize = 500;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Same,
    Removed,
    Added,
}

struct Hunk<'t> {
    old_start: usize,
    new_start: usize,
    lines: Vec<(Kind, &'t str)>,
}

/// Empty when the texts are equal.
pub fn preview(old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let old_lines: Vec<&str> = old.split('\n').collect();
    let new_lines: Vec<&str> = new.split('\n').collect();
    let hunks = hunks(&script(&old_lines, &new_lines));
    let plain = print(&hunks, false);
    if apply(old, &plain).as_deref() == Some(new) { plain } else { print(&hunks, true) }
}

fn print(hunks: &[Hunk<'_>], positions: bool) -> String {
    let mut out = Vec::new();
    for hunk in hunks {
        if positions {
            let old = hunk.lines.iter().filter(|(kind, _)| *kind != Kind::Added).count();
            let new = hunk.lines.iter().filter(|(kind, _)| *kind != Kind::Removed).count();
            out.push(format!("  @@ -{},{old} +{},{new} @@", hunk.old_start + 1, hunk.new_start + 1));
        }
        out.extend(hunk.lines.iter().map(|(kind, line)| {
            let sign = match kind {
                Kind::Same => "  ",
                Kind::Removed => "- ",
                Kind::Added => "+ ",
            };
            format!("{sign}{line}")
        }));
    }
    out.join("\n")
}

fn hunks<'t>(script: &[(Kind, &'t str)]) -> Vec<Hunk<'t>> {
    let mut out: Vec<Hunk<'t>> = Vec::new();
    let (mut old, mut new) = (0, 0);
    // Equal lines since the last change, and whether a hunk is open.
    let mut since = usize::MAX;
    let mut open = false;
    for (index, (kind, line)) in script.iter().enumerate() {
        since = if *kind == Kind::Same { since.saturating_add(1) } else { 0 };
        let change_ahead = script.iter().skip(index).take(CONTEXT + 1).any(|(kind, _)| *kind != Kind::Same);
        let shown = since <= CONTEXT || change_ahead;
        if shown && !open {
            out.push(Hunk { old_start: old, new_start: new, lines: Vec::new() });
        }
        open = shown;
        if let Some(hunk) = out.last_mut().filter(|_| shown) {
            hunk.lines.push((*kind, line));
        }
        old += usize::from(*kind != Kind::Added);
        new += usize::from(*kind != Kind::Removed);
    }
    out
}

/// The shortest edit script, after Myers ("An O(ND) Difference Algorithm and Its Variations",
/// 1986), between equal ends.
fn script<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(Kind, &'t str)> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (old.get(head..).unwrap_or_default(), new.get(head..).unwrap_or_default());
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let old_mid = old_rest.get(..old_rest.len() - tail).unwrap_or_default();
    let new_mid = new_rest.get(..new_rest.len() - tail).unwrap_or_default();
    let same = |lines: &[&'t str]| lines.iter().map(|line| (Kind::Same, *line)).collect::<Vec<_>>();
    let mut out = same(old.get(..head).unwrap_or_default());
    out.extend(middle(old_mid, new_mid));
    out.extend(same(old_rest.get(old_rest.len() - tail..).unwrap_or_default()));
    out
}

fn middle<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(Kind, &'t str)> {
    let whole = || {
        let removed = old.iter().map(|line| (Kind::Removed, *line));
        removed.chain(new.iter().map(|line| (Kind::Added, *line))).collect()
    };
    if old.is_empty() || new.is_empty() {
        return whole();
    }
    let Some(trace) = search(old, new) else { return whole() };
    // Walk back from the end: each round undoes the equal lines after one edit, then the edit.
    let mut out = Vec::new();
    let (mut x, mut y) = (old.len() as isize, new.len() as isize);
    for (edits, reach) in trace.iter().enumerate().rev() {
        let from = reach.origin(x - y, edits as isize);
        let (from_x, from_y) = (reach.get(from), reach.get(from) - from);
        while x > from_x && y > from_y && x > 0 && y > 0 {
            x -= 1;
            y -= 1;
            out.push((Kind::Same, line(old, x)));
        }
        if edits > 0 {
            out.push(if x == from_x { (Kind::Added, line(new, from_y)) } else { (Kind::Removed, line(old, from_x)) });
            (x, y) = (from_x, from_y);
        }
    }
    out.reverse();
    out
}

fn line<'t>(lines: &[&'t str], at: isize) -> &'t str {
    usize::try_from(at).ok().and_then(|at| lines.get(at)).copied().unwrap_or_default()
}

/// The furthest old line reached on each diagonal (old minus new), as it stood before a round.
#[derive(Clone)]
struct Reach {
    middle: isize,
    values: Vec<isize>,
}

impl Reach {
    fn get(&self, k: isize) -> isize {
        usize::try_from(k + self.middle).ok().and_then(|at| self.values.get(at)).copied().unwrap_or(0)
    }

    fn set(&mut self, k: isize, x: isize) {
        if let Some(slot) = usize::try_from(k + self.middle).ok().and_then(|at| self.values.get_mut(at)) {
            *slot = x;
        }
    }

    /// The diagonal an edit onto `k` came from: from above adds a line, from below removes one.
    fn origin(&self, k: isize, edits: isize) -> isize {
        let adds = k == -edits || (k != edits && self.get(k - 1) < self.get(k + 1));
        if adds { k + 1 } else { k - 1 }
    }
}

fn search(old: &[&str], new: &[&str]) -> Option<Vec<Reach>> {
    let limit = MAX_EDITS.min(old.len() + new.len()) as isize;
    let mut reach = Reach { middle: limit + 1, values: vec![0; 2 * limit as usize + 3] };
    let mut trace = Vec::new();
    for edits in 0..=limit {
        trace.push(reach.clone());
        let mut k = -edits;
        while k <= edits {
            let from = reach.origin(k, edits);
            let mut x = if from > k { reach.get(from) } else { reach.get(from) + 1 };
            while x < old.len() as isize && x - k >= 0 && x - k < new.len() as isize && line(old, x) == line(new, x - k)
            {
                x += 1;
            }
            reach.set(k, x);
            if x >= old.len() as isize && x - k >= new.len() as isize {
                return Some(trace);
            }
            k += 2;
        }
    }
    None
}

/// The text that a difference makes of `old`, or nothing when it does not fit.
pub fn apply(old: &str, diff: &str) -> Option<String> {
    if diff.is_empty() {
        return Some(old.to_owned());
    }
    let old: Vec<&str> = old.split('\n').collect();
    let lines: Vec<(Kind, &str)> = diff.split('\n').map(sign).collect::<Option<_>>()?;
    let new = if lines.first().is_some_and(|(kind, line)| *kind == Kind::Same && position(line).is_some()) {
        by_position(&old, &lines)?
    } else {
        by_context(&old, &lines)?
    };
    Some(new.join("\n"))
}

fn sign(line: &str) -> Option<(Kind, &str)> {
    let signs = [("+ ", Kind::Added), ("- ", Kind::Removed), ("  ", Kind::Same)];
    signs.iter().find_map(|(sign, kind)| line.strip_prefix(sign).map(|rest| (*kind, rest)))
}

/// Old line (from 0), old count, new count.
fn position(line: &str) -> Option<(usize, usize, usize)> {
    let inner = line.strip_prefix("@@ -")?.strip_suffix(" @@")?;
    let (old, new) = inner.split_once(" +")?;
    let (start, old_count) = old.split_once(',')?;
    let (_, new_count) = new.split_once(',')?;
    Some((start.parse::<usize>().ok()?.checked_sub(1)?, old_count.parse().ok()?, new_count.parse().ok()?))
}

fn by_position<'t>(old: &[&'t str], lines: &[(Kind, &'t str)]) -> Option<Vec<&'t str>> {
    let mut out = Vec::new();
    let mut cursor = 0;
    let mut rest = lines.iter();
    while let Some((kind, head)) = rest.next() {
        let (start, mut old_left, mut new_left) = position(head).filter(|_| *kind == Kind::Same)?;
        out.extend(old.get(cursor..start)?);
        cursor = start;
        while old_left > 0 || new_left > 0 {
            let (kind, line) = rest.next()?;
            if *kind != Kind::Added {
                (old.get(cursor) == Some(line)).then_some(())?;
                cursor += 1;
                old_left = old_left.checked_sub(1)?;
            }
            if *kind != Kind::Removed {
                out.push(*line);
                new_left = new_left.checked_sub(1)?;
            }
        }
    }
    out.extend(old.get(cursor..)?);
    Some(out)
}

fn by_context<'t>(old: &[&'t str], lines: &[(Kind, &'t str)]) -> Option<Vec<&'t str>> {
    let mut out = Vec::new();
    let mut cursor = 0;
    let mut at = 0;
    while at < lines.len() {
        // What the next hunk expects to find: all its lines but the added ones.
        let hunk = hunk_length(old, cursor, at, lines);
        let part = lines.get(at..at + hunk)?;
        let wanted: Vec<&str> = part.iter().filter(|(kind, _)| *kind != Kind::Added).map(|(_, line)| *line).collect();
        let start = (cursor..=old.len().checked_sub(wanted.len())?)
            .find(|it| old.get(*it..it + wanted.len()) == Some(&wanted))?;
        out.extend(old.get(cursor..start)?);
        out.extend(part.iter().filter(|(kind, _)| *kind != Kind::Removed).map(|(_, line)| *line));
        cursor = start + wanted.len();
        at += hunk;
    }
    out.extend(old.get(cursor..)?);
    Some(out)
}

/// Hunks follow each other without a mark. Between two changes stand at most twice [`CONTEXT`]
/// equal lines; exactly that many may be the end of one hunk and the beginning of the next.
fn hunk_length(old: &[&str], cursor: usize, at: usize, lines: &[(Kind, &str)]) -> usize {
    let rest = lines.get(at..).unwrap_or_default();
    let mut end = 0;
    let mut changed = false;
    while end < rest.len() {
        let run = rest.iter().skip(end).take_while(|(kind, _)| *kind == Kind::Same).count();
        let more = rest.get(end + run..).is_some_and(|it| !it.is_empty());
        if changed && more && run == 2 * CONTEXT && !fits(old, cursor, rest.get(..end + run).unwrap_or_default()) {
            return end + CONTEXT;
        }
        end += run;
        let changes = rest.iter().skip(end).take_while(|(kind, _)| *kind != Kind::Same).count();
        changed |= changes > 0;
        end += changes;
    }
    rest.len()
}

fn fits(old: &[&str], cursor: usize, part: &[(Kind, &str)]) -> bool {
    let wanted: Vec<&str> = part.iter().filter(|(kind, _)| *kind != Kind::Added).map(|(_, line)| *line).collect();
    let rest = old.get(cursor..).unwrap_or_default();
    rest.windows(wanted.len().max(1)).any(|window| window == wanted)
}
