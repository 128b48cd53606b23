//! The largest value.

use crate::ErrorKind;
use crate::log::{LogStore, MAX_VALUE, Options};
use std::fs;

#[test]
#[ignore = "takes 12 GiB of memory and 4 GiB of disk"]
fn the_largest_value_round_trips() {
    let dir = std::env::temp_dir().join(format!("firndb-log-large-{}", std::process::id()));
    let store = LogStore::open_with(&dir, Options::default()).unwrap();
    let mut value = vec![7; MAX_VALUE];
    let last = value.len() - 1;
    (value[0], value[last]) = (1, 2);
    store.put(b"small", b"before").unwrap();
    store.put(b"large", &value).unwrap();
    store.put(b"small", b"after").unwrap();
    value.push(0);
    assert_eq!(store.put(b"large", &value).unwrap_err().kind(), ErrorKind::InvalidArgument);
    value.pop();
    let is_right = |store: &LogStore| {
        assert_eq!(store.get_with(b"large", |found| found == value).unwrap(), Some(true));
        assert_eq!(store.get(b"small").unwrap().unwrap(), b"after");
    };
    is_right(&store);
    store.close().unwrap();
    let store = LogStore::open_with(&dir, Options::default()).unwrap();
    is_right(&store);
    store.verify().unwrap();
    assert_eq!(store.len(), 2);
    drop(store);
    fs::remove_dir_all(&dir).unwrap();
}
