//! Facts about object classes that do not require a running Max or Pd: port counts, types, sizes,
//! arguments, attributes.
//!
//! The tables are generated (`tools/max_table.py`, `tools/pd_table.py`) and embedded. Not here:
//! counts from a file or an embedded patcher, which take precedence (`ports`).

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::Format;
use crate::atoms::{self, Atom};
use crate::font;

/// Facts about one class.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// Canonical name.
    pub name: &'static str,
    /// `max`, `msp`, `jit`, `live` for Max; `control`, `signal`, `gui` for Pd.
    pub family: &'static str,
    /// Number of inlets of an object without arguments, when known.
    pub inlets: Option<u32>,
    /// Number of outlets of an object without arguments, when known.
    pub outlets: Option<u32>,
    /// Outlet types of an object without arguments, when known.
    pub outlet_types: Option<Vec<&'static str>>,
    /// Default width and height; `None` for Pd, where the size follows from the text.
    pub size: Option<(f64, f64)>,
    /// The `maxclass` of a user interface object.
    pub ui: Option<&'static str>,
    /// Argument names with types; `?` marks an optional argument.
    pub arguments: Vec<&'static str>,
    /// Attribute names with types.
    pub attributes: Vec<(&'static str, &'static str)>,
    /// Other valid port counts, from other versions of the program.
    pub also: Vec<(u32, u32)>,
    /// Whether the counts are a guess, because a file, a script or unusual arguments determine the
    /// real counts.
    pub guess: bool,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, Default)]
struct Rule {
    inlets: bool,
    from: &'static str,
    fields: Vec<(&'static str, &'static str)>,
}

/// Port counts that a rule returned.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) inlets: Option<u32>,
    pub(crate) outlets: Option<u32>,
    pub(crate) outlet_types: Option<Vec<String>>,
    /// False when the counts are a guess.
    pub(crate) exact: bool,
}

/// The classes of one program.
pub struct Table {
    classes: HashMap<&'static str, Class>,
    aliases: HashMap<&'static str, &'static str>,
    tokens: HashMap<&'static str, Vec<(&'static str, &'static str)>>,
    gen_classes: HashMap<&'static str, (u32, u32)>,
    /// Version of Pd in which the ports were counted; empty for Max.
    pub version: &'static str,
}

/// The table of the program that a format belongs to.
pub fn table(format: Format) -> &'static Table {
    static MAX: OnceLock<Table> = OnceLock::new();
    static PD: OnceLock<Table> = OnceLock::new();
    if format.is_pd() {
        PD.get_or_init(|| Table::read(include_str!("objects/pd.tsv")))
    } else {
        MAX.get_or_init(|| Table::read(include_str!("objects/max.tsv")))
    }
}

/// Attributes that every Max box has; they are stored as keys of the box.
pub(crate) const BOX_ATTRIBUTES: &[&str] = &[
    "annotation",
    "annotation_name",
    "background",
    "bgcolor",
    "bgfillcolor",
    "border",
    "bordercolor",
    "bubble",
    "color",
    "comment",
    "fontface",
    "fontlink",
    "fontname",
    "fontsize",
    "hidden",
    "hint",
    "ignoreclick",
    "jspainterfile",
    "legacytextcolor",
    "linecount",
    "parameter_enable",
    "parameter_mappable",
    "patching_rect",
    "presentation",
    "presentation_linecount",
    "presentation_rect",
    "prototypename",
    "rounded",
    "style",
    "textcolor",
    "textjustification",
    "varname",
];

/// Binary operators of gen.
const GEN_BINARY: &[&str] = &[
    "+", "-", "*", "/", "%", "pow", "min", "max", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "!-", "!/", "!%",
    "absdiff", "atan2", "hypot",
];

