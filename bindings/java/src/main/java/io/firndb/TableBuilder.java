package io.firndb;

import java.nio.ByteBuffer;
import java.nio.file.Path;

/**
 * Collects records and writes them as a {@link Table}.
 *
 * <p>Until {@link #finish} has written and synced the table, nothing appears under its path. Then
 * an earlier table of that path is replaced atomically. Records may be added in any order, by one
 * thread at a time. Memory is bounded and outside of the Java heap.
 *
 * <pre>{@code
 * try (TableBuilder builder = TableBuilder.create(Path.of("users.firn"))) {
 *     builder.add(key, value);
 *     builder.finish();
 * }
 * }</pre>
 *
 * <p>A builder can be used in tasks of Hadoop, Spark or Flink: it starts no Java threads, its
 * native threads end with the build, and closing it leaves no file. All methods throw
 * {@link IllegalStateException} if it is closed, and {@link FirnIOException} if the operating
 * system reports a failure.
 */
public final class TableBuilder extends KeyValueBuilder {
    private TableBuilder(Native handle) {
        super(handle);
    }

    @Override
    void addNative(
            byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] value,
            ByteBuffer valueBuffer, int valueOffset, int valueLength) {
        handle.tableBuilderAdd(
                handle.id, key, keyBuffer, keyOffset, keyLength, value, valueBuffer, valueOffset,
                valueLength);
    }

    @Override
    void addAllNative(byte[] records, int length) {
        handle.tableBuilderAddAll(handle.id, records, length);
    }

    /**
     * Compression of the values of a table.
     *
     * @param unit what is compressed
     * @param level the level of zstd, 1 to 19; 0 without compression
     */
    public record Compression(Unit unit, int level) {
        /** What is compressed at a time. */
        public enum Unit {
            /** Nothing. */
            NONE,
            /** Each value: a get decompresses one. */
            RECORD,
            /** Each block: smaller, but a get decompresses a whole block. */
            BLOCK
        }

        /**
         * No compression.
         *
         * @return the default
         */
        public static Compression none() {
            return new Compression(Unit.NONE, 0);
        }

        /**
         * Compresses each value with a dictionary trained on a sample of the values.
         *
         * @param level the level of zstd, 1 to 19
         * @return the compression
         */
        public static Compression records(int level) {
            return new Compression(Unit.RECORD, level);
        }

        /**
         * Compresses each block with a dictionary trained on a sample of the values.
         *
         * @param level the level of zstd, 1 to 19
         * @return the compression
         */
        public static Compression blocks(int level) {
            return new Compression(Unit.BLOCK, level);
        }

        static Compression of(int unit, int level) {
            return new Compression(Unit.values()[unit], level);
        }
    }

    /** A filter, which answers most gets of absent keys without reading a block. */
    public enum KeyFilter {
        /** No filter: a get of an absent key reads one block. */
        NONE(0),
        /** About 9.1 bits per key. 1 in 256 absent keys passes. */
        BITS_8(8),
        /** About 18.2 bits per key. 1 in 65,536 absent keys passes. */
        BITS_16(16);

        private final int bits;

        KeyFilter(int bits) {
            this.bits = bits;
        }
    }

    /** Options of a build. Immutable: each method returns changed options. */
    public static final class Options extends BuildOptions<Options> {
        private static final Options DEFAULTS = new Options();

        private int blockSize = 4096;
        private Compression compression = Compression.none();
        private KeyFilter filter = KeyFilter.NONE;
        private String valueSchema;
        private boolean inKeyOrder;

        private Options() {}

        private Options(Options other) {
            super(other);
            blockSize = other.blockSize;
            compression = other.compression;
            filter = other.filter;
            valueSchema = other.valueSchema;
            inKeyOrder = other.inKeyOrder;
        }

        @Override
        Options copy() {
            return new Options(this);
        }

        /**
         * The defaults.
         *
         * @return the default options
         */
        public static Options defaults() {
            return DEFAULTS;
        }

        /**
         * Bytes of a block, before compression. Default: 4096.
         *
         * @param bytes a multiple of 4096, up to 1 MiB
         * @return the changed options
         */
        public Options blockSize(int bytes) {
            Options changed = copy();
            changed.blockSize = bytes;
            return changed;
        }

        /**
         * Compression of values. Default: none.
         *
         * @param compression the compression
         * @return the changed options
         */
        public Options compression(Compression compression) {
            Options changed = copy();
            changed.compression = compression;
            return changed;
        }

        /**
         * Filter for absent keys. Default: none.
         *
         * @param filter the filter
         * @return the changed options
         */
        public Options filter(KeyFilter filter) {
            Options changed = copy();
            changed.filter = filter;
            return changed;
        }

        /**
         * How to read values, for example an Avro schema, stored in the file. Default: none.
         *
         * @param schema the text
         * @return the changed options
         */
        public Options valueSchema(String schema) {
            Options changed = copy();
            changed.valueSchema = schema;
            return changed;
        }

        /**
         * Whether to write the records in the byte order of their keys, instead of the order of
         * their hashes, so that {@link Table#range} and {@link Table#prefix} work. Bytes are
         * compared as unsigned numbers. Default: false.
         *
         * @param inKeyOrder true for key order
         * @return the changed options
         */
        public Options inKeyOrder(boolean inKeyOrder) {
            Options changed = copy();
            changed.inKeyOrder = inKeyOrder;
            return changed;
        }

        private long create(String path) {
            return Native.tableBuilderCreate(
                    path, blockSize, compression.unit().ordinal(), compression.level(),
                    filter.bits, duplicates.ordinal(), memoryLimit, tempDir, threads, metadata,
                    valueSchema, inKeyOrder);
        }
    }

    /**
     * Starts a build with default options.
     *
     * @param path the file that the build will write or replace
     * @return the builder; close it
     * @throws NotFoundException if its directory does not exist
     */
    public static TableBuilder create(Path path) {
        return create(path, Options.defaults());
    }

    /**
     * Starts a build.
     *
     * @param path the file that the build will write or replace
     * @param options the options
     * @return the builder; close it
     * @throws NotFoundException if its directory, or that of temporary files, does not exist
     * @throws IllegalArgumentException if an option is out of range
     */
    public static TableBuilder create(Path path, Options options) {
        NativeLibrary.load();
        Native.closeLeaks();
        long id = options.create(path.toAbsolutePath().toString());
        return new TableBuilder(new Native(Native.Kind.TABLE_BUILDER, id));
    }

    @Override
    public long size() {
        return handle.tableBuilderRecords(handle.id);
    }

    /** Receives the progress of a build, in the thread that finishes it. */
    @FunctionalInterface
    public interface Progress {
        /**
         * Called regularly. Begins again at 0 if keys were crafted to have equal hashes.
         *
         * @param done records written
         * @param total records to write
         * @return false to cancel the build
         */
        boolean report(long done, long total);
    }

    /**
     * What a build wrote.
     *
     * @param records records in the table
     * @param duplicates records that were dropped because their key occurred before
     * @param bytes bytes of keys and values, before compression
     * @param spilledBytes bytes written to temporary files
     */
    public record Report(long records, long duplicates, long bytes, long spilledBytes) {}

    /**
     * Writes the table and publishes it.
     *
     * @return what was written
     * @throws IllegalArgumentException if a key was added twice, unless the options allow that
     * @throws FailedException if an earlier {@code add} failed, or the build is finished
     */
    public Report finish() {
        return finish(null);
    }

    /**
     * Writes the table and publishes it.
     *
     * @param progress is called regularly, and can cancel the build; {@code null} for none. If it
     *     throws, the build is cancelled, and this method throws the same exception.
     * @return what was written
     * @throws CancelledException if {@code progress} returned false
     * @throws IllegalArgumentException if a key was added twice, unless the options allow that
     * @throws FailedException if an earlier {@code add} failed, or the build is finished
     */
    public Report finish(Progress progress) {
        long[] n = handle.tableBuilderFinish(handle.id, progress);
        return new Report(n[0], n[1], n[2], n[3]);
    }
}
