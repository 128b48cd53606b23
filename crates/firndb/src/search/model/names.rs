//! Names of fields: which need quotes in a query, and how error messages show them.

pub(crate) const KEYWORDS: [&str; 22] = [
    "after", "all", "and", "asc", "between", "by", "desc", "exists", "false", "in", "is", "like",
    "limit", "not", "null", "offset", "or", "order", "prefix", "skip", "true", "where",
];

/// The word is reserved: a field of this name is written in double quotes.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

/// A name may stand without quotes: `starts_word` holds for its first character, this for all.
pub(crate) fn continues_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

pub(crate) fn starts_word(c: char) -> bool {
    continues_word(c) && !c.is_ascii_digit() && c != '.'
}

/// At most 40 characters of a piece of the query, for messages.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// Up to eight names in backquotes, and how many more there are.
pub(crate) fn list_names(names: &[&str]) -> String {
    let head: Vec<String> = names.iter().take(8).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(8) {
        0 => head.join(", "),
        more => format!("{} and {more} more", head.join(", ")),
    }
}

/// Levenshtein distance, for naming the candidates closest to a mistyped word first.
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
