//! Keys of several columns.

/// Separates the values in a key of several columns: U+001F, the unit separator of ASCII.
pub const KEY_SEPARATOR: u8 = 0x1f;

/// Writes the key of a row: one part per column. `write` appends the part of a column by its
/// number. The error is the number of the column and the reason.
pub(crate) fn write_key(
    columns: usize,
    key: &mut Vec<u8>,
    mut write: impl FnMut(usize, &mut Vec<u8>) -> Result<(), String>,
) -> Result<(), (usize, String)> {
    key.clear();
    for column in 0..columns {
        if column > 0 {
            key.push(KEY_SEPARATOR);
        }
        let start = key.len();
        write(column, key).map_err(|reason| (column, reason))?;
        // Otherwise two rows with different values could have the same key.
        if columns > 1 && key[start..].contains(&KEY_SEPARATOR) {
            let reason = "the value holds the character U+001F, which separates the columns of a \
                          key";
            return Err((column, reason.to_string()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[&str]) -> Result<Vec<u8>, (usize, String)> {
        let mut key = b"before".to_vec();
        let written = write_key(parts.len(), &mut key, |column, key| {
            key.extend_from_slice(parts[column].as_bytes());
            Ok(())
        });
        written.map(|()| key)
    }

    #[test]
    fn different_values_have_different_keys() {
        assert_eq!(of(&["a\u{1f}b"]).unwrap(), b"a\x1fb");
        assert_eq!(of(&["a", "b", ""]).unwrap(), b"a\x1fb\x1f");
        assert_eq!(of(&["a", "b\u{1f}"]).unwrap_err().0, 1);
    }
}
