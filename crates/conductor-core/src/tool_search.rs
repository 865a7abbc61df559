//! Ranked search over the texts of tools, for `conductor_find_tools`.
//!
//! A query is a task in the words of a musician. The order of its words does not matter, a word may
//! contain a typo, and the table `tool_search/synonyms.toml` translates the words of musicians to
//! the words of the tools. Not here: which tools a caller may see.

mod words;

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use words::{Term, terms};

/// The texts of one tool.
#[derive(Debug, Clone, Copy)]
pub struct ToolText<'a> {
    pub name: &'a str,
    pub title: &'a str,
    pub description: &'a str,
    /// Names of the arguments.
    pub arguments: &'a [&'a str],
    pub toolset: &'a str,
}

/// Weights of the fields in which a word can be found.
const IN_NAME: f64 = 3.0;
const IN_TITLE: f64 = 2.6;
const IN_FIRST_SENTENCE: f64 = 1.5;
const IN_DESCRIPTION: f64 = 0.7;
const IN_ARGUMENTS: f64 = 0.7;
const IN_TOOLSET: f64 = 0.5;

/// Factor for a word that was found through the table of synonyms.
const SYNONYM: f64 = 0.85;
/// Factor for a phrase whose words are all in the query, but not in the order of the phrase or not
/// next to each other.
const SCATTERED: f64 = 0.7;
/// Factor for a word that was found after the correction of a typo.
const CORRECTED: f64 = 0.8;

