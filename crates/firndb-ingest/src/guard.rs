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

/// Calls a parser of another crate. A panic is returned as an error.
pub(crate) fn guard<T>(parse: impl FnOnce() -> T) -> Result<T, String> {
    let outer = PARSING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(parse));
    PARSING.set(outer);
    result.map_err(|panic| reason(&*panic))
}

/// The error for a panic.
pub(crate) fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let why = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason");
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("it is damaged, or has a feature that is not supported; its reader gave up: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_errors() {
        assert_eq!(guard(in_parser), Ok(true));
        assert!(!in_parser());
        let error = guard(|| -> () { panic!("a\n  b") }).unwrap_err();
        assert!(error.ends_with("its reader gave up: a b"), "{error}");
        assert!(!in_parser());
    }
}
