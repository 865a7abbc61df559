//! An outline of the elements in a text, and replacements of parts of the text.
//!
//! An [`Outline`] stores the positions of the tags of each element: 20 bytes per element and no
//! copy of the text. Not here: the meaning of elements.

use quick_xml::Reader;
use quick_xml::events::Event;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

/// Byte offsets of one element. Elements are stored in document order; the subtree of element `i`
/// is `i..next`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node {
    start: u32,
    name_end: u32,
    open_end: u32,
    end: u32,
    next: u32,
}

/// The elements of one piece of text. The piece may start inside elements that an earlier piece
/// opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outline {
    nodes: Vec<Node>,
}

/// Why an outline could not be built; `at` is a byte offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct XmlError {
    pub at: usize,
    pub reason: String,
}

impl XmlError {
    fn new(at: usize, reason: impl Into<String>) -> Self {
        XmlError { at, reason: reason.into() }
    }
}

impl std::fmt::Display for XmlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {}", self.reason, self.at)
    }
}

// In real Sets the nesting is below 60 (racks in racks). For a hostile file, the limit bounds the
// stack of open tags.
const MAX_DEPTH: usize = 1_000;

fn offset(at: u64) -> Result<u32, XmlError> {
    u32::try_from(at).map_err(|_| XmlError::new(0, "the text has 4 GiB or more"))
}

impl Outline {
    /// Parses `text`. `opened` lists the tags that are open at its start, outermost first; the text
    /// may close some of them. Returns the tags that are open at the end of the text.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum of quick-xml is non-exhaustive")]
    pub fn read(text: &str, opened: &[String]) -> Result<(Outline, Vec<String>), XmlError> {
        let mut reader = Reader::from_str(text);
        let config = reader.config_mut();
        // Tag names are compared below, because a chunk may close a tag of an earlier chunk.
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        let mut nodes: Vec<Node> = Vec::with_capacity(text.len() / 40);
        let mut open: Vec<u32> = Vec::new();
        let mut outer: Vec<String> = opened.to_vec();
        loop {
            let start = reader.buffer_position();
            let event = reader.read_event().map_err(|e| {
                XmlError::new(usize::try_from(reader.error_position()).unwrap_or(0), format!("invalid XML: {e}"))
            })?;
            let end = reader.buffer_position();
            let at = usize::try_from(start).unwrap_or(usize::MAX);
            match event {
                Event::Start(ref tag) | Event::Empty(ref tag) => {
                    if open.len() + outer.len() > MAX_DEPTH {
                        return Err(XmlError::new(at, "elements are nested too deep"));
                    }
                    if text.as_bytes().get(at) != Some(&b'<') {
                        return Err(XmlError::new(at, "the tag is not expected here"));
                    }
                    if open.is_empty() && outer.is_empty() && !nodes.is_empty() {
                        return Err(XmlError::new(at, "there is more than one root element"));
                    }
                    let name_end = start + 1 + tag.name().as_ref().len() as u64;
                    let index = u32::try_from(nodes.len()).map_err(|_| XmlError::new(at, "too many elements"))?;
                    nodes.push(Node {
                        start: offset(start)?,
                        name_end: offset(name_end)?,
                        open_end: offset(end)?,
                        end: offset(end)?,
                        next: index + 1,
                    });
                    if matches!(event, Event::Start(_)) {
                        open.push(index);
                    }
                }
                Event::End(tag) => {
                    let closing = tag.name();
                    let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
                    if let Some(index) = open.pop() {
                        let node = &mut nodes[index as usize];
                        if text.as_bytes().get(node.start as usize + 1..node.name_end as usize)
                            != Some(closing.as_ref())
                        {
                            return Err(XmlError::new(at, "the end tag belongs to another element"));
                        }
                        node.end = offset(end)?;
                        node.next = count;
                    } else if outer.pop().is_none_or(|name| name.as_bytes() != closing.as_ref()) {
                        return Err(XmlError::new(at, "the end tag has no start tag"));
                    }
                }
                Event::DocType(_) => {
                    return Err(XmlError::new(at, "document type and entity declarations are refused"));
                }
                Event::Eof => break,
                Event::Text(ref inside)
                    if open.is_empty() && outer.is_empty() && !inside.iter().all(u8::is_ascii_whitespace) =>
                {
                    return Err(XmlError::new(at, "there is text outside the root element"));
                }
                _ => {}
            }
        }
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let length = offset(text.len() as u64)?;
        for index in open {
            let node = &mut nodes[index as usize];
            node.end = length;
            node.next = count;
            outer.push(text.get(node.start as usize + 1..node.name_end as usize).unwrap_or_default().to_owned());
        }
        nodes.shrink_to_fit();
        Ok((Outline { nodes }, outer))
    }

