//! Parses the stream of Tcl commands that Pd sends to its user interface. Only a few commands are
//! used. The rest is skipped, so that a version of Pd that draws differently still works.
//!
//! Nothing in the stream is ever evaluated. Not here: the effect of a command (`link`).

/// A command longer than this is skipped. The longest real commands draw arrays.
const MOST_BYTES: usize = 1 << 20;

/// A parsed command. Commands that are not listed here are skipped.
#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    Startup {
        major: u32,
        minor: u32,
        bug: u32,
    },
    Ping,
    /// Pd opened a window for this canvas.
    Canvas(String),
    /// A canvas, and the windows of the canvases that contain it, innermost first.
    Parents(String, Vec<String>),
    Found,
    /// A line of the log. Levels 0 and 1 are errors, 2 is information, 3 and 4 are debug output.
    Log {
        level: u8,
        text: String,
    },
    Dsp(bool),
    /// The outline of a box: its tag and the position of its first corner.
    Shape {
        canvas: String,
        tag: String,
        x: f64,
        y: f64,
    },
    Nub {
        tag: String,
        inlet: bool,
    },
    Text {
        tag: String,
        text: String,
    },
}

/// Splits a stream into commands.
#[derive(Debug, Default)]
pub struct Reader {
    held: Vec<u8>,
    depth: usize,
    escaped: bool,
    skipping: bool,
}

impl Reader {
    /// Parses received bytes, and calls `each` with every complete command that is used.
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Word)) {
        for byte in bytes {
            let escaped = std::mem::take(&mut self.escaped);
            match byte {
                b'\\' if !escaped => self.escaped = true,
                b'{' if !escaped => self.depth += 1,
                b'}' if !escaped => self.depth = self.depth.saturating_sub(1),
                b'\n' | b';' if !escaped && self.depth == 0 => {
                    if !self.skipping
                        && let Some(word) = read(&String::from_utf8_lossy(&self.held))
                    {
                        each(word);
                    }
                    self.held.clear();
                    self.skipping = false;
                    continue;
                }
                _ => {}
            }
            if self.held.len() >= MOST_BYTES {
                self.held.clear();
                self.skipping = true;
            }
            if !self.skipping {
                self.held.push(*byte);
            }
        }
    }
}

fn read(command: &str) -> Option<Word> {
    let name = command.split_whitespace().next()?;
    // Most of the stream is drawing commands, which are split into words only if they are used.
    match name {
        "pdtk_ping" => Some(Word::Ping),
        "pdtk_showfindresult" => Some(Word::Found),
        "pdtk_canvas_new" => Some(Word::Canvas(words(command).get(1)?.clone())),
        "pdtk_canvas_setparents" => {
            let words = words(command);
            let around = words.get(2)?.split_whitespace().map(|it| it.trim_end_matches(".c").to_owned());
            Some(Word::Parents(words.get(1)?.clone(), around.collect()))
        }
        "pdtk_pd_startup" => {
            let words = words(command);
            let number = |at: usize| words.get(at)?.parse().ok();
            Some(Word::Startup { major: number(1)?, minor: number(2)?, bug: number(3)? })
        }
        "pdtk_pd_dsp" => Some(Word::Dsp(words(command).get(1)? == "ON")),
        "::pdwindow::post" => Some(Word::Log { level: 2, text: words(command).get(1)?.clone() }),
        "::pdwindow::logpost" => {
            let words = words(command);
            Some(Word::Log { level: words.get(2)?.parse().ok()?, text: words.get(3)?.clone() })
        }
        "pdtk_text_new" => {
            let words = words(command);
            let tag = words.get(2)?.split_whitespace().next()?.trim_matches(['{', '}']).to_owned();
            Some(Word::Text { tag, text: words.get(5)?.clone() })
        }
        canvas if canvas.starts_with(".x") && command.contains(" create ") => drawing(canvas, command),
        _ => None,
    }
}

/// Parses the outline of a text box, or one of its nubs (the marks of inlets and outlets).
fn drawing(canvas: &str, command: &str) -> Option<Word> {
    let words = words(command);
    let tags = words.get(words.iter().position(|it| it == "-tags")? + 1)?;
    let mut tags = tags.split_whitespace().map(|it| it.trim_matches(['{', '}']));
    let (tag, kind) = (tags.next()?, tags.next()?);
    match kind {
        "inlet" | "outlet" => {
            let tag = tag.trim_end_matches(|it: char| it.is_ascii_digit());
            let inlet = kind == "inlet";
            // The number of a nub follows the letter `i` or `o`. A hexadecimal address never ends
            // with these letters.
            Some(Word::Nub { tag: tag.strip_suffix(if inlet { 'i' } else { 'o' })?.to_owned(), inlet })
        }
        "obj" | "msg" | "atom" | "commentbar" | "text" if tag.ends_with('R') => Some(Word::Shape {
            canvas: canvas.trim_end_matches(".c").to_owned(),
            tag: tag.trim_end_matches('R').to_owned(),
            x: words.get(3)?.parse().ok()?,
            y: words.get(4)?.parse().ok()?,
        }),
        _ => None,
    }
}

