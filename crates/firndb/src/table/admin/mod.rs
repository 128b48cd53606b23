//! Verification of tables, and their description for `inspect`.

pub(crate) mod verify;
pub(crate) mod inspect;
