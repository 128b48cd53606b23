//! Two views of a Rust file: its code without comments and strings, and its comments alone.
//!
//! Both views keep the lines and columns of the file, so a match in a view has its position in the
//! file. Strings are in neither view, so rules can name the words that they forbid.

/// A Rust file, split for the rules.
pub struct Source {
    /// Comments, and text between quotes, are blank.
    pub code: String,
    /// Everything but comments is blank.
    pub comments: String,
    /// First line of the unit tests (`#[cfg(test)]` and a module's body), or one past the last.
    pub tests_from: usize,
}

/// A function and its length in lines, from `fn` to the closing brace.
#[derive(Debug, PartialEq)]
pub struct Function {
    pub name: String,
    pub line: usize,
    pub lines: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Code,
    Comment,
    Literal,
}

impl Source {
    /// Splits the text of a file.
    pub fn new(text: &str) -> Source {
        let (mut code, mut comments) = (String::new(), String::new());
        let mut chars = text.chars().collect::<Vec<char>>().into_iter();
        while let Some((part, length)) = next_part(chars.as_slice()) {
            for c in chars.by_ref().take(length) {
                let blank = if c == '\n' { '\n' } else { ' ' };
                code.push(if part == Part::Code { c } else { blank });
                comments.push(if part == Part::Comment { c } else { blank });
            }
        }
        let lines: Vec<&str> = code.lines().map(str::trim).collect();
        let begins = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].ends_with(['{', '}']);
        let tests = lines.windows(2).position(begins).unwrap_or(lines.len());
        Source { code, comments, tests_from: tests + 1 }
    }

    /// Every function that has a body.
    pub fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for start in find_word(&self.code, "fn") {
            let rest = self.code[start + 2..].trim_start();
            let name: String = rest.chars().take_while(|&c| is_word(c)).collect();
            let Some(end) = body_end(&self.code, start) else { continue };
            if !name.is_empty() {
                let lines = self.code[start..end].matches('\n').count() + 1;
                functions.push(Function { name, line: line_of(&self.code, start), lines });
            }
        }
        functions
    }
}

/// Kind and length of the next token; words are one token. `None` at the end.
fn next_part(text: &[char]) -> Option<(Part, usize)> {
    let at = |i: usize| text.get(i).copied().unwrap_or('\0');
    let first = *text.first()?;
    Some(match first {
        '/' if at(1) == '/' => (Part::Comment, text.iter().take_while(|&&c| c != '\n').count()),
        '/' if at(1) == '*' => (Part::Comment, block_comment(text)),
        '"' => (Part::Literal, quoted(text, '"')),
        '\'' if at(1) == '\\' || at(2) == '\'' => (Part::Literal, quoted(text, '\'')),
        c if is_word(c) => {
            let word = text.iter().take_while(|&&c| is_word(c)).count();
            let raw = matches!(text[..word].iter().collect::<String>().as_str(), "r" | "br" | "cr");
            match raw.then(|| raw_string(&text[word..])).flatten() {
                Some(length) => (Part::Literal, word + length),
                None => (Part::Code, word),
            }
        }
        _ => (Part::Code, 1),
    })
}

/// Length of a block comment, which may be nested.
fn block_comment(text: &[char]) -> usize {
    let (mut depth, mut i) = (0, 0);
    while i + 1 < text.len() {
        match (text[i], text[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    text.len()
}

/// Length of a quoted literal, in which a backslash escapes the next character.
fn quoted(text: &[char], quote: char) -> usize {
    let mut i = 1;
    while i < text.len() && text[i] != quote {
        i += if text[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(text.len())
}

/// Length of the rest of a raw string, from its `#` or quote on; `None` if it is not one.
fn raw_string(text: &[char]) -> Option<usize> {
    let hashes = text.iter().take_while(|&&c| c == '#').count();
    (text.get(hashes) == Some(&'"')).then_some(())?;
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let body = &text[hashes + 1..];
    let length = body.windows(end.len()).position(|w| w == end).map(|at| at + end.len());
    Some(hashes + 1 + length.unwrap_or(body.len()))
}

/// End of the body of the function at `start`; `None` if it has none (a trait, a pointer type).
fn body_end(code: &str, start: usize) -> Option<usize> {
    let (mut brackets, mut braces) = (0, 0);
    for (i, b) in code.bytes().enumerate().skip(start) {
        match b {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b'{' => braces += 1,
            b'}' => {
                braces -= 1;
                if braces <= 0 {
                    return (braces == 0).then_some(i + 1);
                }
            }
            b';' if brackets == 0 && braces == 0 => return None,
            _ => {}
        }
        if brackets < 0 && braces == 0 {
            return None;
        }
    }
    None
}

/// A letter, a digit or an underscore.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Offsets at which `word` occurs in `text` as a whole word; ends of `word` that are punctuation
/// may touch any character.
pub fn find_word<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let joins = |outside: Option<char>, inside: Option<char>| {
        outside.is_some_and(is_word) && inside.is_some_and(is_word)
    };
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !joins(before, word.chars().next()) && !joins(after, word.chars().next_back())
    })
}

/// Number of the line, from 1, that contains the byte at `offset`.
pub fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_code_comments_and_literals() {
        let text = concat!(
            "let a = \"// s\\\"\"; // one\n",
            "let b: &'a str = r#\"x \" y\"#; /* two /* three */ */ let c = '\"'; f('\\'', 'q')\n",
        );
        let source = Source::new(text);
        let code: String = source.code.split_whitespace().collect::<Vec<_>>().join(" ");
        let comments = source.comments.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(code, "let a = ; let b: &'a str = ; let c = ; f( , )");
        assert_eq!(comments, "// one /* two /* three */ */");
        assert_eq!(source.code.len(), text.len());
    }

    #[test]
    fn unfinished_literals_end_with_the_file() {
        for text in ["\"abc\\", "r##\"abc\"#", "/* abc", "'\\", "b\"", "r#"] {
            assert_eq!(Source::new(text).code.chars().count(), text.chars().count(), "{text}");
        }
    }

    #[test]
    fn measures_functions() {
        let text = "fn a(x: [u8; 2]) -> fn(u8) {\n  \"}\";\n}\ntrait T { fn b(); fn c() {} }\n";
        let found: Vec<_> = Source::new(text).functions();
        let expected = [("a", 1, 3), ("c", 4, 1)];
        let expected =
            expected.map(|(n, line, lines)| Function { name: n.to_string(), line, lines });
        assert_eq!(found, expected);
    }

    #[test]
    fn finds_the_start_of_unit_tests() {
        assert_eq!(Source::new("a\n#[cfg(test)]\nmod tests {}\n").tests_from, 2);
        assert_eq!(Source::new("#[cfg(test)]\nmod tests;\n").tests_from, 3);
    }

    #[test]
    fn finds_whole_words() {
        assert_eq!(find_word("fs::a xfs::b std::fs::c", "fs::").collect::<Vec<_>>(), [0, 18]);
        assert_eq!(find_word("unsafe_code unsafe {", "unsafe").collect::<Vec<_>>(), [12]);
    }
}
