package io.firndb;

import java.time.Instant;
import java.util.List;
import java.util.stream.Stream;

/**
 * A log store as it was at one moment. Any number of threads may use it. Close it: while it is
 * open, files that it needs stay on disk. It stays usable if the store is closed.
 */
public final class Snapshot implements AutoCloseable {
    private final Native handle;

    Snapshot(Native handle) {
        this.handle = handle;
    }

    static EntryIterator iterate(long id) {
        Native records = new Native(Native.Kind.ITERATOR, id);
        return new EntryIterator(
                records, () -> records.iteratorNext(records.id, EntryIterator.PAGE_BYTES));
    }

    /**
     * Gets the value of a key.
     *
     * @param key the key
     * @return a copy of the value, or {@code null} if the key was absent
     */
    public byte[] get(byte[] key) {
        return handle.snapshotGet(handle.id, key, null, 0, key.length);
    }

    /**
     * Gets the values of many keys, in one call of native code.
     *
     * @param keys the keys
     * @return the value of each key, in order; {@code null} for an absent key
     */
    public List<byte[]> getMany(List<byte[]> keys) {
        return Packed.getMany(keys, (bytes, length, ends, from, count, lengths) ->
                handle.snapshotGetMany(handle.id, bytes, length, ends, from, count, lengths));
    }

    /**
     * Whether a key had a value.
     *
     * @param key the key
     * @return true if it had
     */
    public boolean contains(byte[] key) {
        return handle.snapshotContains(handle.id, key, null, 0, key.length);
    }

    /**
     * When the record of a key expires.
     *
     * @param key the key
     * @return the time, {@link Instant#MAX} if it does not expire, or {@code null} if the key was
     *     absent
     */
    public Instant expiry(byte[] key) {
        return Buffers.instant(handle.snapshotExpiry(handle.id, key, null, 0, key.length));
    }

    /**
     * All records, in the order of the log.
     *
     * @return an iterator, which stays usable if the snapshot is closed; close it
     */
    public EntryIterator iterator() {
        return iterate(handle.snapshotIterate(handle.id));
    }

    /**
     * All records, in the order of the log.
     *
     * @return a stream; close it
     */
    public Stream<Entry> stream() {
        return iterator().stream();
    }

    /** Closes the snapshot. Waits for running calls. Has no effect if it is closed. */
    @Override
    public void close() {
        handle.close();
    }
}
