//! Panics of parsers of other crates as errors.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static PARSING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the current thread is in a parser of another crate. A panic there becomes the error of
/// the input, so a panic hook can stay silent.
pub fn in_parser() -> bool {
    PARSING.get()
}

/// Calls a parser of another crate. The error is the message of a panic.
pub(crate) fn guard<T>(parse: impl FnOnce() -> T) -> Result<T, String> {
    let outer = PARSING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(parse));
    PARSING.set(outer);
    result.map_err(|panic| message(&*panic))
}

/// The message of a panic, on one line.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_errors() {
        assert_eq!(guard(in_parser), Ok(true));
        assert!(!in_parser());
        let error = guard(|| -> () { panic!("a\n  b") }).unwrap_err();
        assert_eq!(error, "a b");
        assert!(!in_parser());
    }
}