/// Other operators of gen, whose counts are not in the table.
const GEN_OPERATORS: &str = "abs acos acosh and asin asinh atan atanh bool buffer cartopol ceil change clamp clip codebox constant cos cosh counter cycle \
    dcblock degrees delay delta dim e elapsed eq exp exp2 expr fastcos fastexp fastpow fastsin fasttan fixdenorm fixnan floor fold fract ftom gate gen gt \
    gte gtp history in int interp isdenorm isnan latch ln log log10 log2 lookup lt lte ltp mix mod mse mtof nearest neg neq noise norm not or out param \
    pass peek phasor phasewrap pi plusequals poke poltocar radians rate r receive reverse rsub rdiv round s sah sample samplerate scale selector send \
    sign sin sinh slide smoothstep split splat sqrt step subpatcher swiz switch t60 t60time tan tanh trapezoid triangle train trunc twopi vec vectorsize \
    voice wave wrap xor voices gradient snoise cell surface poltocar setparam mstosamps sampstoms pow max min";

/// Whether gen has an operator of this name.
pub(crate) fn is_gen_operator(name: &str) -> bool {
    GEN_BINARY.contains(&name) || GEN_OPERATORS.split_whitespace().any(|found| found == name)
}

/// The operators of gen that are most similar to a misspelled name.
pub(crate) fn nearest_gen(name: &str) -> Vec<String> {
    nearest(name, GEN_BINARY.iter().copied().chain(GEN_OPERATORS.split_whitespace()))
}

