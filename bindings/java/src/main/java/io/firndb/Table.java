package io.firndb;

import java.nio.ByteBuffer;
import java.nio.channels.CompletionHandler;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.stream.Stream;

/**
 * A static key-value store in a file, which {@link TableBuilder} writes in one go. A lookup reads
 * one block. Any number of threads may use it. An absent key is {@code null}.
 *
 * <pre>{@code
 * try (Table table = Table.open(Path.of("users.firn"))) {
 *     byte[] value = table.get(key);
 * }
 * }</pre>
 *
 * <p>The file stays usable while the table is open, even if its name is removed or given to another
 * file. All methods throw {@link IllegalStateException} if the table is closed,
 * {@link CorruptException} if what they read is damaged, and {@link FirnIOException} if the
 * operating system reports a failure.
 */
public final class Table implements AutoCloseable {
    private final Native handle;
    private final Path path;
    private final AsyncReader async = new AsyncReader(this::getMany, ForkJoinPool.commonPool());

    private Table(Native handle, Path path) {
        this.handle = handle;
        this.path = path;
    }

    /**
     * Opens a table, mapped into memory.
     *
     * @param path its file
     * @return the table
     * @throws NotFoundException if there is no such file
     * @throws CorruptException if it is damaged
     */
    public static Table open(Path path) {
        return open(path, Access.MAP);
    }

    /**
     * Opens a table.
     *
     * @param path its file
     * @param access how it is read
     * @return the table
     * @throws NotFoundException if there is no such file
     * @throws CorruptException if it is damaged
     */
    public static Table open(Path path, Access access) {
        NativeLibrary.load();
        Native.closeLeaks();
        Path absolute = path.toAbsolutePath();
        long id = Native.tableOpen(absolute.toString(), access.ordinal());
        return new Table(new Native(Native.Kind.TABLE, id), absolute);
    }

    /**
     * The file of the table.
     *
     * @return its absolute path
     */
    public Path path() {
        return path;
    }

    /**
     * Gets the value of a key.
     *
     * @param key the key
     * @return a copy of the value, or {@code null} if the key is absent
     */
    public byte[] get(byte[] key) {
        return handle.tableGet(handle.id, key, null, 0, key.length);
    }

