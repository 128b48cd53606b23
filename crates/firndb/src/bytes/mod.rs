//! Pure functions over bytes that several stores use: no files, no unsafe code.
