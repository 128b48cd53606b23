package io.firndb;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/**
 * A table in several files: file {@code i} has the keys whose {@link #shardOf} is {@code i}. The
 * files are ordinary tables, which {@link TableBuilder} writes, on one machine or on many. A get
 * reads one block of one shard. Any number of threads may use it. An absent key is {@code null}.
 *
 * <pre>{@code
 * for (Entry entry : entries) {
 *     builders.get(ShardedTable.shardOf(entry.key(), builders.size()))
 *             .add(entry.key(), entry.value());
 * }
 * }</pre>
 *
 * <p>All methods throw {@link IllegalStateException} if the table is closed,
 * {@link CorruptException} if what they read is damaged, and {@link FirnIOException} if the
 * operating system reports a failure.
 */
public final class ShardedTable extends KeyValueReader {
    /** Most shards of a table. */
    public static final int MAX_SHARDS = 100_000;

    ShardedTable(Native handle) {
        super(handle);
    }

    @Override
    byte[] getNative(byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength) {
        return handle.shardedGet(handle.id, key, keyBuffer, keyOffset, keyLength);
    }

    @Override
    int getNative(
            byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] to,
            ByteBuffer toBuffer, int toOffset, int toLength) {
        return handle.shardedGetInto(
                handle.id, key, keyBuffer, keyOffset, keyLength, to, toBuffer, toOffset, toLength);
    }

    @Override
    boolean containsNative(byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength) {
        return handle.shardedContains(handle.id, key, keyBuffer, keyOffset, keyLength);
    }

    @Override
    byte[] getManyNative(
            byte[] keys, int keysLength, int[] ends, int from, int count, int[] lengths) {
        return handle.shardedGetMany(handle.id, keys, keysLength, ends, from, count, lengths);
    }

    /**
     * Opens the shards in these files, mapped into memory.
     *
     * @param files the files in the order of the shards
     * @return the table
     * @throws NotFoundException if a file is missing
     * @throws CorruptException if one is damaged
     * @throws IllegalArgumentException if there is no file, or if their value schemas differ
     */
    public static ShardedTable open(List<Path> files) {
        return open(files, Access.MAP);
    }

    /**
     * Opens the shards in these files. That the keys are in their shards is not checked here, but
     * by {@link #verify} and when a catalog publishes them.
     *
     * @param files the files in the order of the shards
     * @param access how they are read
     * @return the table
     * @throws NotFoundException if a file is missing
     * @throws CorruptException if one is damaged
     * @throws IllegalArgumentException if there is no file, or if their value schemas differ
     */
    public static ShardedTable open(List<Path> files, Access access) {
        NativeLibrary.load();
        Native.closeLeaks();
        String[] paths =
                files.stream().map(file -> file.toAbsolutePath().toString()).toArray(String[]::new);
        long id = Native.shardedOpen(paths, access.ordinal());
        return new ShardedTable(new Native(Native.Kind.SHARDED_TABLE, id));
    }

    /**
     * Opens the shards in a directory, mapped into memory.
     *
     * @param dir as in {@link #openDir(Path, Access)}
     * @return the table
     */
    public static ShardedTable openDir(Path dir) {
        return openDir(dir, Access.MAP);
    }

    /**
     * Opens the shards in a directory: the files {@code shard-00000.table},
     * {@code shard-00001.table} and so on, and nothing else. Reads one block of each, to find out
     * whether files belong to other shards or the last ones are missing.
     *
     * @param dir the directory
     * @param access how the files are read
     * @return the table
     * @throws NotFoundException if there is no such directory
     * @throws CorruptException if a file is damaged
     * @throws IllegalArgumentException if a shard is missing or of another table, or if there are
     *     other files
     */
    public static ShardedTable openDir(Path dir, Access access) {
        NativeLibrary.load();
        Native.closeLeaks();
        long id = Native.shardedOpenDir(dir.toAbsolutePath().toString(), access.ordinal());
        return new ShardedTable(new Native(Native.Kind.SHARDED_TABLE, id));
    }

    /**
     * The shard of a key. The same in all releases, on all machines.
     *
     * @param key the key
     * @param shards how many shards there are: 1 to {@link #MAX_SHARDS}
     * @return a number from 0 to {@code shards - 1}
     */
    public static int shardOf(byte[] key, int shards) {
        checkShards(shards);
        NativeLibrary.load();
        return Native.shardedShardOf(key, null, 0, key.length, shards);
    }

    /**
     * The shard of a key. The same in all releases, on all machines.
     *
     * @param key the key: the bytes from the position of the buffer to its limit
     * @param shards how many shards there are: 1 to {@link #MAX_SHARDS}
     * @return a number from 0 to {@code shards - 1}
     */
    public static int shardOf(ByteBuffer key, int shards) {
        checkShards(shards);
        NativeLibrary.load();
        ByteBuffer k = Buffers.reachable(key);
        int at = k.position();
        return Native.shardedShardOf(
                Buffers.array(k), Buffers.direct(k), Buffers.offset(k, at), Buffers.length(k, at),
                shards);
    }

    private static void checkShards(int shards) {
        if (shards < 1 || shards > MAX_SHARDS) {
            throw new IllegalArgumentException(
                    "a sharded table has 1 to " + MAX_SHARDS + " shards, not " + shards);
        }
    }

    /**
     * The files of the shards.
     *
     * @return their absolute paths, in the order of the shards
     */
    public List<Path> paths() {
        return Stream.of(handle.shardedPaths(handle.id)).map(Path::of).toList();
    }

    /**
     * The number of shards.
     *
     * @return how many there are
     */
    public int shards() {
        return handle.shardedShards(handle.id);
    }

    /**
     * The number of records.
     *
     * @return how many there are
     */
    public long size() {
        return handle.shardedLength(handle.id);
    }

    /**
     * All records: those of shard 0 in the order of the hashes of their keys, then those of shard
     * 1, and so on.
     *
     * @return an iterator
     */
    public EntryIterator iterator() {
        int shards = shards();
        int[] shard = {0};
        return EntryIterator.overPages(cursor -> {
            byte[] page = handle.shardedScan(handle.id, shard[0], cursor, PAGE);
            if (Packed.longAt(page, 0) < 0 && ++shard[0] < shards) {
                Packed.setLong(page, 0, 0); // The next page is the first of the next shard.
            }
            return page;
        });
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
     * The schema of the values, which is that of each shard.
     *
     * @return the text; empty if none
     */
    public String valueSchema() {
        return handle.shardedValueSchema(handle.id);
    }

    /**
     * Reads and checks all files, and that each key is in its shard.
     *
     * @return what is intact
     * @throws CorruptException if anything is damaged, or a key is in another shard
     */
    public Verification verify() {
        return Verification.of(handle.shardedVerify(handle.id));
    }

    /**
     * Counts and sizes of the table.
     *
     * @return the figures
     */
    public Stats stats() {
        return Stats.of(handle.shardedStats(handle.id));
    }

    /**
     * Counts and sizes of a sharded table: the sums of its shards. Sizes are in bytes.
     *
     * @param shards shards
     * @param records records
     * @param smallestShardRecords records of the shard with the fewest
     * @param largestShardRecords records of the shard with the most
     * @param blocks blocks
     * @param keyBytes all keys
     * @param valueBytes all values, before compression
     * @param fileBytes the files
     * @param filterBytes the filters
     * @param indexBytes the indexes in the files
     * @param memoryBytes memory of the open tables outside of the Java heap, without mapped pages
     */
    public record Stats(
            long shards,
            long records,
            long smallestShardRecords,
            long largestShardRecords,
            long blocks,
            long keyBytes,
            long valueBytes,
            long fileBytes,
            long filterBytes,
            long indexBytes,
            long memoryBytes) {
        static Stats of(long[] n) {
            return new Stats(
                    n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10]);
        }

        /**
         * Memory that the open tables use outside of the Java heap, without mapped pages.
         *
         * @return a number of bytes
         */
        public long offHeapBytes() {
            return memoryBytes;
        }
    }
}
