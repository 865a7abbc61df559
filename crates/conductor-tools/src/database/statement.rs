//! Finds the kinds of statements and the tables in an SQL text, by its words alone.
//!
//! The result informs an approver and is conservative: a word that may begin a statement counts
//! everywhere except in strings, comments and quoted names. The result enforces nothing. The
//! database itself prevents a reader from writing.

/// The syntax of comments and strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// The word in upper case, and as written.
    Word(String, String),
    /// A quoted name.
    Name(String),
    /// A string or a number.
    Value,
    Sign(char),
}

/// Kinds and tables in text order, each once, and the text without comments on one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    pub kinds: Vec<String>,
    pub tables: Vec<String>,
    pub text: String,
}

const VERBS: &str = "ALTER ANALYZE ATTACH BEGIN CALL CLUSTER COMMENT COMMIT COPY CREATE DELETE DETACH DO DROP \
    EXECUTE GRANT IMPORT INSERT LISTEN LOAD LOCK MERGE NOTIFY PRAGMA PREPARE REASSIGN REFRESH \
    REINDEX REPLACE RESET REVOKE ROLLBACK SAVEPOINT SECURITY SELECT TRUNCATE UPDATE VACUUM \
    VALUES";
/// Words between a verb and the kind of its object.
const MODIFIERS: &str = "OR REPLACE TEMP TEMPORARY UNIQUE VIRTUAL MATERIALIZED GLOBAL LOCAL UNLOGGED RECURSIVE \
    FOREIGN";
/// Words before the name of a table.
const BEFORE_A_NAME: &str = "FROM JOIN INTO UPDATE TABLE VIEW INDEX TRIGGER REFERENCES TRUNCATE COPY USING ON REINDEX \
    VACUUM";
/// Words between a word of `BEFORE_A_NAME` and the name.
const SKIPPED: &str = "IF NOT EXISTS ONLY OR ROLLBACK ABORT REPLACE FAIL IGNORE CONCURRENTLY LATERAL TABLE";
/// Keywords that are not a name, although they are in the position of a name.
const NOT_A_NAME: &str = "SELECT VALUES SET WHERE CONFLICT DELETE UPDATE INSERT BEGIN TRUE FALSE";

impl Statement {
    pub fn read(sql: &str, dialect: Dialect) -> Self {
        let tokens = tokens(sql, dialect);
        let word = |at: usize| match tokens.get(at) {
            Some((Token::Word(upper, _), _)) => Some(upper.as_str()),
            Some((Token::Name(_) | Token::Value | Token::Sign(_), _)) | None => None,
        };
        let sign = |at: usize, wanted: char| matches!(tokens.get(at), Some((Token::Sign(it), _)) if *it == wanted);
        let mut read = Statement {
            text: tokens.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" "),
            ..Self::default()
        };
        for at in 0..tokens.len() {
            let Some(this) = word(at) else { continue };
            let before = at.checked_sub(1).and_then(word);
            // `ON DELETE`, `FOR UPDATE` and the function `replace(…)` do not begin a statement.
            let begins = is_one_of(VERBS, this)
                && !matches!(
                    (before, this),
                    (Some("ON" | "FOR" | "OR" | "AFTER" | "BEFORE" | "OF"), _) | (Some("DO"), "UPDATE")
                )
                && !(this == "REPLACE" && sign(at + 1, '('));
            if begins {
                let mut next = at + 1;
                while word(next).is_some_and(|it| is_one_of(MODIFIERS, it)) {
                    next += 1;
                }
                let kind = match (this, word(next)) {
                    ("ALTER" | "CREATE" | "DROP", Some(what)) => format!("{this} {what}"),
                    (_, Some(_) | None) => this.to_owned(),
                };
                put(&mut read.kinds, kind);
            }
            if is_one_of(BEFORE_A_NAME, this) {
                let mut next = at + 1;
                loop {
                    while word(next).is_some_and(|it| is_one_of(SKIPPED, it)) {
                        next += 1;
                    }
                    let Some((name, after)) = name(&tokens, next) else { break };
                    put(&mut read.tables, name);
                    next = after;
                    // `FROM a, b` and `FROM a AS x, b` name several tables.
                    if word(next) == Some("AS") {
                        next += 2;
                    } else if !sign(next, ',') && matches!(tokens.get(next + 1), Some((Token::Sign(','), _))) {
                        next += 1;
                    }
                    if !matches!(this, "FROM" | "TABLE" | "TRUNCATE" | "UPDATE") || !sign(next, ',') {
                        break;
                    }
                    next += 1;
                }
            }
        }
        read
    }
}

