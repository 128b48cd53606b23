//! Verification and inspection.

pub(crate) mod verify;
pub(crate) mod inspect;