impl Table {
    fn read(text: &'static str) -> Table {
        let mut table = Table {
            classes: HashMap::new(),
            aliases: HashMap::new(),
            tokens: HashMap::new(),
            gen_classes: HashMap::new(),
            version: "",
        };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&'static str> = line.split('\t').collect();
            match columns.as_slice() {
                ["!alias", short, class] => {
                    table.aliases.insert(short, class);
                }
                ["!version", version] => table.version = version,
                ["!types", name, tokens @ ..] => {
                    table.tokens.insert(name, tokens.iter().filter_map(|token| token.split_once('=')).collect());
                }
                ["!namespace", _, name, inlets, outlets] => {
                    table.gen_classes.insert(name, (inlets.parse().unwrap_or(0), outlets.parse().unwrap_or(0)));
                }
                [name, family, inlets, outlets, types, size, ui, flags, rules, attributes, arguments @ ..] => {
                    let outlets = outlets.parse().ok();
                    let class = Class {
                        name,
                        family,
                        inlets: inlets.parse().ok(),
                        outlets,
                        outlet_types: (*types != "-")
                            .then(|| if outlets == Some(0) { Vec::new() } else { types.split(',').collect() }),
                        size: size.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?))),
                        ui: Some(*ui).filter(|ui| *ui != "-"),
                        arguments: arguments.to_vec(),
                        attributes: attributes.split(' ').filter_map(|pair| pair.split_once(':')).collect(),
                        also: flags
                            .split(' ')
                            .filter_map(|f| f.strip_prefix("also=")?.split_once(','))
                            .filter_map(|(i, o)| Some((i.parse().ok()?, o.parse().ok()?)))
                            .collect(),
                        guess: flags.contains("approximate") || flags.contains("decided_by"),
                        rules: rules.split("; ").filter(|rule| !rule.is_empty()).map(Rule::read).collect(),
                    };
                    table.classes.insert(name, class);
                }
                _ => {}
            }
        }
        table
    }

    /// A class by its name or alias.
    pub fn class(&self, name: &str) -> Option<&Class> {
        let name = self.aliases.get(name).copied().unwrap_or(name);
        self.classes.get(name)
    }

    /// The class that a box text names, and the number of words in its name. Pd's `list append` is
    /// one class with two words.
    pub fn class_of(&self, text: &str) -> Option<(&Class, usize)> {
        let words = atoms::tokens(text);
        if let [first, second, ..] = words.as_slice()
            && let Some(class) = self.class(&format!("{first} {second}"))
        {
            return Some((class, 2));
        }
        self.class(words.first()?).map(|class| (class, 1))
    }

    /// All classes, sorted by name.
    pub fn classes(&self) -> Vec<&Class> {
        let mut all: Vec<&Class> = self.classes.values().collect();
        all.sort_by_key(|class| class.name);
        all
    }

    /// Classes whose name or alias contains `query` (case is ignored), sorted by name. If `family`
    /// is given, only classes of that family.
    pub fn search(&self, query: &str, family: Option<&str>) -> Vec<&Class> {
        let query = query.to_lowercase();
        let aliased: Vec<&str> = self
            .aliases
            .iter()
            .filter(|(short, _)| short.to_lowercase().contains(&query))
            .map(|(_, class)| *class)
            .collect();
        let mut found = self.classes();
        found.retain(|class| {
            family.is_none_or(|family| class.family == family)
                && (class.name.to_lowercase().contains(&query) || aliased.contains(&class.name))
        });
        found
    }

    /// The class names that are most similar to a misspelled name.
    pub fn nearest(&self, name: &str) -> Vec<String> {
        nearest(name, self.classes.keys().chain(self.aliases.keys()).copied())
    }

    /// Port counts of an operator inside gen. There, `*` with an argument has one inlet less than
    /// `*` without an argument.
    pub(crate) fn gen_count(&self, text: &str) -> Option<Counted> {
        let (class, arguments, _) = atoms::split(text);
        let (inlets, outlets) = match self.gen_classes.get(class) {
            Some(counts) => *counts,
            // The right operand of a binary operator is an argument or a second inlet.
            None if GEN_BINARY.contains(&class) => (if arguments.is_empty() { 2 } else { 1 }, 1),
            None => return None,
        };
        Some(Counted { inlets: Some(inlets), outlets: Some(outlets), outlet_types: None, exact: true })
    }

    /// Port counts of a text according to the rules. A rule about an embedded patcher calls
    /// `embedded`.
    pub(crate) fn count(&self, text: &str, embedded: &dyn Fn(&str, &str) -> Option<u32>) -> Option<Counted> {
        let (class, words) = self.class_of(text)?;
        let (_, arguments, attributes) = atoms::split(text);
        let arguments = arguments.get(words - 1..).unwrap_or_default();
        let mut exact = !class.guess;
        let mut totals = [None, None];
        let mut types: Option<Vec<String>> =
            class.outlet_types.as_ref().map(|types| types.iter().map(|t| (*t).to_owned()).collect());
        for rule in &class.rules {
            let looks_inside = rule.from.starts_with("embedded");
            match rule.value(text, arguments, &attributes, embedded) {
                Some(value) => {
                    let total = if rule.inlets { &mut totals[0] } else { &mut totals[1] };
                    *total = Some(total.unwrap_or(0i64).saturating_add(value));
                    if !rule.inlets
                        && let Some(total) = *total
                    {
                        types = rule.types(total.clamp(0, 4096) as usize, arguments, &self.tokens).or(types);
                    }
                }
                None if looks_inside => exact = false,
                None => {}
            }
        }
        let settle = |total: Option<i64>, default: Option<u32>| total.map(|n| n.clamp(0, 4096) as u32).or(default);
        let (inlets, outlets) = (settle(totals[0], class.inlets), settle(totals[1], class.outlets));
        if inlets.is_none() || outlets.is_none() {
            exact = false;
        }
        let outlet_types = types.filter(|types| Some(types.len() as u32) == outlets);
        Some(Counted { inlets, outlets, outlet_types, exact })
    }
}

impl Rule {
    fn read(text: &'static str) -> Rule {
        let mut parts = text.split(' ');
        let inlets = parts.next() == Some("inlets");
        let from = parts.next().unwrap_or_default();
        Rule { inlets, from, fields: parts.map(|part| part.split_once('=').unwrap_or((part, ""))).collect() }
    }