    /// The outline of `text[bytes]`. The range must not split a tag. Elements that extend beyond
    /// the range are shortened to it.
    pub fn cut(&self, bytes: Range<usize>) -> Outline {
        let from = self.nodes.partition_point(|n| (n.start as usize) < bytes.start);
        let to = self.nodes.partition_point(|n| (n.start as usize) < bytes.end);
        let (base, length) = (bytes.start as u32, (bytes.end - bytes.start) as u32);
        let nodes = self.nodes[from..to]
            .iter()
            .map(|n| Node {
                start: n.start - base,
                name_end: n.name_end - base,
                open_end: n.open_end - base,
                end: (n.end - base).min(length),
                next: (n.next - from as u32).min((to - from) as u32),
            })
            .collect();
        Outline { nodes }
    }

    pub fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }

    /// The outermost elements.
    pub fn roots<'a>(&'a self, text: &'a str) -> Children<'a> {
        Children { text, nodes: &self.nodes, at: 0, until: self.nodes.len() }
    }

    /// Every element in document order.
    pub fn all<'a>(&'a self, text: &'a str) -> impl Iterator<Item = El<'a>> {
        (0..self.nodes.len()).map(move |at| El { text, nodes: &self.nodes, at })
    }
}

/// One element: a cursor into an outline and its text.
#[derive(Clone, Copy)]
pub(crate) struct El<'a> {
    text: &'a str,
    nodes: &'a [Node],
    at: usize,
}

impl std::fmt::Debug for El<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{}> at {}", self.name(), self.span().start)
    }
}

/// An iterator over sibling elements.
#[derive(Clone)]
pub(crate) struct Children<'a> {
    text: &'a str,
    nodes: &'a [Node],
    at: usize,
    until: usize,
}

impl<'a> Iterator for Children<'a> {
    type Item = El<'a>;

    fn next(&mut self) -> Option<El<'a>> {
        if self.at >= self.until {
            return None;
        }
        let found = El { text: self.text, nodes: self.nodes, at: self.at };
        self.at = found.node().next as usize;
        Some(found)
    }
}

