//! OSC 1.0 address patterns. A pattern is compiled once. The time of a match is linear in the
//! length of the address.
//!
//! `?` is one character, `*` any number of characters, `[a-z]` and `[!a-z]` one of a set, `{a,b}`
//! one of several words. None of them matches a `/`. Not here: OSC packets (`conductor-hosts`), and
//! tests of arguments (`engine`).

use std::fmt;

/// The maximum number of characters of a pattern. With this limit, the set of active positions has
/// a fixed size on the stack.
pub const PATTERN_MAX: usize = 256;

const WORDS: usize = PATTERN_MAX / 64 + 1;

/// A set of positions in the pattern.
type Set = [u64; WORDS];

/// A compiled address pattern.
#[derive(Clone, PartialEq)]
pub struct Pattern {
    text: String,
    /// The number of plain characters before the first wildcard. They are compared first, because
    /// most addresses already differ in these characters.
    prefix_len: usize,
    /// The positions of the pattern. Empty for a pattern without wildcards, which is compared as
    /// text.
    places: Vec<Place>,
    first: Set,
}

#[derive(Clone, Debug, PartialEq)]
struct Place {
    takes: Takes,
    /// The positions that may match the next character. The position after the last one is the end
    /// of the pattern.
    follow: Set,
}

#[derive(Clone, Debug, PartialEq)]
enum Takes {
    One(char),
    Any,
    Set { not: bool, ranges: Vec<(char, char)> },
}

impl Takes {
    fn accepts(&self, c: char) -> bool {
        match self {
            Takes::One(it) => *it == c,
            Takes::Any => c != '/',
            Takes::Set { not, ranges } => {
                c != '/' && ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *not
            }
        }
    }
}

/// The reason why a pattern is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    /// The column in characters, from 1.
    pub column: usize,
    pub reason: Reason,
}

/// The faults that a pattern can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The pattern does not begin with `/`.
    NoSlash,
    /// The pattern has more than [`PATTERN_MAX`] characters.
    TooLong,
    /// A `[` has no closing `]`.
    OpenBracket,
    /// A `{` has no closing `}`.
    OpenBrace,
    /// A `]` has no opening `[`.
    LoneBracket,
    /// A `}` has no opening `{`.
    LoneBrace,
    /// A set `[]` contains no characters.
    EmptySet,
    /// A choice in braces is empty.
    EmptyChoice,
    /// A range is reversed, such as `[z-a]`.
    BackwardRange,
    /// Braces contain a wildcard.
    WildcardInBraces,
    /// Brackets or braces contain a `/`.
    SlashInside,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.reason {
            Reason::NoSlash => "an OSC address begins with '/'",
            Reason::TooLong => "an OSC pattern has at most 256 characters",
            Reason::OpenBracket => "'[' has no ']' after it",
            Reason::OpenBrace => "'{' has no '}' after it",
            Reason::LoneBracket => "']' has no '[' before it",
            Reason::LoneBrace => "'}' has no '{' before it",
            Reason::EmptySet => "'[]' matches nothing; name the characters inside",
            Reason::EmptyChoice => "'{}' matches nothing; name the words inside, separated by ','",
            Reason::BackwardRange => "the range is reversed; write the smaller character first",
            Reason::WildcardInBraces => "only plain words are allowed inside '{}', not '?', '*', '[' or '{'",
            Reason::SlashInside => "'/' is not allowed inside brackets or braces; close the bracket first",
        };
        write!(f, "column {}: {words}", self.column)
    }
}