    fn field(&self, name: &str) -> Option<&'static str> {
        self.fields.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.field(name)?.parse().ok()
    }

    fn value(
        &self,
        text: &str,
        arguments: &[&str],
        attributes: &[(&str, Vec<&str>)],
        embedded: &dyn Fn(&str, &str) -> Option<u32>,
    ) -> Option<i64> {
        let numeric_only = self.field("numeric_only").is_some();
        let arguments: Vec<&str> =
            arguments.iter().copied().filter(|a| !numeric_only || Atom::read(a).number().is_some()).collect();
        let at_least = self.number("at_least");
        let mut strict = false;
        let mut value = match self.from {
            "arg_count" => {
                strict = true;
                if arguments.is_empty() {
                    return None;
                }
                arguments.len() as i64
            }
            "arg_value" => {
                strict = true;
                let at = usize::try_from(self.number("arg")?).ok()?;
                Atom::read(arguments.get(at)?).number()? as i64
            }
            "args_at_least" => {
                if (arguments.len() as i64) < self.number("arg")? {
                    return None;
                }
                self.number("then")?
            }
            "has_args" => self.number(if arguments.is_empty() { "without" } else { "with" })?,
            "dollar_max" => dollar_max(text),
            "semicolon_count" => text.matches(';').count() as i64 + 1,
            "out_max" => arguments.iter().filter_map(|a| a.strip_prefix("out")?.parse::<i64>().ok()).max().unwrap_or(0),
            "format_count" => arguments.iter().map(|a| conversions(a)).sum(),
            "key_count" => arguments.iter().filter(|a| a.len() > 1 && a.ends_with(':')).count() as i64,
            "attr_product" => self
                .field("attrs")?
                .split(',')
                .map(|name| attribute_number(attributes, name))
                .fold(1, i64::saturating_mul),
            "embedded_boxes" | "embedded_numbers" => i64::from(embedded(self.from, self.field("class")?)?),
            _ => return None,
        };
        if let Some(list) = self.field("nearest") {
            let choices = list.split(',').filter_map(|n| n.parse::<i64>().ok());
            value = choices.min_by_key(|choice| (choice - value).abs()).unwrap_or(value);
        }
        if let Some(least) = at_least {
            if strict && value < least {
                return None;
            }
            value = value.max(least);
        }
        value = value.saturating_mul(self.number("times").unwrap_or(1)).saturating_add(self.number("add").unwrap_or(0));
        Some(self.number("floor").map_or(value, |floor| value.max(floor)))
    }

    fn types(
        &self,
        count: usize,
        arguments: &[&str],
        tokens: &HashMap<&str, Vec<(&'static str, &'static str)>>,
    ) -> Option<Vec<String>> {
        if let Some(name) = self.field("per_arg") {
            let list = tokens.get(name)?;
            let of = |key: &str| list.iter().find(|(token, _)| *token == key).map(|(_, kind)| *kind);
            return Some(
                arguments
                    .iter()
                    .map(|argument| {
                        let general = match Atom::read(argument) {
                            Atom::Int(_) => "<integer>",
                            Atom::Float(_) => "<float>",
                            Atom::Word(_) => "<other>",
                        };
                        match of(argument).or_else(|| of(general)).unwrap_or_default() {
                            "<itself>" => (*argument).to_owned(),
                            kind => kind.to_owned(),
                        }
                    })
                    .collect(),
            );
        }
        let mut types = vec![self.field("fill")?.to_owned(); count];
        if let Some(first) = self.field("first") {
            types.iter_mut().zip(first.split(',')).for_each(|(place, kind)| *place = kind.to_owned());
        }
        if let Some(last) = self.field("last") {
            types.iter_mut().rev().zip(last.rsplit(',')).for_each(|(place, kind)| *place = kind.to_owned());
        }
        Some(types)
    }
}

fn attribute_number(attributes: &[(&str, Vec<&str>)], name: &str) -> i64 {
    let found =
        attributes.iter().find(|(key, _)| *key == name).and_then(|(_, values)| Atom::read(values.first()?).number());
    found.map_or(1, |n| n as i64)
}