fn is_one_of(words: &str, word: &str) -> bool {
    words.split(' ').any(|it| it == word)
}

fn put(list: &mut Vec<String>, item: String) {
    if !list.contains(&item) {
        list.push(item);
    }
}

/// A name with its schema, and the position after it.
fn name(tokens: &[(Token, String)], mut at: usize) -> Option<(String, usize)> {
    let mut parts = Vec::new();
    loop {
        match tokens.get(at) {
            Some((Token::Word(upper, written), _)) if !is_one_of(NOT_A_NAME, upper) => parts.push(written.clone()),
            Some((Token::Name(written), _)) => parts.push(written.clone()),
            Some((Token::Word(..) | Token::Value | Token::Sign(_), _)) | None => break,
        }
        at += 1;
        if !matches!(tokens.get(at), Some((Token::Sign('.'), _))) {
            break;
        }
        at += 1;
    }
    (!parts.is_empty()).then(|| (parts.join("."), at))
}

/// Words, names, values and signs with their texts. Comments are dropped.
fn tokens(sql: &str, dialect: Dialect) -> Vec<(Token, String)> {
    let all: Vec<char> = sql.chars().collect();
    let at = |place: usize| all.get(place).copied().unwrap_or('\0');
    let text =
        |from: usize, to: usize| -> String { all.get(from..to.min(all.len())).unwrap_or_default().iter().collect() };
    let mut out = Vec::new();
    let mut here = 0;
    while here < all.len() {
        let start = here;
        let token = match at(here) {
            it if it.is_whitespace() => {
                here += 1;
                continue;
            }
            '-' if at(here + 1) == '-' => {
                while here < all.len() && at(here) != '\n' {
                    here += 1;
                }
                continue;
            }
            '/' if at(here + 1) == '*' => {
                here = after_comment(&all, here, dialect);
                continue;
            }
            '\'' => {
                let escapes = dialect == Dialect::Postgres && here > 0 && matches!(at(here - 1), 'e' | 'E');
                here = after_quote(&all, here, '\'', escapes);
                Token::Value
            }
            '"' => {
                here = after_quote(&all, here, '"', false);
                Token::Name(text(start + 1, here.saturating_sub(1)))
            }
            '`' if dialect == Dialect::Sqlite => {
                here = after_quote(&all, here, '`', false);
                Token::Name(text(start + 1, here.saturating_sub(1)))
            }
            '[' if dialect == Dialect::Sqlite => {
                while here < all.len() && at(here) != ']' {
                    here += 1;
                }
                here += 1;
                Token::Name(text(start + 1, here.saturating_sub(1)))
            }
            '$' if dialect == Dialect::Postgres && dollar_tag(&all, here).is_some() => {
                let tag = dollar_tag(&all, here).unwrap_or_default();
                here += tag.len();
                while here < all.len() && !all.get(here..).unwrap_or_default().starts_with(&tag) {
                    here += 1;
                }
                here += tag.len();
                Token::Value
            }
            it if it.is_ascii_digit() => {
                while at(here).is_ascii_alphanumeric() || at(here) == '.' {
                    here += 1;
                }
                Token::Value
            }
            it if it == '_' || it.is_alphanumeric() => {
                while at(here) == '_' || at(here) == '$' || at(here).is_alphanumeric() {
                    here += 1;
                }
                let written = text(start, here);
                Token::Word(written.to_uppercase(), written)
            }
            it => {
                here += 1;
                Token::Sign(it)
            }
        };
        out.push((token, text(start, here)));
    }
    out
}

/// PostgreSQL nests comments, SQLite does not. A comment without an end extends to the end of the
/// text.
fn after_comment(all: &[char], mut here: usize, dialect: Dialect) -> usize {
    let pair = |at: usize| (all.get(at).copied(), all.get(at + 1).copied());
    let mut depth = 0;
    while here < all.len() {
        match pair(here) {
            (Some('/'), Some('*')) if depth == 0 || dialect == Dialect::Postgres => {
                depth += 1;
                here += 2;
            }
            (Some('*'), Some('/')) => {
                depth -= 1;
                here += 2;
                if depth == 0 {
                    return here;
                }
            }
            (_, _) => here += 1,
        }
    }
    here
}