/// The indices of the tools that match the query, the best first. Tools with equal scores keep the
/// order of the list.
pub fn rank(query: &str, tools: &[ToolText<'_>]) -> Vec<usize> {
    let index = Index::of(tools);
    let wanted = index.wanted(query);
    let asked = query.trim().to_lowercase();
    let mut scored: Vec<(f64, usize)> = (0..tools.len())
        .map(|tool| (if is_name(&asked, tools[tool].name) { f64::MAX } else { index.score(&wanted, tool) }, tool))
        .filter(|(score, _)| *score > 0.0)
        .collect();
    scored.sort_by(|(a, _), (b, _)| b.partial_cmp(a).unwrap_or(Ordering::Equal));
    scored.into_iter().map(|(_, tool)| tool).collect()
}

/// Whether the query is the name of the tool, with dots or with underscores in their place.
fn is_name(asked: &str, name: &str) -> bool {
    asked == name || asked == name.replace('.', "_")
}

/// The words of one meaning. A tool that contains all of them fits the meaning best.
type Meaning = Vec<Term>;

/// A part of the query: its possible meanings, each with a factor.
type Wanted = Vec<(Meaning, f64)>;

struct Index {
    /// For each term, the tools that contain it, with the weight of the best field.
    weights: HashMap<Term, BTreeMap<usize, f64>>,
    tools: usize,
}

impl Index {
    fn of(tools: &[ToolText<'_>]) -> Self {
        let mut index = Self { weights: HashMap::new(), tools: tools.len() };
        for (number, tool) in tools.iter().enumerate() {
            let (first, rest) = tool.description.split_once(". ").unwrap_or((tool.description, ""));
            index.add(number, tool.name, IN_NAME);
            index.add(number, tool.title, IN_TITLE);
            index.add(number, first, IN_FIRST_SENTENCE);
            index.add(number, rest, IN_DESCRIPTION);
            index.add(number, tool.toolset, IN_TOOLSET);
            tool.arguments.iter().for_each(|it| index.add(number, it, IN_ARGUMENTS));
        }
        index
    }

    fn add(&mut self, tool: usize, text: &str, weight: f64) {
        for term in terms(text) {
            let best = self.weights.entry(term).or_default().entry(tool).or_insert(0.0);
            *best = best.max(weight);
        }
    }

    /// The parts of the query: each of its words, and each phrase of the table whose words are in
    /// the query.
    fn wanted(&self, query: &str) -> Vec<Wanted> {
        let table = synonyms();
        let words = terms(query);
        let mut known = Vec::with_capacity(words.len());
        let mut wanted: Vec<Wanted> = Vec::new();
        for (at, word) in words.iter().enumerate() {
            if words[..at].contains(word) {
                continue;
            }
            let is_known = self.weights.contains_key(word) || table.words.contains_key(word);
            let (word, factor) = match is_known {
                true => (word.clone(), 1.0),
                false => match self.correct(word) {
                    Some(near) => (near, CORRECTED),
                    None => continue,
                },
            };
            let meanings = table.words.get(&word).into_iter().flatten().map(|it| (it.clone(), factor * SYNONYM));
            wanted.push(std::iter::once((vec![word.clone()], factor)).chain(meanings).collect());
            known.push(word);
        }
        // Several phrases with the same meaning count only once.
        let mut meant: BTreeMap<&Meaning, f64> = BTreeMap::new();
        for (phrase, meanings) in table.phrases.iter().filter(|(phrase, _)| phrase.iter().all(|it| known.contains(it)))
        {
            let in_order = known.windows(phrase.len()).any(|run| run == phrase.as_slice());
            let factor = SYNONYM * if in_order { 1.0 } else { SCATTERED };
            for meaning in meanings {
                let best = meant.entry(meaning).or_insert(0.0);
                *best = best.max(factor);
            }
        }
        wanted.extend(meant.into_iter().map(|(meaning, factor)| vec![(meaning.clone(), factor)]));
        wanted
    }

    /// The known word that is nearest to an unknown word. Short words are not corrected, because
    /// too many words are near to them.
    fn correct(&self, word: &str) -> Option<Term> {
        let most = match word.chars().count() {
            0..=3 => return None,
            4..=6 => 1,
            _ => 2,
        };
        let known = self.weights.keys().chain(synonyms().words.keys());
        let near = known.map(|it| (strsim::osa_distance(word, it), it)).filter(|(far, _)| *far <= most);
        near.min().map(|(_, it)| it.clone())
    }

    fn score(&self, wanted: &[Wanted], tool: usize) -> f64 {
        let best =
            |part: &Wanted| part.iter().map(|(meaning, factor)| self.fit(meaning, tool) * factor).fold(0.0, f64::max);
        wanted.iter().map(best).sum()
    }

    /// How well a tool fits a meaning. A tool that contains only some of its words scores much
    /// lower.
    fn fit(&self, meaning: &Meaning, tool: usize) -> f64 {
        let found = meaning.iter().filter_map(|term| {
            let holders = self.weights.get(term)?;
            Some(holders.get(&tool)? * self.rarity(holders.len()))
        });
        let (count, sum) = found.fold((0, 0.0), |(count, sum), it| (count + 1, sum + it));
        let share = f64::from(count) / meaning.len().max(1) as f64;
        sum / meaning.len().max(1) as f64 * share
    }

    /// The weight of a word: greater if fewer tools contain the word.
    fn rarity(&self, holders: usize) -> f64 {
        (1.0 + self.tools as f64 / holders.max(1) as f64).ln()
    }
}

/// The table of synonyms, as stems.
#[derive(Default)]
struct Synonyms {
    words: BTreeMap<Term, Vec<Meaning>>,
    /// Phrases of several words.
    phrases: BTreeMap<Vec<Term>, Vec<Meaning>>,
}

fn synonyms() -> &'static Synonyms {
    static TABLE: OnceLock<Synonyms> = OnceLock::new();
    TABLE.get_or_init(|| {
        let rows: BTreeMap<String, Vec<String>> =
            toml::from_str(include_str!("tool_search/synonyms.toml")).unwrap_or_default();
        let mut table = Synonyms::default();
        for (tools, musicians) in rows {
            for phrase in musicians {
                let mut phrase = terms(&phrase);
                let meanings = match phrase.len() {
                    0 => continue,
                    1 => table.words.entry(phrase.remove(0)).or_default(),
                    _ => table.phrases.entry(phrase).or_default(),
                };
                meanings.push(terms(&tools));
            }
        }
        table
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: [ToolText<'static>; 4] = [
        ToolText {
            name: "live_set_tempo",
            title: "Set tempo",
            description: "Sets the tempo in beats per minute. One undo step.",
            arguments: &["bpm"],
            toolset: "live",
        },
        ToolText {
            name: "conductor_panic",
            title: "Panic",
            description: "Stops everything that sounds or is held.",
            arguments: &[],
            toolset: "daemon",
        },
        ToolText {
            name: "web.fetch",
            title: "Fetch from the web",
            description: "Sends one request to an https URL.",
            arguments: &["url"],
            toolset: "web",
        },
        ToolText {
            name: "render_patch",
            title: "Picture of a patch",
            description: "Draws a patch: objects, text, cords.",
            arguments: &["patch_id"],
            toolset: "patch",
        },
    ];

    fn first(query: &str) -> Option<&'static str> {
        rank(query, &TOOLS).first().map(|it| TOOLS[*it].name)
    }

    #[test]
    fn the_table_of_synonyms_is_sound() {
        assert!(synonyms().words.len() > 100 && synonyms().phrases.len() > 100, "the table of synonyms was not read");
    }

    #[test]
    fn order_typos_and_forms_of_words_do_not_matter() {
        for query in ["set the tempo", "tempo set", "seting tempos", "set tenpo", "SET TEMPO!"] {
            assert_eq!(first(query), Some("live_set_tempo"), "{query}");
        }
    }

    #[test]
    fn words_of_musicians_find_the_words_of_tools() {
        assert_eq!(first("make it 140 BPM"), Some("live_set_tempo"));
        assert_eq!(first("a note hangs"), Some("conductor_panic"));
        assert_eq!(first("screenshot of my patcher"), Some("render_patch"));
    }

    #[test]
    fn a_name_is_found_in_both_forms_and_nonsense_finds_nothing() {
        assert_eq!(first("web_fetch"), Some("web.fetch"));
        assert_eq!(first(" Web.Fetch "), Some("web.fetch"));
        assert_eq!(rank("qqqq zzzzz", &TOOLS), Vec::<usize>::new());
        assert_eq!(rank("", &TOOLS), Vec::<usize>::new());
    }
}
