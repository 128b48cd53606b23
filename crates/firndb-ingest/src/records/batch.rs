//! A batch of keys and values.

/// Bits of an origin that hold the line. The others hold the number of the input.
const LINE_BITS: u32 = 40;

/// The origin of a record as one number, for
/// [`TableBuilder::add_from`](firndb::table::TableBuilder::add_from): the number of its input,
/// counted from 0, and its line or row, counted from 1.
pub fn origin(input: usize, line: u64) -> u64 {
    (input as u64) << LINE_BITS | line
}

/// `INPUT:LINE` of an [`origin`], given the names of the inputs.
pub fn origin_name(origin: u64, inputs: &[String]) -> String {
    let (input, line) = (origin >> LINE_BITS, origin & ((1 << LINE_BITS) - 1));
    let name = inputs.get(input as usize).map_or("?", |name| name.as_str());
    format!("{name}:{line}")
}

/// Keys and values of some records, and the rows that cannot be used.
#[derive(Debug, Default)]
pub struct KeyValueBatch {
    bytes: Vec<u8>,
    records: Vec<Entry>,
    bad_rows: Vec<String>,
    /// Rows of the batches before.
    rows_before: u64,
}

#[derive(Debug)]
struct Entry {
    origin: u64,
    key: usize,
    value: usize,
    expires: Option<u64>,
}

/// Bytes and records of a full batch: large enough to make the cost of passing it on negligible,
/// small enough for the L2 cache.
const BATCH_BYTES: usize = 256 << 10;
const BATCH_RECORDS: usize = 16 << 10;

impl KeyValueBatch {
    /// An empty batch after this number of rows.
    pub(crate) fn after(rows: u64) -> KeyValueBatch {
        KeyValueBatch { rows_before: rows, ..KeyValueBatch::default() }
    }

    /// Rows of this batch, good and bad, and of the batches before.
    pub(crate) fn rows(&self) -> u64 {
        self.rows_before + (self.records.len() + self.bad_rows.len()) as u64
    }

    pub(crate) fn push(&mut self, origin: u64, key: &[u8], value: &[u8]) {
        self.push_expiring(origin, key, value, None);
    }

    /// Adds a record that expires at a time in milliseconds since 1970.
    pub(crate) fn push_expiring(
        &mut self,
        origin: u64,
        key: &[u8],
        value: &[u8],
        expires: Option<u64>,
    ) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.records.push(Entry { origin, key: key.len(), value: value.len(), expires });
    }

    pub(crate) fn push_bad(&mut self, reason: String) {
        self.bad_rows.push(reason);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.records.len() + self.bad_rows.len() >= BATCH_RECORDS
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no records. There can be bad rows.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The rows that cannot be used: `INPUT:LINE: REASON`.
    pub fn bad_rows(&self) -> &[String] {
        &self.bad_rows
    }

    /// [`origin`], key and value of each record.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8], &[u8])> {
        self.iter_expiring().map(|(origin, key, value, _)| (origin, key, value))
    }

    /// [`KeyValueBatch::iter`], and when each record expires, in milliseconds since 1970.
    pub fn iter_expiring(&self) -> impl Iterator<Item = (u64, &[u8], &[u8], Option<u64>)> {
        let mut rest = &self.bytes[..];
        self.records.iter().map(move |entry| {
            let (key, after) = rest.split_at(entry.key);
            let (value, after) = after.split_at(entry.value);
            rest = after;
            (entry.origin, key, value, entry.expires)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_returns_what_was_pushed() {
        let mut batch = KeyValueBatch::default();
        batch.push(origin(1, 7), b"a", b"");
        batch.push_expiring(origin(0, 8), b"", b"xyz", Some(9));
        assert_eq!(batch.iter_expiring().map(|r| r.3).collect::<Vec<_>>(), [None, Some(9)]);
        let all: Vec<_> = batch.iter().collect();
        assert_eq!(all, [(1 << 40 | 7, &b"a"[..], &b""[..]), (8, &b""[..], &b"xyz"[..])]);
        assert_eq!(origin_name(all[0].0, &["x".into(), "y".into()]), "y:7");
    }
}