/// The position after a quoted text. A doubled quote is one quote character of the text.
fn after_quote(all: &[char], mut here: usize, quote: char, escapes: bool) -> usize {
    here += 1;
    while let Some(this) = all.get(here) {
        here += 1;
        if escapes && *this == '\\' {
            here += 1;
        } else if *this == quote {
            if all.get(here) != Some(&quote) {
                return here;
            }
            here += 1;
        }
    }
    here
}

/// The tag `$$` or `$tag$` that starts here.
fn dollar_tag(all: &[char], here: usize) -> Option<Vec<char>> {
    let rest = all.get(here + 1..)?;
    let end = rest.iter().position(|it| *it == '$')?;
    let tag = rest.get(..end)?;
    let good =
        tag.iter().all(|it| *it == '_' || it.is_alphanumeric()) && !tag.first().is_some_and(char::is_ascii_digit);
    good.then(|| all.get(here..here + end + 2).unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sql: &str) -> (String, String) {
        let read = Statement::read(sql, Dialect::Sqlite);
        (read.kinds.join(", "), read.tables.join(", "))
    }

    fn told(kinds: &str, tables: &str) -> (String, String) {
        (kinds.to_owned(), tables.to_owned())
    }

    #[test]
    fn comments_strings_and_names_hide_nothing() {
        for sql in [
            "/* xxx */ DROP TABLE songs",
            "-- SELECT 1\nDROP TABLE songs",
            "drop/**/table/**/if exists songs",
            "/* /* */ DROP TABLE songs",
            "DROP TABLE \"songs\"",
            "DROP TABLE [songs]",
            "DROP TABLE `songs` /* SELECT FROM other",
        ] {
            assert_eq!(read(sql), told("DROP TABLE", "songs"), "{sql}");
        }
        assert_eq!(read("SELECT 'DROP TABLE songs' FROM a"), told("SELECT", "a"));
        assert_eq!(read("SELECT \"DROP\" FROM \"DELETE FROM x\""), told("SELECT", "DELETE FROM x"));
        assert_eq!(Statement::read("/* a */ SELECT  1\n--x\n+ 2", Dialect::Sqlite).text, "SELECT 1 + 2");
    }

    #[test]
    fn every_kind_and_table_is_named() {
        assert_eq!(read("WITH x AS (SELECT id FROM a) DELETE FROM b WHERE id IN x"), told("SELECT, DELETE", "a, b"));
        assert_eq!(
            read("INSERT INTO main.t (a) SELECT a FROM u AS v, w x, y"),
            told("INSERT, SELECT", "main.t, u, w, y")
        );
        assert_eq!(read("UPDATE OR REPLACE t SET a = replace(b, 'x', 'y') FROM u"), told("UPDATE", "t, u"));
        assert_eq!(read("CREATE UNIQUE INDEX i ON t (a)"), told("CREATE INDEX", "i, t"));
        assert_eq!(
            read("CREATE TEMP TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM log; END"),
            told("CREATE TRIGGER, BEGIN, DELETE", "g, t, log")
        );
        assert_eq!(
            read("CREATE TABLE c (p INTEGER REFERENCES parents(id) ON DELETE CASCADE)"),
            told("CREATE TABLE", "c, parents")
        );
        assert_eq!(read("INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET a = 1"), told("INSERT, VALUES, DO", "t"));
        assert_eq!(read("ALTER TABLE t RENAME TO u"), told("ALTER TABLE", "t"));
        assert_eq!(read(""), told("", ""));
    }

    #[test]
    fn postgres_reads_its_own_quotes() {
        let pg = |sql| {
            let read = Statement::read(sql, Dialect::Postgres);
            (read.kinds.join(", "), read.tables.join(", "))
        };
        assert_eq!(pg("/* /* */ */ TRUNCATE a, b"), told("TRUNCATE", "a, b"));
        assert_eq!(pg("SELECT $x$ DROP TABLE t $x$, E'\\' DELETE FROM u' FROM v"), told("SELECT", "v"));
        assert_eq!(pg("SELECT $1 FROM t"), told("SELECT", "t"));
        assert_eq!(pg("COPY t TO PROGRAM 'sh'"), told("COPY", "t"));
    }
}
