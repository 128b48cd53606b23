package io.firndb;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Objects;
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
public final class Table extends KeyValueReader {
    Table(Native handle) {
        super(handle);
    }

    @Override
    byte[] getNative(byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength) {
        return handle.tableGet(handle.id, key, keyBuffer, keyOffset, keyLength);
    }

    @Override
    int getNative(
            byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] to,
            ByteBuffer toBuffer, int toOffset, int toLength) {
        return handle.tableGetInto(
                handle.id, key, keyBuffer, keyOffset, keyLength, to, toBuffer, toOffset, toLength);
    }

    @Override
    boolean containsNative(byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength) {
        return handle.tableContains(handle.id, key, keyBuffer, keyOffset, keyLength);
    }

    @Override
    byte[] getManyNative(
            byte[] keys, int keysLength, int[] ends, int from, int count, int[] lengths) {
        return handle.tableGetMany(handle.id, keys, keysLength, ends, from, count, lengths);
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
        long id = Native.tableOpen(path.toAbsolutePath().toString(), access.ordinal());
        return new Table(new Native(Native.Kind.TABLE, id));
    }

    /**
     * The file of the table.
     *
     * @return its absolute path
     */
    public Path path() {
        return Path.of(handle.tablePath(handle.id));
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
     * All records, in the order of the hashes of their keys; in key order if the table
     * {@link #isOrdered}.
     *
     * @return an iterator
     */
    public EntryIterator iterator() {
        return EntryIterator.overPages(cursor -> handle.tableScan(handle.id, cursor, PAGE));
    }

    /** Records that an iterator reads at a time. */
    private static final int PAGE = 1024;

    /**
     * All records, in the order of {@link #iterator}.
     *
     * @return a stream
     */
    public Stream<Entry> stream() {
        return iterator().stream();
    }

    /**
     * Whether the records are in key order, so that {@link #range} and {@link #prefix} work: see
     * {@link TableBuilder.Options#inKeyOrder}.
     *
     * @return true if they are
     */
    public boolean isOrdered() {
        return handle.tableIsOrdered(handle.id);
    }

    /**
     * The records whose keys are in a range, in the byte order of the keys. Bytes are compared as
     * unsigned numbers.
     *
     * @param from the first key; {@code null} for the first of all
     * @param to the key that ends the range and is not part of it; {@code null} for no end
     * @return an iterator; close it
     * @throws IllegalArgumentException if the table is not in key order
     */
    public EntryIterator range(byte[] from, byte[] to) {
        return Snapshot.iterate(handle.tableRange(handle.id, from, to, false));
    }

    /**
     * The records of {@link #range} from the last key to the first.
     *
     * @param from the first key of the range, which comes last; {@code null} for the first of all
     * @param to the key that ends the range and is not part of it; {@code null} for no end
     * @return an iterator; close it
     * @throws IllegalArgumentException if the table is not in key order
     */
    public EntryIterator reverseRange(byte[] from, byte[] to) {
        return Snapshot.iterate(handle.tableRange(handle.id, from, to, true));
    }

    /**
     * The records whose keys begin with some bytes, in the byte order of the keys.
     *
     * @param prefix the bytes
     * @return an iterator; close it
     * @throws IllegalArgumentException if the table is not in key order
     */
    public EntryIterator prefix(byte[] prefix) {
        Objects.requireNonNull(prefix, "prefix");
        return Snapshot.iterate(handle.tablePrefix(handle.id, prefix, false));
    }

    /**
     * The records of {@link #prefix} from the last key to the first.
     *
     * @param prefix the bytes
     * @return an iterator; close it
     * @throws IllegalArgumentException if the table is not in key order
     */
    public EntryIterator reversePrefix(byte[] prefix) {
        Objects.requireNonNull(prefix, "prefix");
        return Snapshot.iterate(handle.tablePrefix(handle.id, prefix, true));
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
}
