//! Returns the statements of a Pd document one by one, so that the document can be shown in a
//! running Pd.
//!
//! Not here: the connection to Pd. Atoms are written as in the file; Pd accepts the same form in
//! messages.

use crate::canvas::Item;
use crate::document::{BoxView, Document, Format, View};
use crate::{objects, pd};

impl BoxView<'_> {
    /// Pd: the atoms after the coordinates of the box, without the width in characters (`, f N`).
    /// For a box without coordinates, all atoms after its kind.
    pub fn pd_atoms(&self) -> Vec<String> {
        let placed = !matches!(self.native_class(), Some("array" | "scalar"));
        pd::words(self.pd_statement())
            .skip(if placed { 4 } else { 2 })
            .take_while(|word| *word != b",")
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect()
    }

    /// Pd: the width in characters, if the statement of the box contains one (`, f N`).
    pub fn pd_columns(&self) -> Option<u32> {
        let text = matches!(self.native_class(), Some("obj" | "msg" | "text" | "restore"));
        self.face.facts.columns.filter(|columns| text && *columns > 0)
    }

    /// Pd: whether the box has array data (`#A`), which only a file can contain.
    pub fn pd_has_data(&self) -> bool {
        let chunk = if self.inside().is_some() { &self.face.after } else { &self.face.before };
        let (_, attached) = pd::own_statement(chunk.bytes(&self.view.document.source));
        pd::words(attached).next() == Some(b"#A")
    }

    /// Whether the box is the same in two states of one document. The inside of a subpatcher is
    /// ignored.
    pub fn is_untouched(&self, other: &BoxView<'_>) -> bool {
        std::sync::Arc::ptr_eq(self.face, other.face)
    }

    fn pd_statement(&self) -> &[u8] {
        let chunk = if self.inside().is_some() { &self.face.after } else { &self.face.before };
        pd::own_statement(chunk.bytes(&self.view.document.source)).0
    }
}

/// Whether a Pd class is a user interface object, whose text a person cannot edit.
pub fn is_pd_gui(class: &str) -> bool {
    gui_name(class).is_some()
}

/// The index of the atom that stores the value of a Pd user interface object, counted from the
/// class. A running patch can change this atom.
pub fn pd_value_atom(class: &str) -> Option<usize> {
    Some(pd::gui_field(gui_name(class)?, "value")? + 1)
}

fn gui_name(class: &str) -> Option<&'static str> {
    let name = objects::table(Format::Pd).class_of(class)?.0.name;
    pd::gui_fields(name).map(|_| name)
}

impl View<'_> {
    /// Whether the canvas and its subpatchers are the same in two states of one document.
    pub fn is_untouched(&self, other: &View<'_>) -> bool {
        std::ptr::eq(self.canvas, other.canvas)
    }

    /// Pd: the statements other than the header, boxes and cords: declarations, coordinates and
    /// unknown statements.
    pub fn pd_frame(&self) -> Vec<String> {
        let mut found = Vec::new();
        for n in 0.. {
            let Some(item) = self.canvas.items.get(n) else { break };
            let Item::Text(chunk) = item else { continue };
            let bytes = chunk.bytes(&self.document.source);
            let mut words = pd::words(bytes).map(String::from_utf8_lossy).peekable();
            if words.peek().is_some_and(|first| first != "#N") {
                found.push(words.collect::<Vec<_>>().join(" "));
            }
        }
        found
    }
}

impl Document {
    /// Pd: the bytes of the document with every subpatch marked as open, so that Pd shows every
    /// canvas after loading.
    pub fn pd_bytes_all_open(&self) -> Vec<u8> {
        let bytes = self.to_bytes();
        let mut out = Vec::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (statement, behind) = pd::own_statement(rest);
            let words: Vec<&[u8]> = pd::words(statement).collect();
            match words.as_slice() {
                [b"#N", b"canvas", _, _, _, _, _, _] => {
                    out.extend(pd::replace_atom(statement, 7, "1").unwrap_or_else(|| statement.to_vec()));
                }
                _ => out.extend_from_slice(statement),
            }
            rest = behind;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use crate::{Document, Format, Limits};

    const FILE: &str = "#N canvas 0 0 450 300 12;\n#X declare -path lib;\n#X obj 10 20 f \\$1 a\\ b, f 12;\n#N canvas 0 0 9 9 sub 0;\n\
                        #X array a 3 float 1;\n#A 0 1 2 3;\n#X coords 0 1 3 -1 9 9 1;\n#X restore 30 40 pd sub;\n#X msg 1 2 x \\, y;\n#X connect 0 0 2 0;\n";

    #[test]
    fn boxes_are_told_as_the_file_spells_them() {
        let document = Document::open(FILE.as_bytes(), Format::Pd, &Limits::default()).expect("a patch");
        let told: Vec<(Vec<String>, Option<u32>, bool)> =
            document.root().boxes().map(|it| (it.pd_atoms(), it.pd_columns(), it.pd_has_data())).collect();
        let words = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            told,
            [(words("f|\\$1|a\\ b"), Some(12), false), (words("pd|sub"), None, false), (words("x|\\,|y"), None, false)]
        );
        assert_eq!(document.root().pd_frame(), ["#X declare -path lib"]);
        let inside = document.root().boxes().nth(1).and_then(|it| it.inside()).expect("a subpatch");
        assert_eq!(inside.pd_frame(), ["#X coords 0 1 3 -1 9 9 1"]);
        assert!(inside.boxes().all(|it| it.pd_has_data()));
        let open = String::from_utf8(document.pd_bytes_all_open()).expect("text");
        assert_eq!(open, FILE.replace("9 9 sub 0;", "9 9 sub 1;"));
    }
}
