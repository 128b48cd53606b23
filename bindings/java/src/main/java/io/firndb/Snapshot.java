package io.firndb;

import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.Objects;
import java.util.stream.Stream;

/**
 * A log store as it was at one moment. Any number of threads may use it. Close it: while it is
 * open, files that it needs stay on disk. It stays usable if the store is closed.
 */
public final class Snapshot extends KeyValueReader {
    Snapshot(Native handle) {
        super(handle);
    }

    @Override
    byte[] getNative(byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength) {
        return handle.snapshotGet(handle.id, key, keyBuffer, keyOffset, keyLength);
    }

    @Override
    int getNative(
            byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] to,
            ByteBuffer toBuffer, int toOffset, int toLength) {
        return handle.snapshotGetInto(
                handle.id, key, keyBuffer, keyOffset, keyLength, to, toBuffer, toOffset, toLength);
    }

    @Override
    boolean containsNative(byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength) {
        return handle.snapshotContains(handle.id, key, keyBuffer, keyOffset, keyLength);
    }

    @Override
    byte[] getManyNative(
            byte[] keys, int keysLength, int[] ends, int from, int count, int[] lengths) {
        return handle.snapshotGetMany(handle.id, keys, keysLength, ends, from, count, lengths);
    }

    static EntryIterator iterate(long id) {
        Native records = new Native(Native.Kind.ITERATOR, id);
        return new EntryIterator(
                records, () -> records.iteratorNext(records.id, EntryIterator.PAGE_BYTES));
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

    /**
     * The records whose keys are in a range, in the byte order of the keys. Bytes are
     * compared as unsigned numbers.
     *
     * @param from the first key; {@code null} for the first of all
     * @param to the key that ends the range and is not part of it; {@code null} for no end
     * @return an iterator, which stays usable if the snapshot is closed; close it
     * @throws IllegalArgumentException if the store is not ordered
     */
    public EntryIterator range(byte[] from, byte[] to) {
        return iterate(handle.snapshotRange(handle.id, from, to, false));
    }

    /**
     * The records of {@link #range} from the last key to the first.
     *
     * @param from the first key of the range, which comes last; {@code null} for the first of all
     * @param to the key that ends the range and is not part of it; {@code null} for no end
     * @return an iterator, which stays usable if the snapshot is closed; close it
     * @throws IllegalArgumentException if the store is not ordered
     */
    public EntryIterator reverseRange(byte[] from, byte[] to) {
        return iterate(handle.snapshotRange(handle.id, from, to, true));
    }

    /**
     * The records whose keys begin with some bytes, in the byte order of the keys.
     *
     * @param prefix the bytes
     * @return an iterator, which stays usable if the snapshot is closed; close it
     * @throws IllegalArgumentException if the store is not ordered
     */
    public EntryIterator prefix(byte[] prefix) {
        Objects.requireNonNull(prefix, "prefix");
        return iterate(handle.snapshotPrefix(handle.id, prefix, false));
    }

    /**
     * The records of {@link #prefix} from the last key to the first.
     *
     * @param prefix the bytes
     * @return an iterator, which stays usable if the snapshot is closed; close it
     * @throws IllegalArgumentException if the store is not ordered
     */
    public EntryIterator reversePrefix(byte[] prefix) {
        Objects.requireNonNull(prefix, "prefix");
        return iterate(handle.snapshotPrefix(handle.id, prefix, true));
    }
}