impl<'a> El<'a> {
    fn node(&self) -> &'a Node {
        &self.nodes[self.at]
    }

    pub fn name(&self) -> &'a str {
        let n = self.node();
        &self.text[n.start as usize + 1..n.name_end as usize]
    }

    /// The range of the whole element, including both tags.
    pub fn span(&self) -> Range<usize> {
        let n = self.node();
        n.start as usize..n.end as usize
    }

    /// The text of the element.
    pub fn raw(&self) -> &'a str {
        &self.text[self.span()]
    }

    fn is_empty_tag(&self) -> bool {
        let n = self.node();
        n.open_end == n.end
    }

    pub fn children(&self) -> Children<'a> {
        Children { text: self.text, nodes: self.nodes, at: self.at + 1, until: self.node().next as usize }
    }

    pub fn child(&self, name: &str) -> Option<El<'a>> {
        self.children().find(|c| c.name() == name)
    }

    /// Follows a path of child names separated by `/`.
    pub fn at(&self, path: &str) -> Option<El<'a>> {
        path.split('/').try_fold(*self, |el, name| el.child(name))
    }

    /// Every element below this one, in document order.
    pub fn descendants(&self) -> impl Iterator<Item = El<'a>> + use<'a> {
        let (text, nodes) = (self.text, self.nodes);
        (self.at + 1..self.node().next as usize).map(move |at| El { text, nodes, at })
    }

    /// Identifies the element within its outline. All `El` values of the same element have the same
    /// key.
    pub fn key(&self) -> usize {
        self.at
    }

    /// The attributes in order: name, and the span of the value without its quotes.
    pub fn attributes(&self) -> Attributes<'a> {
        let n = self.node();
        Attributes { text: self.text, at: n.name_end as usize, end: n.open_end as usize }
    }

    pub fn attr_span(&self, name: &str) -> Option<Range<usize>> {
        self.attributes().find(|(key, _)| *key == name).map(|(_, span)| span)
    }

    /// The raw text of an attribute, with its escapes.
    pub fn attr_raw(&self, name: &str) -> Option<&'a str> {
        self.attr_span(name).map(|span| &self.text[span])
    }

    pub fn attr(&self, name: &str) -> Option<Cow<'a, str>> {
        let raw = self.attr_raw(name)?;
        // An escape that XML does not define is returned unchanged.
        Some(quick_xml::escape::unescape(raw).unwrap_or(Cow::Borrowed(raw)))
    }

    pub fn attr_f64(&self, name: &str) -> Option<f64> {
        self.attr_raw(name)?.trim().parse().ok().filter(|v: &f64| v.is_finite())
    }

    pub fn attr_u32(&self, name: &str) -> Option<u32> {
        self.attr_raw(name)?.trim().parse().ok()
    }

    /// The `Value` of the element at `path` below this one.
    pub fn value(&self, path: &str) -> Option<Cow<'a, str>> {
        self.at(path)?.attr("Value")
    }

    pub fn number(&self, path: &str) -> Option<f64> {
        self.at(path)?.attr_f64("Value")
    }

    pub fn integer(&self, path: &str) -> Option<i64> {
        self.at(path)?.attr_raw("Value")?.trim().parse().ok()
    }

    pub fn flag(&self, path: &str) -> Option<bool> {
        match self.at(path)?.attr_raw("Value")? {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The line end and the white space before the element; empty when other text precedes the
    /// element on its line.
    pub fn lead(&self) -> &'a str {
        let before = &self.text[..self.span().start];
        let indent = before.trim_end_matches([' ', '\t']);
        if indent.ends_with('\n') || indent.is_empty() {
            let cut = indent.strip_suffix('\n').map_or(indent, |s| s.strip_suffix('\r').unwrap_or(s)).len();
            &before[cut..]
        } else {
            ""
        }
    }

    /// The white space before the element on its line.
    pub fn indent(&self) -> &'a str {
        self.lead().trim_start_matches(['\r', '\n'])
    }
}

/// The iterator returned by [`El::attributes`].
pub(crate) struct Attributes<'a> {
    text: &'a str,
    at: usize,
    end: usize,
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a str, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        while at < self.end && bytes.get(at)?.is_ascii_whitespace() {
            at += 1;
        }
        let from = at;
        while at < self.end && !matches!(bytes.get(at)?, b'=' | b'>' | b'/' | b' ' | b'\t' | b'\r' | b'\n') {
            at += 1;
        }
        let name = self.text.get(from..at).filter(|name| !name.is_empty())?;
        while at < self.end && matches!(bytes.get(at)?, b'=' | b' ' | b'\t' | b'\r' | b'\n') {
            at += 1;
        }
        let quote = *bytes.get(at).filter(|b| matches!(b, b'"' | b'\''))?;
        let length = bytes.get(at + 1..self.end)?.iter().position(|b| *b == quote)?;
        self.at = at + 1 + length + 1;
        Some((name, at + 1..at + 1 + length))
    }
}

/// One replacement of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Splice {
    pub span: Range<usize>,
    pub with: String,
}

/// Replacements that do not overlap, collected in any order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Splices {
    list: Vec<Splice>,
}

impl Splices {
    /// Replaces `span`, unless it already contains this text.
    pub fn put(&mut self, text: &str, span: Range<usize>, with: impl Into<String>) {
        let with = with.into();
        if text.get(span.clone()) != Some(with.as_str()) {
            self.list.push(Splice { span, with });
        }
    }