impl std::error::Error for PatternError {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

impl Pattern {
    /// Compiles a pattern.
    pub fn compile(text: &str) -> Result<Pattern, PatternError> {
        if !text.starts_with('/') {
            return Err(PatternError { column: 1, reason: Reason::NoSlash });
        }
        if text.chars().nth(PATTERN_MAX).is_some() {
            return Err(PatternError { column: PATTERN_MAX + 1, reason: Reason::TooLong });
        }
        let pieces = pieces(text)?;
        let exact = pieces.iter().all(|piece| matches!(piece, Piece::Takes(Takes::One(_))));
        let prefix_len = text.find(['?', '*', '[', '{']).unwrap_or(text.len());
        if exact {
            return Ok(Pattern { text: text.into(), prefix_len, places: Vec::new(), first: [0; WORDS] });
        }
        let (places, first) = positions(pieces);
        Ok(Pattern { text: text.into(), prefix_len, places, first })
    }

    /// The text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern has no wildcards. Exact addresses have precedence over patterns.
    pub fn is_exact(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether the pattern matches an address.
    pub fn is_match(&self, address: &str) -> bool {
        if self.is_exact() {
            return self.text == address;
        }
        let prefix = self.text.get(..self.prefix_len).unwrap_or_default();
        if !address.starts_with(prefix) {
            return false;
        }
        let mut live = self.first;
        for c in address.chars() {
            let mut next: Set = [0; WORDS];
            let mut any = false;
            for index in members(&live) {
                // The end position matches no character.
                let Some(place) = self.places.get(index) else { continue };
                if place.takes.accepts(c) {
                    any = true;
                    next.iter_mut().zip(&place.follow).for_each(|(into, from)| *into |= from);
                }
            }
            if !any {
                return false;
            }
            live = next;
        }
        has(&live, self.places.len())
    }
}

enum Piece {
    Takes(Takes),
    Star,
    Choice(Vec<Vec<char>>),
}

fn pieces(text: &str) -> Result<Vec<Piece>, PatternError> {
    let fault = |at: usize, reason| PatternError { column: at + 1, reason };
    let mut chars = text.chars().enumerate().peekable();
    let mut out = Vec::new();
    while let Some((at, c)) = chars.next() {
        match c {
            '?' => out.push(Piece::Takes(Takes::Any)),
            // Two stars are equivalent to one.
            '*' if matches!(out.last(), Some(Piece::Star)) => {}
            '*' => out.push(Piece::Star),
            ']' => return Err(fault(at, Reason::LoneBracket)),
            '}' => return Err(fault(at, Reason::LoneBrace)),
            '[' => {
                let not = chars.next_if(|(_, c)| *c == '!').is_some();
                let mut ranges = Vec::new();
                loop {
                    let Some((here, low)) = chars.next() else { return Err(fault(at, Reason::OpenBracket)) };
                    match low {
                        ']' => break,
                        '/' => return Err(fault(here, Reason::SlashInside)),
                        _ => {}
                    }
                    let mut ahead = chars.clone();
                    let high = match (ahead.next(), ahead.next()) {
                        // A minus before the closing bracket is literal.
                        (Some((_, '-')), Some((_, high))) if high != ']' && high != '/' => high,
                        _ => {
                            ranges.push((low, low));
                            continue;
                        }
                    };
                    chars = ahead;
                    if high < low {
                        return Err(fault(here, Reason::BackwardRange));
                    }
                    ranges.push((low, high));
                }
                if ranges.is_empty() {
                    return Err(fault(at, Reason::EmptySet));
                }
                out.push(Piece::Takes(Takes::Set { not, ranges }));
            }
            '{' => {
                let mut words = vec![Vec::new()];
                loop {
                    let Some((here, c)) = chars.next() else { return Err(fault(at, Reason::OpenBrace)) };
                    match c {
                        '}' => break,
                        ',' => words.push(Vec::new()),
                        '/' => return Err(fault(here, Reason::SlashInside)),
                        '?' | '*' | '[' | '{' => return Err(fault(here, Reason::WildcardInBraces)),
                        _ => words.last_mut().into_iter().for_each(|word| word.push(c)),
                    }
                }
                if words.iter().all(Vec::is_empty) {
                    return Err(fault(at, Reason::EmptyChoice));
                }
                out.push(Piece::Choice(words));
            }
            _ => out.push(Piece::Takes(Takes::One(c))),
        }
    }
    Ok(out)
}

/// Converts the plain characters, wildcards and sets of the pattern to positions, each with the
/// positions that may follow it. Each position matches one character, so a match reads every
/// character of the address once.
fn positions(pieces: Vec<Piece>) -> (Vec<Place>, Set) {
    let mut places: Vec<Place> = Vec::new();
    // The pieces are converted from the end, so that the following positions are known: `after` is
    // the set of positions that may follow the current piece.
    let total: usize = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Takes(_) | Piece::Star => 1,
            Piece::Choice(words) => words.iter().map(Vec::len).sum(),
        })
        .sum();
    let mut after: Set = [0; WORDS];
    add(&mut after, total);
    let mut next_index = total;
    for piece in pieces.into_iter().rev() {
        match piece {
            Piece::Takes(takes) => {
                next_index -= 1;
                places.push(Place { takes, follow: after });
                after = [0; WORDS];
                add(&mut after, next_index);
            }
            Piece::Star => {
                next_index -= 1;
                let mut follow = after;
                add(&mut follow, next_index);
                places.push(Place { takes: Takes::Any, follow });
                // A star may also match no character.
                after = follow;
            }
            Piece::Choice(words) => {
                let mut before: Set = [0; WORDS];
                for word in words {
                    let mut behind = after;
                    for c in word.into_iter().rev() {
                        next_index -= 1;
                        places.push(Place { takes: Takes::One(c), follow: behind });
                        behind = [0; WORDS];
                        add(&mut behind, next_index);
                    }
                    before.iter_mut().zip(&behind).for_each(|(into, from)| *into |= from);
                }
                after = before;
            }
        }
    }
    places.reverse();
    (places, after)
}

