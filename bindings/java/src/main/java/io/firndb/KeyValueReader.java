package io.firndb;

import java.nio.ByteBuffer;
import java.nio.channels.CompletionHandler;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;

/**
 * Gets values by their keys: what log stores, snapshots and tables have in common. Any number of
 * threads may use it. An absent key is {@code null}.
 *
 * <p>A buffer that is passed as a key means the bytes from its position to its limit, and is not
 * changed. All methods throw {@link IllegalStateException} if the object is closed,
 * {@link CorruptException} if what they read is damaged, and {@link FirnIOException} if the
 * operating system reports a failure.
 */
public abstract sealed class KeyValueReader implements AutoCloseable
        permits LogStore, Snapshot, Table, ShardedTable, ApproximateTable {
    /** The open object. */
    final Native handle;

    private final AsyncReader async = new AsyncReader(this::getMany, ForkJoinPool.commonPool());

    KeyValueReader(Native handle) {
        this.handle = handle;
    }

    /** Calls the native method that returns a value. */
    abstract byte[] getNative(byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    /** Calls the native method that copies a value. */
    abstract int getNative(
            byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] to,
            ByteBuffer toBuffer, int toOffset, int toLength);

    /** Calls the native method that finds a key. */
    abstract boolean containsNative(
            byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    /** Calls the native method that returns the values of many keys. */
    abstract byte[] getManyNative(
            byte[] keys, int keysLength, int[] ends, int from, int count, int[] lengths);

    /**
     * Gets the value of a key.
     *
     * @param key the key
     * @return a copy of the value, or {@code null} if the key is absent
     */
    public final byte[] get(byte[] key) {
        return getNative(key, null, 0, key.length);
    }

    /**
     * Gets the value of a key.
     *
     * @param key the key
     * @return a copy of the value, or {@code null} if the key is absent
     */
    public final byte[] get(ByteBuffer key) {
        ByteBuffer k = Buffers.reachable(key);
        int at = k.position();
        return getNative(
                Buffers.array(k), Buffers.direct(k), Buffers.offset(k, at), Buffers.length(k, at));
    }

    /**
     * Copies the value of a key into a buffer, and allocates nothing.
     *
     * @param key the key
     * @param to where the value goes: its position is advanced by the length of the value. If the
     *     value does not fit, the buffer is left as it is.
     * @return the length of the value, which is larger than {@code to.remaining()} if it did not
     *     fit; -1 if the key is absent
     */
    public final int get(byte[] key, ByteBuffer to) {
        int at = Buffers.writable(to);
        int room = Buffers.length(to, at);
        int length = getNative(
                key, null, 0, key.length, Buffers.array(to), Buffers.direct(to),
                Buffers.offset(to, at), room);
        return Buffers.advance(to, at, room, length);
    }

    /**
     * Copies the value of a key into a buffer, and allocates nothing unless the key is a read-only
     * buffer on the heap.
     *
     * @param key the key
     * @param to as in {@link #get(byte[], ByteBuffer)}
     * @return as in {@link #get(byte[], ByteBuffer)}
     */
    public final int get(ByteBuffer key, ByteBuffer to) {
        ByteBuffer k = Buffers.reachable(key);
        int keyAt = k.position();
        int at = Buffers.writable(to);
        int room = Buffers.length(to, at);
        int length = getNative(
                Buffers.array(k), Buffers.direct(k), Buffers.offset(k, keyAt),
                Buffers.length(k, keyAt), Buffers.array(to), Buffers.direct(to),
                Buffers.offset(to, at), room);
        return Buffers.advance(to, at, room, length);
    }

    /**
     * Gets the values of many keys, in one call of native code. Faster than a get for each: their
     * cache misses or reads overlap.
     *
     * @param keys the keys
     * @return the value of each key, in order; {@code null} for an absent key
     */
    public final List<byte[]> getMany(List<byte[]> keys) {
        return Packed.getMany(keys, this::getManyNative);
    }

    /**
     * Gets a value without waiting for it: see {@link AsyncReader#get(byte[])}. Reads in the common
     * pool.
     *
     * @param key the key
     * @return completes with the value, or with {@code null} if the key is absent
     */
    public final CompletableFuture<byte[]> getAsync(byte[] key) {
        return async.get(key);
    }

    /**
     * Gets a value and passes it to a handler, which runs in the common pool.
     *
     * @param <A> the type of the attachment
     * @param key the key
     * @param attachment what the handler gets in addition; may be {@code null}
     * @param handler gets the value, or {@code null} if the key is absent
     */
    public final <A> void getAsync(
            byte[] key, A attachment, CompletionHandler<byte[], ? super A> handler) {
        async.get(key, attachment, handler);
    }

    /**
     * A reader that gets values in an executor of the program.
     *
     * @param executor runs the tasks that read
     * @return the reader
     */
    public final AsyncReader asyncReader(Executor executor) {
        return new AsyncReader(this::getMany, executor);
    }

    /**
     * Whether a key has a value.
     *
     * @param key the key
     * @return true if it has
     */
    public final boolean contains(byte[] key) {
        return containsNative(key, null, 0, key.length);
    }

    /**
     * Whether a key has a value.
     *
     * @param key the key
     * @return true if it has
     */
    public final boolean contains(ByteBuffer key) {
        ByteBuffer k = Buffers.reachable(key);
        int at = k.position();
        return containsNative(
                Buffers.array(k), Buffers.direct(k), Buffers.offset(k, at), Buffers.length(k, at));
    }

    /**
     * Closes the object. Waits for running calls of other threads. Has no effect if it is closed.
     */
    @Override
    public void close() {
        handle.close();
    }
}
