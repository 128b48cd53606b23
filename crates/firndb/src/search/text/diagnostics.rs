//! Helpers for error messages: suggestions for misspelled words, and carets that mark the position
//! of an error.

use crate::Error;
use crate::search::model::names::edit_distance;

/// The maximum number of characters that [`point_at`] shows of the marked text, before it, and
/// after it.
const WINDOW: usize = 60;

/// The word of which `typed` is probably a misspelling, if any.
pub(crate) fn suggest<'a>(typed: &str, words: &[&'a str]) -> Option<&'a str> {
    if typed.len() > 20 {
        return None;
    }
    let typed = typed.to_ascii_lowercase();
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let distance = |word: &str| match edit_distance(&typed, word) {
        2 if sorted(&typed) == sorted(word) => 1, // two letters swapped
        distance => distance,
    };
    let best = words.iter().min_by_key(|word| distance(word))?;
    (distance(best) <= 1.max(best.len() / 3)).then_some(best)
}

/// Formats a parse error for a terminal: the line of `text` with the error, a line with carets
/// under the error's span, and the message.
///
/// `text` must be the text whose parsing returned `error`. Long lines are shortened to the
/// surroundings of the span. For an error without a span, the result is the message alone.
pub fn point_at(text: &str, error: &Error) -> String {
    let Some((start, end)) = error.span() else {
        return error.to_string();
    };
    let start = text.floor_char_boundary(start);
    let end = text.ceil_char_boundary(end).max(start);
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
    let (before, under, after) = (
        &text[line_start..start],
        &text[start..end.min(line_end)],
        &text[end.min(line_end)..line_end],
    );
    let cut = before.char_indices().rev().nth(WINDOW - 1).map_or(0, |(at, _)| at);
    let before = format!("{}{}", if cut > 0 { "..." } else { "" }, &before[cut..]);
    let (under, after) = match split_window(under) {
        (under, "") => (under.to_string(), after),
        (under, _) => (format!("{under}..."), ""),
    };
    let (after, dots) = match split_window(after) {
        (after, "") => (after, ""),
        (after, _) => (after, "..."),
    };
    let pad: String = before.chars().map(|c| if c == '\t' { c } else { ' ' }).collect();
    let carets = "^".repeat(under.chars().count().max(1));
    format!("{before}{under}{after}{dots}\n{pad}{carets}\n{error}")
}

/// The first [`WINDOW`] characters of a text, and the rest.
fn split_window(text: &str) -> (&str, &str) {
    text.split_at(text.char_indices().nth(WINDOW).map_or(text.len(), |(at, _)| at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likely_misspellings_are_corrected() {
        let words = ["and", "or", "between", "limit"];
        for (typed, meant) in [("adn", "and"), ("ADN", "and"), ("ro", "or"), ("betwean", "between")]
        {
            assert_eq!(suggest(typed, &words), Some(meant), "{typed}");
        }
        for typed in ["", "x", "price", "bet", &"limit".repeat(1000)] {
            assert_eq!(suggest(typed, &words), None, "{typed}");
        }
    }

    #[test]
    fn carets_mark_the_span() {
        let error = |start, end| Error::invalid("no").with_span(start, end);
        assert_eq!(point_at("a adn b", &error(2, 5)), "a adn b\n  ^^^\nno");
        assert_eq!(point_at("a and", &error(5, 5)), "a and\n     ^\nno");
        assert_eq!(
            point_at("\u{e9} =\n\t\u{e9}\u{e9} x\nz", &error(6, 10)),
            "\t\u{e9}\u{e9} x\n\t^^\nno"
        );
        assert_eq!(point_at("'a\nb", &error(0, 4)), "'a\n^^\nno");
        assert_eq!(point_at("", &error(0, 0)), "\n^\nno");
        assert_eq!(point_at("abc", &error(70, 90)), "abc\n   ^\nno");
        assert_eq!(point_at("abc", &Error::invalid("no")), "no");
    }

    #[test]
    fn long_lines_are_shortened() {
        let text = format!("{} bad {}", "a".repeat(1000), "b".repeat(1000));
        let shown = point_at(&text, &Error::invalid("no").with_span(1001, 1004));
        let line = format!("...{} bad {}...", "a".repeat(59), "b".repeat(59));
        assert_eq!(shown, format!("{line}\n{}^^^\nno", " ".repeat(63)));
        let shown = point_at(&text, &Error::invalid("no").with_span(0, 1000));
        assert_eq!(shown, format!("{0}...\n{1}\nno", "a".repeat(60), "^".repeat(63)));
    }
}