/// The largest N in `$i3`, `$f2`, `$s1` and similar, including Pd's `$v`, `$x` and `$y`.
fn dollar_max(text: &str) -> i64 {
    let mut greatest = 0;
    for part in text.split('$').skip(1) {
        let rest = part.strip_prefix(['i', 'f', 's', 'v', 'x', 'y']).unwrap_or_default();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).take(4).collect();
        greatest = greatest.max(digits.parse().unwrap_or(0));
    }
    greatest
}

/// Number of printf conversions in a word; `%%` is not a conversion.
fn conversions(word: &str) -> i64 {
    let mut count = 0;
    let mut rest = word.chars().peekable();
    while let Some(character) = rest.next() {
        if character != '%' {
            continue;
        }
        if rest.peek() == Some(&'%') {
            rest.next();
            continue;
        }
        let conversion = rest.by_ref().find(|c| c.is_ascii_alphabetic() && *c != 'l' && *c != 'h');
        count += i64::from(conversion.is_some());
    }
    count
}

/// Reliability of the facts about a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// The counts are correct.
    Exact,
    /// The counts are typical; a file, a script or the arguments may change them.
    Guess,
    /// The class is unknown.
    Unknown,
}

/// The facts about a box text, before a box is added.
#[derive(Clone, Debug)]
pub struct Description {
    /// The class as written in the text.
    pub class: String,
    /// The table entry of the class; `None` if the class is unknown.
    pub known: Option<&'static Class>,
    /// Number of inlets with the arguments in the text.
    pub inlets: Option<u32>,
    /// Number of outlets with the arguments in the text.
    pub outlets: Option<u32>,
    /// A type per outlet.
    pub outlet_types: Option<Vec<String>>,
    /// Width and height of the box.
    pub size: (f64, f64),
    /// Reliability of these facts.
    pub confidence: Confidence,
}

/// Describes a box text. If `in_gen` is true, the text is an operator inside a gen patcher.
pub fn describe(format: Format, text: &str, in_gen: bool) -> Description {
    let table = table(format);
    let class = atoms::tokens(text).first().copied().unwrap_or_default().to_owned();
    let known = if in_gen { None } else { table.class_of(text).map(|(class, _)| class) };
    let counted = if in_gen { table.gen_count(text) } else { table.count(text, &|_, _| None) };
    let size = if format.is_pd() {
        let facts = crate::canvas::Facts { native: Some("obj"), text: text.into(), ..Default::default() };
        let rect = crate::pd::measure(&facts, None);
        (rect.w, rect.h)
    } else {
        default_size(format, known.and_then(|class| class.ui).unwrap_or("newobj"), text)
    };
    let confidence = match &counted {
        Some(counted) if counted.exact => Confidence::Exact,
        Some(_) => Confidence::Guess,
        None if in_gen && is_gen_operator(&class) => Confidence::Guess,
        None => Confidence::Unknown,
    };
    let (inlets, outlets, outlet_types) =
        counted.map_or((None, None, None), |counted| (counted.inlets, counted.outlets, counted.outlet_types));
    Description { class, known, inlets, outlets, outlet_types, size, confidence }
}

/// Number of inlets and outlets of a box text; `None` if the counts in the table are a guess.
pub fn exact_counts(format: Format, text: &str) -> Option<(u32, u32)> {
    let counted = table(format).count(text, &|_, _| None).filter(|counted| counted.exact)?;
    Some((counted.inlets?, counted.outlets?))
}

/// Default size of a box: from the table for user interface objects, else from the text.
pub(crate) fn default_size(format: Format, maxclass: &str, text: &str) -> (f64, f64) {
    let class = table(format).class(maxclass);
    match class.and_then(|class| class.ui.and(class.size)) {
        Some(size) => size,
        None => (font::object_width(text, 12.0), 22.0),
    }
}

