//! The result of verifying files, common to all stores.

/// What a verification has checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Files that are intact.
    pub files: u64,
    /// Bytes of these files, all of which were checked.
    pub bytes: u64,
}
