package io.firndb;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Objects;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;

/**
 * A mutable key-value store in a directory. Any number of threads may read and write at the same
 * time. One process has it open for writing; others may have it open for reading.
 *
 * <p>Keys have at most 65,536 bytes. Values have at most 2 GiB in Java. Both may be empty. An
 * absent key is {@code null}. A store that is created as an ordered one
 * ({@link LogOptions#ordered}) also reads keys in their byte order: {@link #range},
 * {@link #prefix}.
 *
 * <pre>{@code
 * try (LogStore store = LogStore.open(Path.of("users"))) {
 *     store.put(key, value);
 *     byte[] found = store.get(key);
 *     store.write(new Batch().put(a, one).delete(b), WriteOptions.sync());
 *     store.update(counter, old -> increment(old));
 * }
 * }</pre>
 *
 * <p>A buffer that is passed as a key or value means the bytes from its position to its limit, and
 * is not changed. All methods throw {@link IllegalStateException} if the store is closed,
 * {@link CorruptException} if a record or file is damaged, and {@link FirnIOException} if the
 * operating system reports a failure. Methods that write throw {@link IllegalArgumentException} if
 * the store is open for reading only, and {@link FailedException} after a failed sync, until the
 * store is opened again.
 */
public final class LogStore extends KeyValueReader {
    private final Path path;

    private LogStore(Native handle, Path path) {
        super(handle);
        this.path = path;
    }

    @Override
    byte[] getNative(byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength) {
        return handle.logGet(handle.id, key, keyBuffer, keyOffset, keyLength);
    }

