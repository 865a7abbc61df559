//! Splits texts into stems of words.

/// The stem of a word, in lower case.
pub type Term = String;

/// Words that do not help to find a tool.
const STOP_WORDS: &[&str] = &[
    "a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "back", "be", "been",
    "but", "by", "can", "could", "did", "do", "does", "for", "from", "get", "give", "go", "got", "had", "has", "have",
    "he", "her", "here", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "let", "like", "make", "me",
    "my", "need", "no", "now", "of", "off", "on", "once", "one", "only", "onto", "or", "other", "our", "out", "over",
    "own", "please", "she", "should", "so", "some", "than", "that", "the", "their", "them", "then", "there", "these",
    "they", "thing", "this", "those", "to", "too", "until", "up", "us", "use", "very", "want", "was", "we", "were",
    "when", "which", "while", "who", "will", "with", "would", "you", "your", "yours", "im", "id", "ive", "around",
    "every",
];

/// Words that report that something does not work. All of them become the same term.
const NEGATIONS: &[&str] =
    &["not", "doesnt", "dont", "didnt", "isnt", "arent", "wont", "cant", "cannot", "never", "nothing", "hasnt"];
const NEGATION: &str = "doesnt";

/// The stems of a text. Stop words are left out; words in camelCase and snake_case are split.
pub fn terms(text: &str) -> Vec<Term> {
    let mut found = Vec::new();
    for word in text.split(|it: char| !it.is_alphanumeric() && it != '\'' && it != '~') {
        for part in split_camel(&word.replace('\'', "")) {
            let lower = part.to_lowercase();
            if NEGATIONS.contains(&lower.as_str()) {
                found.push(NEGATION.to_owned());
            } else if !lower.is_empty() && !STOP_WORDS.contains(&lower.as_str()) {
                found.push(stem(&lower));
            }
        }
    }
    found
}

fn split_camel(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut before_lower = false;
    for (at, letter) in word.char_indices() {
        if before_lower && letter.is_uppercase() {
            parts.push(&word[start..at]);
            start = at;
        }
        before_lower = letter.is_lowercase();
    }
    parts.push(&word[start..]);
    parts
}

/// Removes the common endings of English words. Different words may share a stem, which is good
/// enough for a search.
pub fn stem(word: &str) -> Term {
    let word = word.to_lowercase();
    let mut stem = word.as_str();
    for ending in ["ings", "ing", "ied", "ies", "edly", "ed", "es", "s", "ly"] {
        if let Some(rest) = word.strip_suffix(ending)
            && rest.len() >= 3
            && !(ending == "s" && rest.ends_with('s'))
        {
            stem = rest;
            break;
        }
    }
    let mut stem = stem.to_owned();
    let mut last = stem.chars().rev();
    if stem.len() >= 4 && matches!((last.next(), last.next()), (Some(a), Some(b)) if a == b && a != 's') {
        stem.pop();
    }
    if stem.len() > 3 && stem.ends_with(['e', 'y']) {
        stem.pop();
    }
    stem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_one_word_have_one_stem() {
        for forms in [
            ["map", "maps", "mapped", "mapping"],
            ["note", "notes", "noted", "noting"],
            ["copy", "copies", "copying", "copied"],
            ["switch", "switches", "switched", "switching"],
        ] {
            let stems: Vec<Term> = forms.iter().map(|it| stem(it)).collect();
            assert!(stems.iter().all(|it| *it == stems[0]), "{stems:?}");
        }
    }

    #[test]
    fn names_are_split_and_stop_words_left_out() {
        assert_eq!(terms("live_set_track_props"), ["liv", "set", "track", "prop"]);
        assert_eq!(terms("the clipId of osc~"), ["clip", "osc~"]);
        assert_eq!(terms("it doesn't, not at all"), ["doesnt", "doesnt"]);
        assert_eq!(terms("Ü"), ["ü"]);
    }
}