/// At most three names, those most similar to `name` by edit distance, most similar first. Names
/// without similarity are left out.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let folded = |text: &str| text.chars().take(64).map(|it| it.to_ascii_lowercase()).collect::<Vec<char>>();
    let wanted = folded(name);
    let mut found: Vec<(usize, &str)> = names
        .map(|candidate| (strsim::generic_levenshtein(&wanted, &folded(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= wanted.len().max(candidate.len()) / 2 + 1)
        .collect();
    found.sort();
    found.dedup();
    found.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(format: Format, text: &str) -> (Option<u32>, Option<u32>) {
        let counted = table(format).count(text, &|_, _| None).unwrap();
        (counted.inlets, counted.outlets)
    }

    #[test]
    fn rules_follow_the_arguments() {
        let max = Format::Maxpat;
        for (text, inlets, outlets) in [
            ("cycle~ 440", 2, 1),
            ("t b i f", 1, 3),
            ("trigger", 1, 2),
            ("pack 0 0 0", 3, 1),
            ("route a b c", 4, 4),
            ("route", 2, 2),
            ("expr $i1 + $f3", 3, 1),
            ("sprintf %s-%d", 2, 1),
            ("selector~ 3", 4, 1),
            ("receive foo", 0, 1),
            ("receive", 1, 1),
            ("gate 5", 2, 5),
            ("unpack 0 0", 1, 2),
        ] {
            assert_eq!(counts(max, text), (Some(inlets), Some(outlets)), "{text}");
        }
        let types = table(max).count("t b i foo", &|_, _| None).unwrap().outlet_types.unwrap();
        assert_eq!(types, ["bang", "int", "foo"]);
        for (text, inlets, outlets) in [
            ("osc~ 440", 2, 1),
            ("t b f", 1, 2),
            ("list append 1", 2, 1),
            ("dac~ 1 2 3", 3, 0),
            ("route 1 2", 1, 3),
            ("expr $f1; $f2", 2, 2),
        ] {
            assert_eq!(counts(Format::Pd, text), (Some(inlets), Some(outlets)), "{text}");
        }
    }

    #[test]
    fn texts_are_described() {
        let pack = describe(Format::Maxpat, "pack 0 0 0", false);
        assert_eq!((pack.inlets, pack.outlets, pack.confidence), (Some(3), Some(1), Confidence::Exact));
        assert_eq!(describe(Format::Maxpat, "t b", false).known.map(|class| class.name), Some("trigger"));
        assert_eq!(describe(Format::Maxpat, "toggle", false).size, (24.0, 24.0));
        assert_eq!(describe(Format::Maxpat, "poly~ voice 4", false).confidence, Confidence::Guess);
        assert_eq!(describe(Format::Maxpat, "no.such.thing", false).confidence, Confidence::Unknown);
        let (two, one) = (describe(Format::Maxpat, "*", true), describe(Format::Maxpat, "* 2", true));
        assert_eq!((two.inlets, one.inlets), (Some(2), Some(1)), "inside gen, an argument did not replace an inlet");
        assert_eq!(describe(Format::Pd, "osc~ 440", false).size, (60.0, 21.0));
    }

    #[test]
    fn default_widths_are_those_of_max() {
        let table = table(Format::Maxpat);
        let objects: Vec<&Class> = table.classes().into_iter().filter(|class| class.ui.is_none()).collect();
        // The table contains the width of the short alias, if a class has one.
        let spelled = |class: &Class| {
            table.aliases.iter().find(|(_, name)| **name == class.name).map_or(class.name, |(short, _)| *short)
        };
        let right = objects
            .iter()
            .filter(|class| class.size.is_some_and(|(w, _)| w == font::object_width(spelled(class), 12.0)))
            .count();
        assert!(right * 100 >= objects.len() * 95, "{right} of {}", objects.len());
    }

    #[test]
    fn misspelled_classes_get_neighbours() {
        assert!(table(Format::Maxpat).nearest("cycl~").contains(&"cycle~".to_owned()));
        assert!(table(Format::Maxpat).class("nosuchthing").is_none());
    }
}
