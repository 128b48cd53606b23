package io.firndb;

import java.time.Duration;
import java.time.Instant;
import java.util.Objects;

/**
 * Changes that a log store applies as a whole or not at all: see {@link LogStore#write(Batch)}.
 * Keys and values are copied. For one thread at a time.
 *
 * <pre>{@code
 * store.write(new Batch().put(a, one).put(b, two).delete(c));
 * }</pre>
 */
public final class Batch {
    private static final int DELETE = 0;
    private static final int PUT = 1;
    private static final int PUT_TTL = 2;
    private static final int PUT_AT = 3;
    private static final int PUT_FOREVER = 4;

    final Packed changes = new Packed(256);
    private int size;

    /** Creates an empty batch. */
    public Batch() {}

    /**
     * Puts a record. It expires if the {@link WriteOptions} of the write say so.
     *
     * @param key the key
     * @param value the value
     * @return this batch
     */
    public Batch put(byte[] key, byte[] value) {
        return add(PUT, 0, key, value);
    }

    /**
     * Puts a record that expires some time after the batch is written. Takes precedence over the
     * {@link WriteOptions} of the write.
     *
     * @param key the key
     * @param value the value
     * @param ttl the time to live, in whole milliseconds; not negative
     * @return this batch
     */
    public Batch put(byte[] key, byte[] value, Duration ttl) {
        return add(PUT_TTL, Buffers.millis(ttl), key, value);
    }

    /**
     * Puts a record that expires at a given time. Takes precedence over the {@link WriteOptions} of
     * the write.
     *
     * @param key the key
     * @param value the value
     * @param expiry when the record expires; {@link Instant#MAX} is never
     * @return this batch
     */
    public Batch put(byte[] key, byte[] value, Instant expiry) {
        if (expiry.equals(Instant.MAX)) {
            return add(PUT_FOREVER, 0, key, value);
        }
        return add(PUT_AT, Buffers.millis(expiry), key, value);
    }

    /**
     * Deletes a key. Has no effect if it is absent.
     *
     * @param key the key
     * @return this batch
     */
    public Batch delete(byte[] key) {
        Objects.requireNonNull(key, "key");
        changes.addByte(DELETE);
        changes.addBytes(key);
        size++;
        return this;
    }

    /**
     * The number of changes.
     *
     * @return how many there are
     */
    public int size() {
        return size;
    }

    /**
     * Removes all changes and keeps the memory.
     *
     * @return this batch
     */
    public Batch clear() {
        changes.length = 0;
        size = 0;
        return this;
    }

    private Batch add(int kind, long time, byte[] key, byte[] value) {
        Objects.requireNonNull(key, "key");
        Objects.requireNonNull(value, "value");
        int before = changes.length;
        try {
            changes.addByte(kind);
            if (kind == PUT_TTL || kind == PUT_AT) {
                changes.addLong(time);
            }
            changes.addBytes(key);
            changes.addBytes(value);
        } catch (IllegalArgumentException | OutOfMemoryError e) {
            changes.length = before;
            throw e;
        }
        size++;
        return this;
    }
}
