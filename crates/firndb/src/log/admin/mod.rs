//! Looking after a store: backup and restore, verify, repair, inspect.

pub(crate) mod backup;
pub(crate) mod verify;
pub(crate) mod verify_order;
pub(crate) mod repair;
pub(crate) mod inspect;
pub(crate) mod operations;
