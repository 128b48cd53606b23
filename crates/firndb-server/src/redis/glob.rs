//! Patterns for names of keys: `*`, `?`, `[a-z]`, `[^a-z]` and `\` before a character.

/// Whether a text matches a pattern. Takes at most the product of their lengths in steps.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut rest, mut at) = (pattern, 0);
    // Where to continue if the rest does not match: after the last star, one byte further.
    let mut retry: Option<(&[u8], usize)> = None;
    loop {
        if let [b'*', after @ ..] = rest {
            retry = Some((after, at));
            rest = after;
            continue;
        }
        let matched = match text.get(at) {
            Some(c) => match_one(rest, *c),
            None if rest.is_empty() => return true,
            None => None,
        };
        match (matched, retry) {
            (Some(after), _) => {
                rest = after;
                at += 1;
            }
            (None, Some((after, from))) if from < text.len() => {
                retry = Some((after, from + 1));
                rest = after;
                at = from + 1;
            }
            _ => return false,
        }
    }
}

/// What follows the first element of a pattern, if that matches a byte.
fn match_one(pattern: &[u8], c: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', class @ ..] => match_class(class, c),
        [b'\\', escaped, rest @ ..] => (*escaped == c).then_some(rest),
        [first, rest @ ..] => (*first == c).then_some(rest),
    }
}

/// What follows a class, if it contains a byte. A class that is not closed ends with the pattern.
fn match_class(class: &[u8], c: u8) -> Option<&[u8]> {
    let (is_negated, mut rest) = match class {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let mut is_in = false;
    loop {
        rest = match rest {
            [] => break,
            [b']', after @ ..] => {
                rest = after;
                break;
            }
            [b'\\', escaped, after @ ..] => {
                is_in |= *escaped == c;
                after
            }
            [a, b'-', b, after @ ..] => {
                is_in |= (*a.min(b)..=*a.max(b)).contains(&c);
                after
            }
            [one, after @ ..] => {
                is_in |= *one == c;
                after
            }
        }
    }
    (is_in != is_negated).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        let yes = [
            ("", ""),
            ("*", ""),
            ("*", "abc"),
            ("a*c", "abbc"),
            ("a*b*c", "aXbYbZc"),
            ("?", "x"),
            ("h?llo", "hallo"),
            ("h[ae]llo", "hello"),
            ("h[^e]llo", "hallo"),
            ("[a-c]", "b"),
            ("[c-a]", "b"),
            ("\\*", "*"),
            ("a\\?", "a?"),
            ("[\\]]", "]"),
            ("[a", "a"),
            ("**", "x"),
            ("*a", "aaa"),
            ("a\\", "a\\"),
            ("[^", "x"),
            ("[a-]", "^"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        let no = [
            ("", "a"),
            ("a", ""),
            ("?", ""),
            ("a*c", "abb"),
            ("h[^e]llo", "hello"),
            ("[a-c]", "d"),
            ("\\*", "x"),
            ("[]", "x"),
            ("abc", "abcd"),
            ("abcd", "abc"),
            ("[a]", ""),
        ];
        for (pattern, text) in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "a*".repeat(100) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(10_000).as_bytes()));
    }
}
