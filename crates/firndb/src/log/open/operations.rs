//! Reading and writing single keys and batches: the methods of [`LogStore`] for them.

use crate::log::expiry::{Entry, Expiry, Lifetime, Versioned};
use crate::log::open::store::LogStore;
use crate::log::options::WriteOptions;
use crate::log::read::get;
use crate::log::read::scan_from::{self, ScanPage};
use crate::log::write::batch::{Batch, write_batch, write_batch_if};
use crate::log::write::put;
use crate::log::write::update::{self, Update};
use crate::{Error, Result};

/// Reading.
impl LogStore {
    /// The value of a key; `None` if it is absent.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// Replaces the contents of a buffer by the value of a key. Returns `false`, and an empty
    /// buffer, if the key is absent.
    pub fn get_into(&self, key: impl AsRef<[u8]>, buffer: &mut Vec<u8>) -> Result<bool> {
        buffer.clear();
        Ok(self.get_with(key, |value| buffer.extend_from_slice(value))?.is_some())
    }

    /// Calls `read` with the value of a key, without copying it; `None` if the key is absent.
    #[inline]
    pub fn get_with<T>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        get::get_with(&self.shared(), key.as_ref(), read)
    }

    /// The values of keys, in order. Faster than one call per key: the cache misses of all keys
    /// overlap.
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        get::get_many(&self.shared(), keys)
    }

    /// Passes the position of each key and its value, without copying it, to `read`, in order;
    /// `None` if the key is absent. As fast as [`LogStore::get_many`]. An error that `read` returns
    /// ends the call.
    ///
    /// ```
    /// # use firndb::log::LogStore;
    /// /// The total length of the values of these keys.
    /// fn total(store: &LogStore, keys: &[String]) -> firndb::Result<usize> {
    ///     let mut total = 0;
    ///     store.read_many(keys, |_position, value| {
    ///         total += value.map_or(0, <[u8]>::len);
    ///         Ok::<(), firndb::Error>(()) // or an error of your own: `From<firndb::Error>`
    ///     })?;
    ///     Ok(total)
    /// }
    /// ```
    pub fn read_many<E: From<Error>>(
        &self,
        keys: &[impl AsRef<[u8]>],
        read: impl FnMut(usize, Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        get::read_many(&self.shared(), keys, read)
    }

    /// Whether the key has a value.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// Length of the value of a key in bytes; `None` if the key is absent.
    pub fn value_len(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        self.get_with(key, |value| value.len() as u64)
    }

    /// When the record of a key expires; `None` if the key is absent, which includes a key whose
    /// record has expired.
    ///
    /// If the clock is set back, records live longer, and one that had expired may be shown again;
    /// if it is set forward, records expire early. Neither ever shows an older value of a key than
    /// the newest one.
    pub fn expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<Expiry>> {
        self.get_entry_with(key, |entry| entry.expiry)
    }

    /// Calls `read` with the record of a key: value, expiry and version, as one write made them;
    /// `None` if the key is absent.
    pub fn get_entry_with<T>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(Entry<'_>) -> T,
    ) -> Result<Option<T>> {
        get::get_entry_with(&self.shared(), key.as_ref(), read)
    }

    /// The value of a key with its version and its expiry; `None` if the key is absent.
    ///
    /// A version identifies one write: every write of the key changes it, also one that leaves the
    /// value as it is. It stays the same when the store is compacted, closed and opened again,
    /// backed up and restored, and it serves as an entity tag, or to notice a change:
    /// [`LogStore::write_if`] writes only if versions are as expected. A repaired store has new
    /// versions. They are no numbers to be compared for order.
    ///
    /// Two writes of a key have the same version with a probability of 2^-64. If power loss or a
    /// restore took a write back, a later one at its place in the log has its version if all bytes
    /// are equal, otherwise with a probability of 2^-32.
    pub fn get_versioned(&self, key: impl AsRef<[u8]>) -> Result<Option<Versioned>> {
        self.get_entry_with(key, |Entry { value, version, expiry, .. }| Versioned {
            value: value.to_vec(),
            version,
            expiry,
        })
    }

    /// The version of a key's record: see [`LogStore::get_versioned`]. `None` if the key is absent.
    pub fn version(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        self.get_entry_with(key, |entry| entry.version)
    }

    /// A page of keys and values, for a scan that keeps no state in the store: the cursor 0 begins
    /// a scan, [`ScanPage::next`] continues it. Keys come in the order of their hashes.
    ///
    /// ```
    /// # use firndb::log::LogStore;
    /// # fn scan(store: &LogStore) -> firndb::Result<()> {
    /// let mut cursor = Some(0);
    /// while let Some(at) = cursor {
    ///     let page = store.scan_from(at, 100)?;
    ///     for (key, value) in &page.records {
    ///         println!("{} bytes, {} bytes", key.len(), value.len());
    ///     }
    ///     cursor = page.next;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A scan returns each key that exists during the whole scan, and that once; a key that is
    /// written or deleted meanwhile may be returned or not. Each page shows the values of its time.
    /// A cursor stays valid when the store is compacted, closed and opened again, backed up and
    /// restored; not in a repaired store, which is a new one.
    ///
    /// A page has about `limit` keys. It may have more, because a cursor cannot stand between keys
    /// whose hashes differ in the last bit only; or fewer, even none, because expired keys count.
    /// 0 counts as 1. A page has at most about 65,536 keys, and ends after 16 MiB.
    ///
    /// Takes about as long as a get per key of the page, and in a small store up to a millisecond
    /// in addition. Takes no lock. Errors: `InvalidArgument` if the cursor is not below 2^63,
    /// `Corrupt` if a record is damaged, `Io`.
    pub fn scan_from(&self, cursor: u64, limit: usize) -> Result<ScanPage> {
        let mut page = ScanPage::default();
        page.next = self.scan_from_with(cursor, limit, |entry| {
            page.records.push((entry.key.to_vec(), entry.value.to_vec()));
        })?;
        Ok(page)
    }

    /// [`LogStore::scan_from`] that calls `read` with each record of the page, without copying it.
    /// Returns the cursor of the next page.
    pub fn scan_from_with(
        &self,
        cursor: u64,
        limit: usize,
        read: impl FnMut(Entry<'_>),
    ) -> Result<Option<u64>> {
        scan_from::scan_from(&self.shared(), cursor, limit, read)
    }
}

/// Writing.
impl LogStore {
    /// Sets the value of a key. The record does not expire, even if the key's old record did.
    ///
    /// Returns once the record survives a process crash; with
    /// [`Durability::Sync`](crate::log::Durability::Sync), once it survives power loss. A key has
    /// at most 65,536 bytes, a value at most 4 GiB - 1. An error of kind `Io` for lack of
    /// space leaves the store unchanged and open for writing.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::new())
    }

    /// [`LogStore::put`] with its own durability or expiry.
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        put::put(&self.shared(), key.as_ref(), value.as_ref(), options)
    }

    /// Removes a key. Returns `false` if it is absent. Then nothing is written, except for a key
    /// whose record has expired: it is removed for good, so that a clock that is set back does not
    /// show it again.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.delete_with(key, WriteOptions::new())
    }

    /// [`LogStore::delete`] with its own durability.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<bool> {
        put::delete(&self.shared(), key.as_ref(), options)
    }

    /// Applies all changes of a batch, or none; also after a crash, and in snapshots. A key that is
    /// in the batch twice gets the later change.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.write_with(batch, WriteOptions::new())
    }

    /// [`LogStore::write`] with its own durability, or an expiry for the puts that do not set one.
    /// All times to live count from the same moment.
    pub fn write_with(&self, batch: &Batch, options: WriteOptions) -> Result<()> {
        write_batch(&self.shared(), batch, options)
    }

    /// [`LogStore::write`] if each of these keys has this version, atomically; `None` means a key
    /// that is absent or has expired. Returns whether it wrote; otherwise nothing changed.
    ///
    /// The conditions may name other keys than the batch, and any number of them. With an empty
    /// batch, says whether all conditions hold at one moment.
    ///
    /// ```
    /// use firndb::log::{Batch, LogStore, Versioned};
    ///
    /// /// Moves an amount between two accounts; starts again if one was changed meanwhile.
    /// fn transfer(store: &LogStore, from: &str, to: &str, amount: u64) -> firndb::Result<()> {
    ///     loop {
    ///         let [a, b] = [from, to].map(|key| store.get_versioned(key));
    ///         let (a, b) = (a?, b?);
    ///         let version = |found: &Option<Versioned>| Some(found.as_ref()?.version);
    ///         let balance = |found: &Option<Versioned>| {
    ///             let value = found.as_ref().map(|found| &found.value[..]);
    ///             value.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()))
    ///         };
    ///         let [left, more] = [balance(&a) - amount, balance(&b) + amount];
    ///         let batch = Batch::new().put(from, left.to_le_bytes()).put(to, more.to_le_bytes());
    ///         if store.write_if(&[(from, version(&a)), (to, version(&b))], &batch)? {
    ///             return Ok(());
    ///         }
    ///     }
    /// }
    /// # let dir = std::env::temp_dir().join(format!("firndb-write-if-{}", std::process::id()));
    /// # let store = LogStore::open(&dir)?;
    /// # store.put("a", 5u64.to_le_bytes())?;
    /// # transfer(&store, "a", "b", 2)?;
    /// # assert_eq!(store.get("b")?.unwrap(), 2u64.to_le_bytes());
    /// # drop(store);
    /// # std::fs::remove_dir_all(&dir).ok();
    /// # Ok::<(), firndb::Error>(())
    /// ```
    ///
    /// A key that was created and removed again since it was found absent is absent: the condition
    /// holds. Takes one look at each key's record in addition to the write, under the writer's
    /// lock; values are not compared. Errors: those of [`LogStore::write`], and `Corrupt` or `Io`
    /// if a record cannot be read.
    pub fn write_if(
        &self,
        conditions: &[(impl AsRef<[u8]>, Option<u64>)],
        batch: &Batch,
    ) -> Result<bool> {
        self.write_if_with(conditions, batch, WriteOptions::new())
    }

    /// [`LogStore::write_if`] with its own durability, or an expiry for the puts that do not set
    /// one.
    pub fn write_if_with(
        &self,
        conditions: &[(impl AsRef<[u8]>, Option<u64>)],
        batch: &Batch,
        options: WriteOptions,
    ) -> Result<bool> {
        write_batch_if(&self.shared(), conditions, batch, options)
    }

    /// Replaces the value of a key by the result of `change`, atomically; `None` means an absent
    /// key, both as argument and as result. Returns the new value. The record keeps its expiry. If
    /// the key was absent or its record had expired, the new record does not expire.
    ///
    /// `change` is called again if another write changes the key meanwhile.
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        match self.update_with(key, WriteOptions::new(), |old| change(old).into())? {
            Update::Put(value) => Ok(Some(value)),
            Update::Keep | Update::Delete => Ok(None),
        }
    }

    /// [`LogStore::update`] with its own durability or expiry, and with a `change` that may also
    /// leave the key as it is. Returns what `change` returned when it took effect.
    ///
    /// ```
    /// # use firndb::log::{LogStore, Update, WriteOptions};
    /// # fn counted(store: &LogStore) -> firndb::Result<()> {
    /// // Increments a counter that exists.
    /// let updated = store.update_with("counter", WriteOptions::sync(), |old| match old {
    ///     Some([n]) if *n < 255 => Update::Put(vec![n + 1]),
    ///     _ => Update::Keep,
    /// })?;
    /// # assert_eq!(updated, Update::Keep);
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_with(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
        change: impl FnMut(Option<&[u8]>) -> Update,
    ) -> Result<Update> {
        update::update(&self.shared(), key.as_ref(), options, change)
    }

    /// Sets the value of a key if it is `expected` now (`None`: absent). Returns whether it did.
    /// `new` is `None` to remove the key. The record keeps its expiry.
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.compare_and_set_with(key, expected, new, WriteOptions::new())
    }

    /// [`LogStore::compare_and_set`] with its own durability or expiry.
    pub fn compare_and_set_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: WriteOptions,
    ) -> Result<bool> {
        let change = |old: Option<&[u8]>| match old == expected {
            true => Update::from(new.map(<[u8]>::to_vec)),
            false => Update::Keep,
        };
        Ok(self.update_with(key, options, change)? != Update::Keep)
    }

    /// Sets the value of a key if it is absent. Returns whether it did. The record does not expire.
    pub fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.compare_and_set(key, None, Some(value.as_ref()))
    }

    /// Appends bytes to the value of a key, which is empty if the key is absent. Returns the new
    /// length. The whole value is written again. The record keeps its expiry.
    pub fn append(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<u64> {
        self.append_with(key, bytes, WriteOptions::new())
    }

    /// [`LogStore::append`] with its own durability or expiry.
    pub fn append_with(
        &self,
        key: impl AsRef<[u8]>,
        bytes: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<u64> {
        let bytes = bytes.as_ref();
        let longer = |old: Option<&[u8]>| Update::Put([old.unwrap_or_default(), bytes].concat());
        match self.update_with(key, options, longer)? {
            Update::Put(value) => Ok(value.len() as u64),
            Update::Keep | Update::Delete => Ok(0),
        }
    }

    /// Changes when the record of a key expires, atomically, and leaves its value as it is.
    /// [`Expiry::Never`] removes the expiry; a time that has passed makes the key absent at once.
    /// Returns `false` if the key is absent; then nothing is written.
    ///
    /// The record is written again, with its value. Errors are those of [`LogStore::put`].
    pub fn set_expiry(&self, key: impl AsRef<[u8]>, expiry: Expiry) -> Result<bool> {
        self.set_expiry_with(key, WriteOptions::new().expiry(expiry))
    }

    /// [`LogStore::set_expiry`] to the time to live or the expiry of `options`, with its own
    /// durability. If the options set no expiry, nothing is written.
    pub fn set_expiry_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<bool> {
        if options.lifetime() == Lifetime::Unspecified {
            return self.contains(key);
        }
        let same = |old: Option<&[u8]>| match old {
            Some(value) => Update::Put(value.to_vec()),
            None => Update::Keep,
        };
        Ok(self.update_with(key, options, same)? != Update::Keep)
    }
}