    /// Sets an attribute's value; does not add a missing attribute.
    pub fn attr(&mut self, el: El<'_>, name: &str, value: &str) {
        if let Some(span) = el.attr_span(name) {
            if el.attr(name).as_deref() == Some(value) {
                return;
            }
            let single = el.text.as_bytes().get(span.end) == Some(&b'\'');
            self.put(el.text, span, escape(value, single));
        }
    }

    /// Sets `Value` of the element at `path`, if it exists.
    pub fn value(&mut self, el: El<'_>, path: &str, value: &str) {
        if let Some(target) = el.at(path) {
            self.attr(target, "Value", value);
        }
    }

    /// Sets a number; text that already has the same value stays unchanged.
    pub fn number(&mut self, el: El<'_>, path: &str, value: f64) {
        if let Some(target) = el.at(path)
            && target.attr_f64("Value") != Some(value)
        {
            self.attr(target, "Value", &number(value));
        }
    }

    /// Removes all children of an element, so that only an empty tag remains.
    pub fn empty(&mut self, el: El<'_>) {
        if !el.is_empty_tag() {
            self.put(el.text, el.span(), emptied(el));
        }
    }

    pub fn empty_at(&mut self, el: El<'_>, path: &str) {
        if let Some(target) = el.at(path) {
            self.empty(target);
        }
    }

    /// Removes children of `parent` together with their lines. If no child remains, the parent
    /// becomes an empty tag.
    pub fn remove_children(&mut self, parent: El<'_>, doomed: impl Fn(El<'_>) -> bool) {
        let (gone, kept): (Vec<_>, Vec<_>) = parent.children().partition(|c| doomed(*c));
        if gone.is_empty() {
            return;
        }
        if kept.is_empty() {
            return self.empty(parent);
        }
        for el in gone {
            self.put(el.text, el.span().start - el.lead().len()..el.span().end, "");
        }
    }

    /// Inserts `child` as child number `index` of `parent`, or as the last child if there are fewer
    /// children, on its own line. The first line of `child` has no indentation.
    pub fn insert_child(&mut self, parent: El<'_>, index: usize, child: &str, unit: &str, newline: &str) {
        let inner = format!("{}{unit}", parent.indent());
        if parent.children().next().is_none() {
            let open = emptied(parent);
            let open = open.strip_suffix(" />").unwrap_or(&open);
            let name = parent.name();
            let indent = parent.indent();
            self.put(parent.text, parent.span(), format!("{open}>{newline}{inner}{child}{newline}{indent}</{name}>"));
            return;
        }
        let siblings: Vec<_> = parent.children().collect();
        let at = match index.checked_sub(1).and_then(|i| siblings.get(i)).or(if index == 0 {
            None
        } else {
            siblings.last()
        }) {
            Some(before) => before.span().end,
            None => parent.node().open_end as usize,
        };
        self.put(parent.text, at..at, format!("{newline}{inner}{child}"));
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The replacements sorted by position. Two replacements at the same position keep the order in
    /// which they were added.
    pub fn sorted(mut self) -> Vec<Splice> {
        self.list.sort_by_key(|s| (s.span.start, s.span.end));
        self.list
    }
}

fn emptied(el: El<'_>) -> String {
    let mut out = format!("<{}", el.name());
    for (name, span) in el.attributes() {
        let quote = el.text.get(span.end..=span.end).unwrap_or("\"");
        let _ = write!(out, " {name}={quote}{}{quote}", &el.text[span]);
    }
    out.push_str(" />");
    out
}

/// Applies replacements that are sorted by position; `None` when two of them overlap or one is
/// outside the text.
pub(crate) fn splice(text: &str, splices: &[Splice]) -> Option<String> {
    let grown: usize = splices.iter().map(|s| s.with.len()).sum();
    let mut out = String::with_capacity(text.len() + grown);
    let mut at = 0;
    for s in splices {
        out.push_str(text.get(at..s.span.start)?);
        out.push_str(&s.with);
        at = s.span.end;
    }
    out.push_str(text.get(at..)?);
    Some(out)
}

/// The shortest text that parses to the same number, without exponent and without `.0`.
pub(crate) fn number(value: f64) -> String {
    // Rust's `Display` prints the shortest exact form without exponent; only negative zero is
    // special.
    if value == 0.0 { "0".into() } else { value.to_string() }
}

