//! Field names in text: the words that queries must quote, and helpers for error messages.

/// The reserved words of the query language, in lower case.
pub(crate) const KEYWORDS: [&str; 22] = [
    "after", "all", "and", "asc", "between", "by", "desc", "exists", "false", "in", "is", "like",
    "limit", "not", "null", "offset", "or", "order", "prefix", "skip", "true", "where",
];

/// Whether a word is reserved, so that a field of this name needs double quotes in a query.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

/// Whether a character may occur in an unquoted name. The first one must also be
/// [`starts_word`].
pub(crate) fn continues_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

pub(crate) fn starts_word(c: char) -> bool {
    continues_word(c) && !c.is_ascii_digit() && c != '.'
}

/// The first 40 characters of a text, for error messages.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// Up to eight names in backquotes, and the number of those left out.
pub(crate) fn list_names(names: &[&str]) -> String {
    let head: Vec<String> = names.iter().take(8).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(8) {
        0 => head.join(", "),
        more => format!("{} and {more} more", head.join(", ")),
    }
}

/// The Levenshtein distance of two words, to suggest the candidates closest to a mistyped one.
pub(crate) fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