/// Splits a command into words. Braces group words; escaping backslashes are removed.
fn words(command: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word = String::new();
    let (mut depth, mut open) = (0usize, false);
    let mut letters = command.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                open = true;
                word.extend(letters.next());
                continue;
            }
            '{' => {
                depth += 1;
                open = true;
                if depth == 1 {
                    continue;
                }
            }
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    continue;
                }
            }
            space if space.is_whitespace() && depth == 0 => {
                if std::mem::take(&mut open) {
                    found.push(std::mem::take(&mut word));
                }
                continue;
            }
            _ => open = true,
        }
        word.push(letter);
    }
    if open {
        found.push(word);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str) -> Vec<Word> {
        let mut found = Vec::new();
        Reader::default().feed(text.as_bytes(), |it| found.push(it));
        found
    }

    #[test]
    fn what_a_real_pd_says() {
        let read = all(
            "set ::sys_staticpath {{/usr/lib/pd/extra} } ;\npdtk_pd_startup 0 53 1 {} { {OSS 2} } { {OSS-MIDI 0} } {DejaVu Sans Mono} bold\n\
             pdtk_canvas_new .x55e3ee6999c0 450 300 {} 0 ;\npdtk_canvas_setparents .x55e3ee6999c0 {.x55e3ee698a10.c .x55e3ee698660.c } ;\n\
             ::pdwindow::logpost 0x55e3ee69b6a0 1 {... couldn't create\n} ;\n::pdwindow::post {a \\{ b; c} ;\n\
             .x55e3ee698660.c create line 50 60 110 50 110 71 -dash \"\" -width 1 -tags {{.x55e3ee698660.t55e3ee698f50R} {obj} } ;\n\
             .x55e3ee698660.c create rectangle 103 50 110 52 -tags {{.x55e3ee698660.t55e3ee698f50i11} {inlet} } -fill black ;\n\
             pdtk_text_new .x55e3ee698660.c {{.x55e3ee698660.t55e3ee6991d0} {atom} {text} } 302 53 {0} 12 black ;\n\
             pdtk_showfindresult .x55e3ee698660 1 1 1 ;\npdtk_ping\npdtk_pd_dsp {ON} ;\n",
        );
        let tag = || ".x55e3ee698660.t55e3ee698f50".to_owned();
        assert_eq!(
            read,
            [
                Word::Startup { major: 0, minor: 53, bug: 1 },
                Word::Canvas(".x55e3ee6999c0".into()),
                Word::Parents(".x55e3ee6999c0".into(), vec![".x55e3ee698a10".into(), ".x55e3ee698660".into()]),
                Word::Log { level: 1, text: "... couldn't create\n".into() },
                Word::Log { level: 2, text: "a { b; c".into() },
                Word::Shape { canvas: ".x55e3ee698660".into(), tag: tag(), x: 50.0, y: 60.0 },
                Word::Nub { tag: tag(), inlet: true },
                Word::Text { tag: ".x55e3ee698660.t55e3ee6991d0".into(), text: "0".into() },
                Word::Found,
                Word::Ping,
                Word::Dsp(true),
            ]
        );
    }

    #[test]
    fn a_command_without_end_costs_a_bounded_amount_and_the_next_is_read() {
        let mut found = Vec::new();
        let mut reader = Reader::default();
        reader.feed(&vec![b'x'; 3 << 20], |it| found.push(it));
        assert!(reader.held.capacity() <= 2 * MOST_BYTES);
        reader.feed(b"\npdtk_ping\n", |it| found.push(it));
        assert_eq!(found, [Word::Ping]);
    }

    proptest! {
        #[test]
        fn no_stream_breaks_the_reader_and_chunks_do_not_matter(
            bytes in prop::collection::vec(prop_oneof![Just(b'{'), Just(b'}'), Just(b'\\'), Just(b';'), Just(b'\n'), Just(b' '), any::<u8>()], 0..400),
            cut in 0usize..400,
        ) {
            let mut whole = Vec::new();
            Reader::default().feed(&bytes, |it| whole.push(it));
            let mut parts = Vec::new();
            let mut reader = Reader::default();
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            reader.feed(first, |it| parts.push(it));
            reader.feed(second, |it| parts.push(it));
            prop_assert_eq!(whole, parts);
        }

        #[test]
        fn no_command_breaks_the_words(text in "(pdtk_canvas_new|pdtk_text_new|::pdwindow::logpost|\\.x1\\.c create line|pdtk_pd_startup)[ -~]{0,80}") {
            let _ = read(&text);
        }
    }
}