/// Escapes an attribute value; `single` if the value is in single quotes.
pub(crate) fn escape(value: &str, single: bool) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' if single => out.push_str("&apos;"),
            c => out.push(c),
        }
    }
    out
}

/// Replaces the indentation of all lines after the first.
pub(crate) fn reindent(raw: &str, from: &str, to: &str) -> String {
    if from == to {
        return raw.to_owned();
    }
    let mut out = String::with_capacity(raw.len());
    for (i, line) in raw.split_inclusive('\n').enumerate() {
        match line.strip_prefix(from) {
            Some(rest) if i > 0 => {
                out.push_str(to);
                out.push_str(rest);
            }
            Some(_) | None => out.push_str(line),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Outline {
        Outline::read(text, &[]).expect("not well formed").0
    }

    #[test]
    fn finds_children_attributes_and_spans() {
        let text = "<A x=\"1\" y='2'>\n\t<B Value=\"a &amp; b\" />\n\t<C><D /></C>\n</A>";
        let outline = read(text);
        let a = outline.roots(text).next().expect("root");
        assert_eq!(a.attr("y").as_deref(), Some("2"));
        assert_eq!(a.value("B").as_deref(), Some("a & b"));
        assert_eq!(a.at("C/D").expect("D").raw(), "<D />");
        assert_eq!(a.child("C").expect("C").lead(), "\n\t");
        assert_eq!(a.children().count(), 2);
    }

    #[test]
    fn refuses_what_is_not_well_formed() {
        for bad in ["<A><B></A></B>", "<A></A></A>", "<A/><B/>", "<!DOCTYPE a><A/>", "<A b=\"></A>", "x<A/>", "</A>"] {
            assert!(
                Outline::read(bad, &[]).map_or(true, |(_, open)| !open.is_empty()),
                "{bad} was accepted as complete"
            );
        }
        let deep = "<a>".repeat(2_000);
        assert!(Outline::read(&deep, &[]).is_err());
    }

    #[test]
    fn a_piece_can_close_what_came_before() {
        let (outline, open) =
            Outline::read("</T>\n<M><N/></M></L></R>", &["R".into(), "L".into(), "T".into()]).expect("read");
        assert!(open.is_empty());
        assert_eq!(outline.roots("</T>\n<M><N/></M></L></R>").next().expect("M").name(), "M");
    }

    #[test]
    fn removing_the_last_child_leaves_an_empty_tag() {
        let text = "<A>\n\t<B k=\"v\">\n\t\t<C />\n\t</B>\n</A>";
        let outline = read(text);
        let a = outline.roots(text).next().expect("root");
        let mut splices = Splices::default();
        splices.remove_children(a.child("B").expect("B"), |_| true);
        assert_eq!(splice(text, &splices.sorted()).as_deref(), Some("<A>\n\t<B k=\"v\" />\n</A>"));
    }

    #[test]
    fn inserting_keeps_lines_and_indent() {
        for (text, want) in [
            ("<A>\r\n\t<B />\r\n</A>", "<A>\r\n\t<B>\r\n\t\t<X />\r\n\t</B>\r\n</A>"),
            ("<A>\r\n\t<B>\r\n\t\t<C />\r\n\t</B>\r\n</A>", "<A>\r\n\t<B>\r\n\t\t<C />\r\n\t\t<X />\r\n\t</B>\r\n</A>"),
        ] {
            let outline = read(text);
            let b = outline.roots(text).next().and_then(|a| a.child("B")).expect("B");
            let mut splices = Splices::default();
            splices.insert_child(b, 9, "<X />", "\t", "\r\n");
            assert_eq!(splice(text, &splices.sorted()).as_deref(), Some(want));
        }
    }

    #[test]
    fn numbers_are_shortest_and_plain() {
        for (value, text) in
            [(1.0, "1"), (-0.0, "0"), (0.1, "0.1"), (1e21, "1000000000000000000000"), (1e-7, "0.0000001")]
        {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn overlapping_splices_are_refused() {
        let two = [Splice { span: 0..3, with: String::new() }, Splice { span: 2..4, with: String::new() }];
        assert_eq!(splice("abcdef", &two), None);
    }
}