    /**
     * Gets the value of a key.
     *
     * @param key the key: the bytes from the position of the buffer to its limit
     * @return a copy of the value, or {@code null} if the key is absent
     */
    public byte[] get(ByteBuffer key) {
        ByteBuffer k = Buffers.reachable(key);
        int at = k.position();
        return handle.tableGet(
                handle.id, Buffers.array(k), Buffers.direct(k), Buffers.offset(k, at),
                Buffers.length(k, at));
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
    public int get(byte[] key, ByteBuffer to) {
        int at = LogStore.writable(to);
        int room = Buffers.length(to, at);
        int length = handle.tableGetInto(
                handle.id, key, null, 0, key.length, Buffers.array(to), Buffers.direct(to),
                Buffers.offset(to, at), room);
        return LogStore.advance(to, at, room, length);
    }

    /**
     * Copies the value of a key into a buffer, and allocates nothing unless the key is a read-only
     * buffer on the heap.
     *
     * @param key the key: the bytes from the position of the buffer to its limit
     * @param to as in {@link #get(byte[], ByteBuffer)}
     * @return as in {@link #get(byte[], ByteBuffer)}
     */
    public int get(ByteBuffer key, ByteBuffer to) {
        ByteBuffer k = Buffers.reachable(key);
        int keyAt = k.position();
        int at = LogStore.writable(to);
        int room = Buffers.length(to, at);
        int length = handle.tableGetInto(
                handle.id, Buffers.array(k), Buffers.direct(k), Buffers.offset(k, keyAt),
                Buffers.length(k, keyAt), Buffers.array(to), Buffers.direct(to),
                Buffers.offset(to, at), room);
        return LogStore.advance(to, at, room, length);
    }

    /**
     * Gets the values of many keys, in one call of native code. Faster than a get for each: their
     * cache misses or reads overlap.
     *
     * @param keys the keys
     * @return the value of each key, in order; {@code null} for an absent key
     */
    public List<byte[]> getMany(List<byte[]> keys) {
        return Packed.getMany(keys, (bytes, length, ends, from, count, lengths) ->
                handle.tableGetMany(handle.id, bytes, length, ends, from, count, lengths));
    }

    /**
     * Gets a value without waiting for it: see {@link AsyncReader#get(byte[])}. Reads in the common
     * pool.
     *
     * @param key the key
     * @return completes with the value, or with {@code null} if the key is absent
     */
    public CompletableFuture<byte[]> getAsync(byte[] key) {
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
    public <A> void getAsync(
            byte[] key, A attachment, CompletionHandler<byte[], ? super A> handler) {
        async.get(key, attachment, handler);
    }

    /**
     * A reader that gets values in an executor of the program.
     *
     * @param executor runs the tasks that read
     * @return the reader
     */
    public AsyncReader asyncReader(Executor executor) {
        return new AsyncReader(this::getMany, executor);
    }

    /**
     * Whether the table has a key.
     *
     * @param key the key
     * @return true if it has
     */
    public boolean contains(byte[] key) {
        return handle.tableContains(handle.id, key, null, 0, key.length);
    }

    /**
     * Whether the table has a key.
     *
     * @param key the key: the bytes from the position of the buffer to its limit
     * @return true if it has
     */
    public boolean contains(ByteBuffer key) {
        ByteBuffer k = Buffers.reachable(key);
        int at = k.position();
        return handle.tableContains(
                handle.id, Buffers.array(k), Buffers.direct(k), Buffers.offset(k, at),
                Buffers.length(k, at));
    }

    /**
     * The number of records.
     *
     * @return how many there are
     */
    public long size() {
        return handle.tableLength(handle.id);
    }

    /**
     * The metadata that was given to the build.
     *
     * @return the bytes; empty if none
     */
    public byte[] metadata() {
        return handle.tableMetadata(handle.id);
    }

    /**
     * Reads and checks the whole file.
     *
     * @return what is intact
     * @throws CorruptException if anything is damaged
     */
    public Verification verify() {
        return Verification.of(handle.tableVerify(handle.id));
    }

    /**
     * All records, in the order of the hashes of their keys.
     *
     * @return an iterator
     */
    public EntryIterator iterator() {
        return EntryIterator.overPages(cursor -> handle.tableScan(handle.id, cursor, PAGE));
    }

    /** Records that an iterator reads at a time. */
    private static final int PAGE = 1024;

    /**
     * All records, in the order of the hashes of their keys.
     *
     * @return a stream
     */
    public Stream<Entry> stream() {
        return iterator().stream();
    }

    /**
     * A page of records, for a scan that keeps no state. A cursor is valid for every table with the
     * same {@link #contentId}.
     *
     * @param cursor 0 to begin, then {@link ScanPage#next}
     * @param limit how many records
     * @return the page
     */
    public ScanPage scan(long cursor, int limit) {
        return ScanPage.of(handle.tableScan(handle.id, cursor, limit));
    }

    /**
     * The schema of the values that was given to the build.
     *
     * @return the text; empty if none
     */
    public String valueSchema() {
        return handle.tableValueSchema(handle.id);
    }

    /**
     * Identifies the contents of the file: tables of the same records, built with the same options,
     * have the same id.
     *
     * @return 16 bytes
     */
    public byte[] contentId() {
        return handle.tableContentId(handle.id);
    }

    /**
     * Counts, sizes and options of the table.
     *
     * @return the figures
     */
    public Stats stats() {
        return Stats.of(handle.tableStats(handle.id));
    }

    /**
     * Counts, sizes and options of a table. Sizes are in bytes.
     *
     * @param records records
     * @param blocks blocks
     * @param blockSize the block size of the build: a full block before compression
     * @param blockBytes all blocks
     * @param longestBlockBytes the longest block
     * @param keyBytes all keys
     * @param valueBytes all values, before compression
     * @param longestKeyBytes the longest key
     * @param longestValueBytes the longest value, before compression
     * @param fileBytes the file
     * @param filterBytes the filter
     * @param indexBytes the index in the file, which tables of large records have
     * @param memoryBytes memory of the open table outside of the Java heap, without mapped pages
     * @param isPaged whether blocks are aligned to pages
     * @param compression the compression of values
     * @param filterBits bits of the filter per key; 0 without a filter
     * @param seed the seed of the hash of keys; 0 unless keys were crafted to collide
     */
    public record Stats(
            long records,
            long blocks,
            long blockSize,
            long blockBytes,
            long longestBlockBytes,
            long keyBytes,
            long valueBytes,
            long longestKeyBytes,
            long longestValueBytes,
            long fileBytes,
            long filterBytes,
            long indexBytes,
            long memoryBytes,
            boolean isPaged,
            TableBuilder.Compression compression,
            int filterBits,
            long seed) {
        static Stats of(long[] n) {
            return new Stats(
                    n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11],
                    n[12], n[13] != 0, TableBuilder.Compression.of((int) n[14], (int) n[15]),
                    (int) n[16], n[17]);
        }

        /**
         * Memory that the open table uses outside of the Java heap, without mapped pages.
         *
         * @return a number of bytes
         */
        public long offHeapBytes() {
            return memoryBytes;
        }
    }

    /** Closes the table. Waits for running calls. Has no effect if it is closed. */
    @Override
    public void close() {
        handle.close();
    }
}
