package io.firndb;

import java.nio.ByteBuffer;

/**
 * Takes the records of a table: what builders of tables have in common. One thread at a time uses
 * it.
 */
public abstract sealed class KeyValueBuilder implements AutoCloseable
        permits TableBuilder, ApproximateBuilder {
    /** Bytes of records that are passed at a time. */
    private static final int ADDED_BYTES = 1 << 20;

    /** The build. */
    final Native handle;

    KeyValueBuilder(Native handle) {
        this.handle = handle;
    }

    /** Calls the native method that adds a record. */
    abstract void addNative(
            byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] value,
            ByteBuffer valueBuffer, int valueOffset, int valueLength);

    /** Calls the native method that adds packed records. */
    abstract void addAllNative(byte[] records, int length);

    /**
     * Adds a record. Key and value are copied.
     *
     * @param key the key
     * @param value the value
     */
    public final void add(byte[] key, byte[] value) {
        addNative(key, null, 0, key.length, value, null, 0, value.length);
    }

    /**
     * Adds a record: the bytes from the positions of the buffers to their limits.
     *
     * @param key the key
     * @param value the value
     */
    public final void add(ByteBuffer key, ByteBuffer value) {
        ByteBuffer k = Buffers.reachable(key);
        ByteBuffer v = Buffers.reachable(value);
        int keyAt = k.position();
        int valueAt = v.position();
        addNative(
                Buffers.array(k), Buffers.direct(k), Buffers.offset(k, keyAt),
                Buffers.length(k, keyAt), Buffers.array(v), Buffers.direct(v),
                Buffers.offset(v, valueAt), Buffers.length(v, valueAt));
    }

    /**
     * Adds many records, with a call of native code for about a megabyte of them. If a record is
     * refused, those before it were added.
     *
     * @param entries the records
     */
    public final void addAll(Iterable<Entry> entries) {
        Packed packed = new Packed(1 << 16);
        for (Entry entry : entries) {
            packed.addBytes(entry.key());
            packed.addBytes(entry.value());
            if (packed.length >= ADDED_BYTES) {
                addAllNative(packed.bytes, packed.length);
                packed.length = 0;
            }
        }
        addAllNative(packed.bytes, packed.length);
    }

    /**
     * The number of records added.
     *
     * @return how many there are
     */
    public abstract long size();

    /**
     * Abandons the build if it is not finished; then no file is left. Waits for running calls. Has
     * no effect if it is closed.
     *
     * @throws IllegalStateException if it is called by the progress callback of this build
     */
    @Override
    public final void close() {
        handle.close();
    }
}
