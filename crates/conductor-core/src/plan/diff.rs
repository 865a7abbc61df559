//! The difference between two texts as lines, for people. [`apply`] can apply a difference, which
//! proves that the difference is complete.
//!
//! A text is split at `\n`, so a final newline is shown as an empty last line. Lines of the
//! difference start with `+ `, `- ` or two blanks. Three lines of context identify the place of a
//! hunk. If they are ambiguous, each hunk starts with a line of two blanks and `@@ -line,count
//! +line,count @@`.

use similar::{Algorithm, ChangeTag, DiffOp, capture_diff_slices, group_diff_ops};

const CONTEXT: usize = 3;

/// The difference between two texts; empty if they are equal.
pub fn preview(old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let old_lines: Vec<&str> = old.split('\n').collect();
    let new_lines: Vec<&str> = new.split('\n').collect();
    let hunks = group_diff_ops(capture_diff_slices(Algorithm::Myers, &old_lines, &new_lines), CONTEXT);
    let plain = print(&hunks, &old_lines, &new_lines, false);
    if apply(old, &plain).as_deref() == Some(new) { plain } else { print(&hunks, &old_lines, &new_lines, true) }
}

fn print(hunks: &[Vec<DiffOp>], old: &[&str], new: &[&str], positions: bool) -> String {
    let mut out = Vec::new();
    for hunk in hunks {
        if let (true, Some(first)) = (positions, hunk.first()) {
            let (old_start, new_start) = (first.old_range().start + 1, first.new_range().start + 1);
            let old_count: usize = hunk.iter().map(|op| op.old_range().len()).sum();
            let new_count: usize = hunk.iter().map(|op| op.new_range().len()).sum();
            out.push(format!("  @@ -{old_start},{old_count} +{new_start},{new_count} @@"));
        }
        for change in hunk.iter().flat_map(|op| op.iter_changes(old, new)) {
            let sign = match change.tag() {
                ChangeTag::Equal => "  ",
                ChangeTag::Delete => "- ",
                ChangeTag::Insert => "+ ",
            };
            out.push(format!("{sign}{}", change.value()));
        }
    }
    out.join("\n")
}

/// Applies a difference to `old`. Returns `None` if the difference does not belong to this text.
pub fn apply(old: &str, diff: &str) -> Option<String> {
    if diff.is_empty() {
        return Some(old.to_owned());
    }
    let old: Vec<&str> = old.split('\n').collect();
    let lines: Vec<(ChangeTag, &str)> = diff.split('\n').map(sign).collect::<Option<_>>()?;
    let new = if lines.first().is_some_and(|(kind, line)| *kind == ChangeTag::Equal && position(line).is_some()) {
        by_position(&old, &lines)?
    } else {
        by_context(&old, &lines)?
    };
    Some(new.join("\n"))
}

fn sign(line: &str) -> Option<(ChangeTag, &str)> {
    let signs = [("+ ", ChangeTag::Insert), ("- ", ChangeTag::Delete), ("  ", ChangeTag::Equal)];
    signs.iter().find_map(|(sign, kind)| line.strip_prefix(sign).map(|rest| (*kind, rest)))
}

/// The first old line (from 0), the number of old lines, and the number of new lines.
fn position(line: &str) -> Option<(usize, usize, usize)> {
    let inner = line.strip_prefix("@@ -")?.strip_suffix(" @@")?;
    let (old, new) = inner.split_once(" +")?;
    let (start, old_count) = old.split_once(',')?;
    let (_, new_count) = new.split_once(',')?;
    Some((start.parse::<usize>().ok()?.checked_sub(1)?, old_count.parse().ok()?, new_count.parse().ok()?))
}

fn by_position<'t>(old: &[&'t str], lines: &[(ChangeTag, &'t str)]) -> Option<Vec<&'t str>> {
    let mut out = Vec::new();
    let mut cursor = 0;
    let mut rest = lines.iter();
    while let Some((kind, head)) = rest.next() {
        let (start, mut old_left, mut new_left) = position(head).filter(|_| *kind == ChangeTag::Equal)?;
        out.extend(old.get(cursor..start)?);
        cursor = start;
        while old_left > 0 || new_left > 0 {
            let (kind, line) = rest.next()?;
            if *kind != ChangeTag::Insert {
                (old.get(cursor) == Some(line)).then_some(())?;
                cursor += 1;
                old_left = old_left.checked_sub(1)?;
            }
            if *kind != ChangeTag::Delete {
                out.push(*line);
                new_left = new_left.checked_sub(1)?;
            }
        }
    }
    out.extend(old.get(cursor..)?);
    Some(out)
}

fn by_context<'t>(old: &[&'t str], lines: &[(ChangeTag, &'t str)]) -> Option<Vec<&'t str>> {
    let mut out = Vec::new();
    let mut cursor = 0;
    let mut at = 0;
    while at < lines.len() {
        // Find the place in the old text that matches the lines of the next hunk, without its added
        // lines.
        let hunk = hunk_length(old, cursor, at, lines);
        let part = lines.get(at..at + hunk)?;
        let wanted: Vec<&str> =
            part.iter().filter(|(kind, _)| *kind != ChangeTag::Insert).map(|(_, line)| *line).collect();
        let start = (cursor..=old.len().checked_sub(wanted.len())?)
            .find(|it| old.get(*it..it + wanted.len()) == Some(&wanted))?;
        out.extend(old.get(cursor..start)?);
        out.extend(part.iter().filter(|(kind, _)| *kind != ChangeTag::Delete).map(|(_, line)| *line));
        cursor = start + wanted.len();
        at += hunk;
    }
    out.extend(old.get(cursor..)?);
    Some(out)
}

/// The number of lines in the next hunk. There is no separator between hunks. Exactly twice
/// [`CONTEXT`] equal lines between two changes may be inside one hunk, or may separate two hunks.
fn hunk_length(old: &[&str], cursor: usize, at: usize, lines: &[(ChangeTag, &str)]) -> usize {
    let rest = lines.get(at..).unwrap_or_default();
    let mut end = 0;
    let mut changed = false;
    while end < rest.len() {
        let run = rest.iter().skip(end).take_while(|(kind, _)| *kind == ChangeTag::Equal).count();
        let more = rest.get(end + run..).is_some_and(|it| !it.is_empty());
        if changed && more && run == 2 * CONTEXT && !fits(old, cursor, rest.get(..end + run).unwrap_or_default()) {
            return end + CONTEXT;
        }
        end += run;
        let changes = rest.iter().skip(end).take_while(|(kind, _)| *kind != ChangeTag::Equal).count();
        changed |= changes > 0;
        end += changes;
    }
    rest.len()
}

fn fits(old: &[&str], cursor: usize, part: &[(ChangeTag, &str)]) -> bool {
    let wanted: Vec<&str> = part.iter().filter(|(kind, _)| *kind != ChangeTag::Insert).map(|(_, line)| *line).collect();
    let rest = old.get(cursor..).unwrap_or_default();
    rest.windows(wanted.len().max(1)).any(|window| window == wanted)
}