    @Override
    int getNative(
            byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] to,
            ByteBuffer toBuffer, int toOffset, int toLength) {
        return handle.logGetInto(
                handle.id, key, keyBuffer, keyOffset, keyLength, to, toBuffer, toOffset, toLength);
    }

    @Override
    boolean containsNative(byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength) {
        return handle.logContains(handle.id, key, keyBuffer, keyOffset, keyLength);
    }

    @Override
    byte[] getManyNative(
            byte[] keys, int keysLength, int[] ends, int from, int count, int[] lengths) {
        return handle.logGetMany(handle.id, keys, keysLength, ends, from, count, lengths);
    }

    /**
     * Opens a store for reading and writing, or creates one.
     *
     * @param path its directory
     * @return the store
     * @throws LockedException if it is open for writing already, in this or another process
     */
    public static LogStore open(Path path) {
        return open(path, LogOptions.defaults());
    }

    /**
     * Opens a store.
     *
     * @param path its directory
     * @param options how to open it
     * @return the store
     * @throws LockedException if it is open for writing already, in this or another process
     * @throws NotFoundException if there is no store and the options forbid creating one
     * @throws IllegalArgumentException if an option is out of range
     */
    public static LogStore open(Path path, LogOptions options) {
        NativeLibrary.load();
        Native.closeLeaks();
        Path absolute = path.toAbsolutePath();
        return new LogStore(new Native(Native.Kind.LOG, options.open(absolute)), absolute);
    }

    /**
     * Opens a store for reading only; another process may write to it.
     *
     * @param path its directory
     * @return the store as it is now; {@link #refresh} shows later changes
     * @throws NotFoundException if there is no store
     */
    public static LogStore openReadOnly(Path path) {
        return open(path, LogOptions.defaults().readOnly(true));
    }

    /**
     * The directory of the store.
     *
     * @return its absolute path
     */
    public Path path() {
        return path;
    }

    /**
     * Gets a value with its version and its expiry.
     *
     * @param key the key
     * @return the value, or {@code null} if the key is absent
     */
    public Versioned getVersioned(byte[] key) {
        long[] details = new long[2];
        byte[] value = handle.logGetVersioned(handle.id, key, null, 0, key.length, details);
        return value == null
                ? null
                : new Versioned(value, details[0], Buffers.instant(details[1]));
    }

    /**
     * The length of a value.
     *
     * @param key the key
     * @return the length in bytes, or -1 if the key is absent
     */
    public long valueLength(byte[] key) {
        return handle.logValueLength(handle.id, key, null, 0, key.length);
    }

    /**
     * When the record of a key expires.
     *
     * @param key the key
     * @return the time, {@link Instant#MAX} if it does not expire, or {@code null} if the key is
     *     absent
     */
    public Instant expiry(byte[] key) {
        return Buffers.instant(handle.logExpiry(handle.id, key, null, 0, key.length));
    }

    /**
     * Sets the value of a key. The record does not expire. Returns when the record survives a crash
     * of the process; with {@link Durability#SYNC}, when it survives power loss.
     *
     * @param key the key
     * @param value the value
     */
    public void put(byte[] key, byte[] value) {
        put(key, value, WriteOptions.defaults());
    }

    /**
     * Sets the value of a key.
     *
     * @param key the key
     * @param value the value
     * @param options durability and expiry
     */
    public void put(byte[] key, byte[] value, WriteOptions options) {
        handle.logPut(
                handle.id, key, null, 0, key.length, value, null, 0, value.length,
                options.durability, options.lifetime, options.time);
    }

    /**
     * Puts a record that expires.
     *
     * @param key the key
     * @param value the value
     * @param ttl the time to live
     */
    public void put(byte[] key, byte[] value, Duration ttl) {
        put(key, value, WriteOptions.defaults().ttl(ttl));
    }

    /**
     * Sets the value of a key.
     *
     * @param key the key
     * @param value the value
     */
    public void put(ByteBuffer key, ByteBuffer value) {
        put(key, value, WriteOptions.defaults());
    }

    /**
     * Sets the value of a key.
     *
     * @param key the key
     * @param value the value
     * @param options durability and expiry
     */
    public void put(ByteBuffer key, ByteBuffer value, WriteOptions options) {
        ByteBuffer k = Buffers.reachable(key);
        ByteBuffer v = Buffers.reachable(value);
        int keyAt = k.position();
        int valueAt = v.position();
        handle.logPut(
                handle.id, Buffers.array(k), Buffers.direct(k), Buffers.offset(k, keyAt),
                Buffers.length(k, keyAt), Buffers.array(v), Buffers.direct(v),
                Buffers.offset(v, valueAt), Buffers.length(v, valueAt), options.durability,
                options.lifetime, options.time);
    }

    /**
     * Deletes a key.
     *
     * @param key the key
     * @return whether it had a value
     */
    public boolean delete(byte[] key) {
        return delete(key, WriteOptions.defaults());
    }

    /**
     * Deletes a key.
     *
     * @param key the key
     * @param options the durability
     * @return whether it had a value
     */
    public boolean delete(byte[] key, WriteOptions options) {
        return handle.logDelete(
                handle.id, key, null, 0, key.length, options.durability, options.lifetime,
                options.time);
    }

    /**
     * Deletes a key.
     *
     * @param key the key
     * @param options the durability
     * @return whether it had a value
     */
    public boolean delete(ByteBuffer key, WriteOptions options) {
        ByteBuffer k = Buffers.reachable(key);
        int at = k.position();
        return handle.logDelete(
                handle.id, Buffers.array(k), Buffers.direct(k), Buffers.offset(k, at),
                Buffers.length(k, at), options.durability, options.lifetime, options.time);
    }

    /**
     * Applies all changes of a batch or none, also after a crash.
     *
     * @param batch the changes
     */
    public void write(Batch batch) {
        write(batch, WriteOptions.defaults());
    }

    /**
     * Applies all changes of a batch or none, also after a crash.
     *
     * @param batch the changes
     * @param options the durability, and the expiry of puts that set none
     */
    public void write(Batch batch, WriteOptions options) {
        handle.logWrite(
                handle.id, batch.changes.bytes, batch.changes.length, null, 0,
                options.durability, options.lifetime, options.time);
    }

    /**
     * Writes a batch if all conditions hold, atomically.
     *
     * @param conditions versions of keys, also of keys that the batch does not change
     * @param batch the changes
     * @return whether it was written
     */
    public boolean writeIf(Conditions conditions, Batch batch) {
        return writeIf(conditions, batch, WriteOptions.defaults());
    }

    /**
     * Writes a batch if all conditions hold, atomically.
     *
     * @param conditions versions of keys, also of keys that the batch does not change
     * @param batch the changes
     * @param options the durability, and the expiry of puts that set none
     * @return whether it was written
     */
    public boolean writeIf(Conditions conditions, Batch batch, WriteOptions options) {
        return handle.logWrite(
                handle.id, batch.changes.bytes, batch.changes.length, conditions.packed.bytes,
                conditions.packed.length, options.durability, options.lifetime, options.time);
    }

    /**
     * Replaces a value by the result of a function, atomically. The record keeps its expiry.
     *
     * @param key the key
     * @param change gets the value, or {@code null} if the key is absent, and returns the new one,
     *     or {@code null} to delete the key. It is called again if another thread has changed the
     *     key since. No lock is held during the call, so it may use the store.
     * @return the new value
     */
    public byte[] update(byte[] key, UnaryOperator<byte[]> change) {
        return update(key, change, WriteOptions.defaults());
    }

    /**
     * Replaces a value by the result of a function, atomically.
     *
     * @param key the key
     * @param change as in {@link #update(byte[], UnaryOperator)}
     * @param options the durability; and an expiry, otherwise the record keeps its own
     * @return the new value
     */
    public byte[] update(byte[] key, UnaryOperator<byte[]> change, WriteOptions options) {
        Objects.requireNonNull(change, "change");
        while (true) {
            Versioned old = getVersioned(key);
            byte[] value = change.apply(old == null ? null : old.value());
            if (old == null && value == null) {
                return null;
            }
            Conditions unchanged = new Conditions();
            Batch batch = new Batch();
            if (old == null) {
                unchanged.absent(key);
            } else {
                unchanged.version(key, old.version());
            }
            if (value == null) {
                batch.delete(key);
            } else if (old == null || options.setsLifetime()) {
                batch.put(key, value);
            } else {
                batch.put(key, value, old.expiry());
            }
            if (writeIf(unchanged, batch, options)) {
                return value;
            }
        }
    }

    /**
     * Sets a value if it is as expected. The record keeps its expiry.
     *
     * @param key the key
     * @param expected the expected value; {@code null} for an absent key
     * @param value the new value; {@code null} to delete the key
     * @return whether it was set
     */
    public boolean compareAndSet(byte[] key, byte[] expected, byte[] value) {
        return compareAndSet(key, expected, value, WriteOptions.defaults());
    }

    /**
     * Sets a value if it is as expected.
     *
     * @param key the key
     * @param expected the expected value; {@code null} for an absent key
     * @param value the new value; {@code null} to delete the key
     * @param options the durability; and an expiry, otherwise the record keeps its own
     * @return whether it was set
     */
    public boolean compareAndSet(
            byte[] key, byte[] expected, byte[] value, WriteOptions options) {
        return handle.logCompareAndSet(
                handle.id, key, null, 0, key.length, expected, value, options.durability,
                options.lifetime, options.time);
    }

    /**
     * Sets a value if the key is absent.
     *
     * @param key the key
     * @param value the value
     * @return whether it was set
     */
    public boolean putIfAbsent(byte[] key, byte[] value) {
        return compareAndSet(key, null, Objects.requireNonNull(value, "value"));
    }

    /**
     * Appends bytes to a value, which is empty if the key is absent. The whole value is written
     * again. The record keeps its expiry.
     *
     * @param key the key
     * @param bytes the bytes
     * @return the new length
     */
    public long append(byte[] key, byte[] bytes) {
        return append(key, bytes, WriteOptions.defaults());
    }

    /**
     * Appends bytes to a value.
     *
     * @param key the key
     * @param bytes the bytes
     * @param options the durability; and an expiry, otherwise the record keeps its own
     * @return the new length
     */
    public long append(byte[] key, byte[] bytes, WriteOptions options) {
        return handle.logAppend(
                handle.id, key, null, 0, key.length, bytes, null, 0, bytes.length,
                options.durability, options.lifetime, options.time);
    }

    /**
     * Changes when a record expires, and leaves its value as it is.
     *
     * @param key the key
     * @param time when it expires; {@link Instant#MAX} is never
     * @return false if the key is absent
     */
    public boolean setExpiry(byte[] key, Instant time) {
        return setExpiry(key, WriteOptions.defaults().expiry(time));
    }

    /**
     * Changes when a record expires, and leaves its value as it is.
     *
     * @param key the key
     * @param options the time to live or the expiry, and the durability
     * @return false if the key is absent
     */
    public boolean setExpiry(byte[] key, WriteOptions options) {
        return handle.logSetExpiry(
                handle.id, key, null, 0, key.length, options.durability, options.lifetime,
                options.time);
    }

    /**
     * The number of keys. Includes keys whose records have expired but have not been removed by a
     * write or by compaction.
     *
     * @return how many there are
     */
    public long size() {
        return handle.logLength(handle.id);
    }

    /**
     * All records, as they are now, in the order of the log, also if the store is ordered.
     *
     * @return an iterator; close it
     */
    public EntryIterator iterator() {
        return Snapshot.iterate(handle.logIterate(handle.id));
    }

    /**
     * All records, as they are now, in the order of the log.
     *
     * @return a stream; close it
     */
    public Stream<Entry> stream() {
        return iterator().stream();
    }

    /**
     * The records whose keys are in a range, in the byte order of the keys, as they are now. Bytes
     * are compared as unsigned numbers. The store must be ordered: see {@link LogOptions#ordered}.
     *
     * @param from the first key; {@code null} for the first of all
     * @param to the key that ends the range and is not part of it; {@code null} for no end
     * @return an iterator; close it
     * @throws IllegalArgumentException if the store is not ordered
     */
    public EntryIterator range(byte[] from, byte[] to) {
        return Snapshot.iterate(handle.logRange(handle.id, from, to, false));
    }

    /**
     * The records of {@link #range} from the last key to the first.
     *
     * @param from the first key of the range, which comes last; {@code null} for the first of all
     * @param to the key that ends the range and is not part of it; {@code null} for no end
     * @return an iterator; close it
     * @throws IllegalArgumentException if the store is not ordered
     */
    public EntryIterator reverseRange(byte[] from, byte[] to) {
        return Snapshot.iterate(handle.logRange(handle.id, from, to, true));
    }

    /**
     * The records whose keys begin with some bytes, in the byte order of the keys, as they are now.
     *
     * @param prefix the bytes
     * @return an iterator; close it
     * @throws IllegalArgumentException if the store is not ordered
     */
    public EntryIterator prefix(byte[] prefix) {
        Objects.requireNonNull(prefix, "prefix");
        return Snapshot.iterate(handle.logPrefix(handle.id, prefix, false));
    }

    /**
     * The records of {@link #prefix} from the last key to the first.
     *
     * @param prefix the bytes
     * @return an iterator; close it
     * @throws IllegalArgumentException if the store is not ordered
     */
    public EntryIterator reversePrefix(byte[] prefix) {
        Objects.requireNonNull(prefix, "prefix");
        return Snapshot.iterate(handle.logPrefix(handle.id, prefix, true));
    }

    /**
     * A page of records, for a scan that keeps no state in the store: it returns each key that
     * exists during the whole scan, in the order of the hashes of the keys. A cursor stays valid
     * when the store is compacted, or closed and opened again.
     *
     * @param cursor 0 to begin, then {@link ScanPage#next}
     * @param limit about how many records
     * @return the page, which may be empty before the end
     */
    public ScanPage scan(long cursor, int limit) {
        return ScanPage.of(handle.logScan(handle.id, cursor, limit));
    }

    /**
     * The store as it is now, with every batch as a whole or not at all.
     *
     * @return a snapshot, which stays usable if the store is closed; close it
     */
    public Snapshot snapshot() {
        return new Snapshot(new Native(Native.Kind.SNAPSHOT, handle.logSnapshot(handle.id)));
    }

    /**
     * Whether the store is ordered: see {@link LogOptions#ordered}.
     *
     * @return true if keys can be read in their order
     */
    public boolean isOrdered() {
        return handle.logIsOrdered(handle.id);
    }

    /**
     * Shows the changes of the process that writes, if the store is open for reading only.
     *
     * @return whether there were any
     */
    public boolean refresh() {
        return handle.logRefresh(handle.id);
    }

    /**
     * Makes a store that is open for reading only the writer, if no other process or handle is: for
     * a standby that takes over. Everything that the last writer acknowledged is there. Takes
     * milliseconds if little was written since the last {@link #refresh}. Does nothing if the store
     * is open for writing already. Throws {@link LockedException} while there is another writer.
     */
    public void promote() {
        handle.logPromote(handle.id);
    }

    /** Makes every write before this call durable. */
    public void sync() {
        handle.logSync(handle.id);
    }

    /**
     * Does one step of maintenance, if one is due, in a store that has no maintenance threads.
     *
     * @return whether one was due
     */
    public boolean maintain() {
        return handle.logMaintain(handle.id);
    }

    /**
     * Compacts all segments that are partly stale.
     *
     * @param threshold the stale share from which on a segment is compacted, 0 to 1; 0 rewrites the
     *     whole store
     * @return the number of segments
     */
    public long compact(double threshold) {
        return handle.logCompact(handle.id, threshold);
    }

    /** Stops compaction in the background after the current record. */
    public void pauseCompaction() {
        handle.logPauseCompaction(handle.id, true);
    }

    /** Lets compaction in the background continue. */
    public void resumeCompaction() {
        handle.logPauseCompaction(handle.id, false);
    }

    /**
     * The size of the store and its segments, and counts of its operations.
     *
     * @return the state at this moment
     */
    public LogStats stats() {
        return LogStats.of(handle.logStats(handle.id));
    }

    /**
     * Reads and checks every record.
     *
     * @return what is intact
     * @throws CorruptException if anything is damaged
     */
    public Verification verify() {
        return Verification.of(handle.logVerify(handle.id));
    }

    /**
     * What a backup contains.
     *
     * @param segments its segments
     * @param kept those that an earlier backup in the same directory already had
     * @param copied those that were copied because no hard link was possible
     */
    public record Backup(long segments, long kept, long copied) {}

    /**
     * Makes a backup, or updates an earlier backup of this store. It can be opened like any store.
     *
     * @param to a directory that is new or empty, or has an earlier backup
     * @return what it contains
     * @throws AlreadyExistsException if the directory has anything else
     */
    public Backup backup(Path to) {
        long[] made = handle.logBackup(handle.id, to.toAbsolutePath().toString());
        return new Backup(made[0], made[1], made[2]);
    }

    /**
     * What a restore copied.
     *
     * @param keys keys in the new store
     * @param records records that were checked
     * @param segments segments that were copied
     * @param bytes their bytes
     */
    public record Restored(long keys, long records, long segments, long bytes) {}

    /**
     * Makes a new store from a backup, and checks every record.
     *
     * @param from the backup, which no process has open for writing
     * @param to a directory that is new or empty
     * @return what was copied
     * @throws AlreadyExistsException if the directory is not empty
     */
    public static Restored restore(Path from, Path to) {
        NativeLibrary.load();
        long[] made = Native.logRestore(
                from.toAbsolutePath().toString(), to.toAbsolutePath().toString());
        return new Restored(made[0], made[1], made[2], made[3]);
    }

    /**
     * What a repair found.
     *
     * @param records records whose checksums are right; all of them were copied
     * @param keys keys in the new store
     * @param droppedRanges ranges of bytes that were dropped
     * @param droppedBytes their bytes
     */
    public record Repaired(long records, long keys, long droppedRanges, long droppedBytes) {}

    /**
     * Copies every intact record of a damaged store, which is not changed, into a new one.
     *
     * @param from the damaged store
     * @param to a directory that is new or empty
     * @return what was found
     * @throws AlreadyExistsException if the directory is not empty
     */
    public static Repaired repair(Path from, Path to) {
        NativeLibrary.load();
        long[] made = Native.logRepair(
                from.toAbsolutePath().toString(), to.toAbsolutePath().toString());
        return new Repaired(made[0], made[1], made[2], made[3]);
    }

    /**
     * Closes the store: waits for running calls, makes everything durable and releases the lock.
     * Has no effect if it is closed. Snapshots and iterators stay usable until they are closed.
     *
     * @throws FailedException if a write or sync failed since the store was opened
     */
    @Override
    public void close() {
        handle.close();
    }
}