fn add(set: &mut Set, index: usize) {
    if let Some(word) = set.get_mut(index / 64) {
        *word |= 1 << (index % 64);
    }
}

fn has(set: &Set, index: usize) -> bool {
    set.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
}

fn members(set: &Set) -> impl Iterator<Item = usize> + '_ {
    set.iter().enumerate().flat_map(|(at, word)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (bit < 64).then_some(at * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_table_of_matches() {
        let table = [
            ("/a/b", "/a/b", true),
            ("/a/b", "/a/bc", false),
            ("/a/?", "/a/b", true),
            ("/a/?", "/a/", false),
            ("/a/?", "/a/bc", false),
            ("/a?b", "/a/b", false),
            ("/a/*", "/a/anything", true),
            ("/a/*", "/a/", true),
            ("/a/*", "/a/b/c", false),
            ("/*/b", "/a/b", true),
            ("/*", "/a/b", false),
            ("/a/*b*c", "/a/xxbyybzzc", true),
            ("/a/*b*c", "/a/xxbyybzzd", false),
            ("/a/**b", "/a/b", true),
            ("/ch/[0-9]", "/ch/7", true),
            ("/ch/[0-9]", "/ch/a", false),
            ("/ch/[!0-9]", "/ch/a", true),
            ("/ch/[!0-9]", "/ch/7", false),
            ("/ch/[!0-9]x", "/ch//x", false),
            ("/ch/[a-]", "/ch/-", true),
            ("/ch/[a-]", "/ch/b", false),
            ("/ch/[0-9a-f]", "/ch/e", true),
            ("/transport/{play,stop}", "/transport/play", true),
            ("/transport/{play,stop}", "/transport/stop", true),
            ("/transport/{play,stop}", "/transport/pla", false),
            ("/transport/{play,stop}", "/transport/playstop", false),
            ("/x/{a,ab}{c,bc}", "/x/abc", true),
            ("/x/{a,ab}{c,bc}", "/x/abbc", true),
            ("/x/{a,ab}{c,bc}", "/x/ac", true),
            ("/x/{a,ab}{c,bc}", "/x/ab", false),
            ("/x/{,a}b", "/x/b", true),
            ("/x/{,a}b", "/x/ab", true),
            ("/x/*{a,b}?", "/x/zzac", true),
            ("/x/*{a,b}?", "/x/zzca", false),
            ("/é/?", "/é/ü", true),
            ("/a/*", "/b/x", false),
            ("/", "/", true),
        ];
        for (pattern, address, expected) in table {
            let compiled = Pattern::compile(pattern).unwrap();
            assert_eq!(compiled.is_match(address), expected, "{pattern} against {address}");
        }
    }

    #[test]
    fn bad_patterns_name_the_column_and_the_reason() {
        for (pattern, column, reason) in [
            ("a/b", 1, Reason::NoSlash),
            ("", 1, Reason::NoSlash),
            ("/a/[bc", 4, Reason::OpenBracket),
            ("/a/{b,c", 4, Reason::OpenBrace),
            ("/a]", 3, Reason::LoneBracket),
            ("/a}", 3, Reason::LoneBrace),
            ("/[]", 2, Reason::EmptySet),
            ("/[!]", 2, Reason::EmptySet),
            ("/{}", 2, Reason::EmptyChoice),
            ("/{,}", 2, Reason::EmptyChoice),
            ("/[z-a]", 3, Reason::BackwardRange),
            ("/{a*}", 4, Reason::WildcardInBraces),
            ("/{a/b}", 4, Reason::SlashInside),
            ("/[a/b]", 4, Reason::SlashInside),
        ] {
            assert_eq!(Pattern::compile(pattern), Err(PatternError { column, reason }), "{pattern}");
        }
        let long = format!("/{}", "a".repeat(PATTERN_MAX));
        assert_eq!(Pattern::compile(&long), Err(PatternError { column: 257, reason: Reason::TooLong }));
        assert!(Pattern::compile(&long[..PATTERN_MAX]).unwrap().is_exact());
    }

    /// A backtracking matcher would need an unreasonable time for the patterns of this test.
    #[test]
    fn hostile_patterns_end() {
        let stars = Pattern::compile(&format!("/{}b", "*a".repeat(127))).unwrap();
        let text = format!("/{}", "a".repeat(20_000));
        assert!(!stars.is_match(&text));
        assert!(stars.is_match(&format!("{text}b")));
        let choices = Pattern::compile(&format!("/{}", "{a,aa}".repeat(42))).unwrap();
        assert!(choices.is_match(&format!("/{}", "a".repeat(63))));
        assert!(!choices.is_match(&format!("/{}", "a".repeat(85))));
        assert!(!choices.is_match(&format!("/{}", "a".repeat(41))));
    }

    /// A simple recursive matcher for the same pieces, used for comparison.
    fn slow(pieces: &[Piece], text: &[char]) -> bool {
        let Some((piece, rest)) = pieces.split_first() else { return text.is_empty() };
        match piece {
            Piece::Takes(takes) => text.split_first().is_some_and(|(c, after)| takes.accepts(*c) && slow(rest, after)),
            Piece::Star => (0..=text.len())
                .take_while(|len| text[..*len].iter().all(|c| *c != '/'))
                .any(|len| slow(rest, &text[len..])),
            Piece::Choice(words) => words.iter().any(|word| text.starts_with(word) && slow(rest, &text[word.len()..])),
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_recursive_reading(
            pattern in "/([ab/]|\\?|\\*|\\[[ab]\\]|\\[!a\\]|\\{a,ab,\\}){0,8}",
            address in "/[ab/]{0,10}",
        ) {
            let compiled = Pattern::compile(&pattern).unwrap();
            let chars: Vec<char> = address.chars().collect();
            prop_assert_eq!(compiled.is_match(&address), slow(&pieces(&pattern).unwrap(), &chars));
        }

        #[test]
        fn any_text_compiles_or_is_refused(pattern in any::<String>(), address in any::<String>()) {
            if let Ok(compiled) = Pattern::compile(&pattern) {
                let _ = compiled.is_match(&address);
            }
        }
    }
}
