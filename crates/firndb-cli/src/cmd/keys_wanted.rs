//! Which keys a scan prints: `--prefix`, `--from`, `--to` and `--reverse`.

use crate::failure::Result;
use crate::output::from_hex;
use firndb::KeyRange;
use std::ffi::OsString;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;

/// The keys that a scan prints.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct KeysWanted {
    /// Only keys that begin with this text (with --hex: hexadecimal digits).
    #[arg(long, value_name = "TEXT")]
    prefix: Option<OsString>,
    /// First key (with --hex: hexadecimal digits). Only for ordered stores and tables.
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Print only keys before this one (with --hex: hexadecimal digits). Only for ordered stores
    /// and tables.
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Print the last key first. Only for ordered stores and tables.
    #[arg(long)]
    pub reverse: bool,
}

impl KeysWanted {
    /// Whether no option limits or orders the keys.
    pub fn is_all(&self) -> bool {
        self.prefix.is_none() && self.from.is_none() && self.to.is_none() && !self.reverse
    }

    /// The range of the keys, whose bounds are hexadecimal digits if `hex` is set.
    pub fn range(&self, hex: bool) -> Result<KeyRange> {
        let bytes = |text: &Option<OsString>| {
            text.as_ref()
                .map(|text| match hex {
                    true => from_hex(&text.to_string_lossy()),
                    false => Ok(text.as_bytes().to_vec()),
                })
                .transpose()
        };
        let prefix = bytes(&self.prefix)?.map_or(KeyRange::from(..), KeyRange::prefix);
        let from = bytes(&self.from)?.map_or(Bound::Unbounded, Bound::Included);
        let to = bytes(&self.to)?.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(prefix.and(&KeyRange::new(from, to)))
    }

    /// Whether an option needs a store whose keys are in order.
    pub fn needs_order(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.reverse
    }
}
