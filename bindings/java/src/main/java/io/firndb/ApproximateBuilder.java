package io.firndb;

import java.nio.ByteBuffer;
import java.nio.file.Path;

/**
 * Collects records and writes them as an {@link ApproximateTable}.
 *
 * <p>Until {@link #finish} has written and synced the table, nothing appears under its path. Then
 * an earlier table of that path is replaced atomically. One thread at a time may use a builder. All
 * methods throw {@link IllegalStateException} if it is closed, and {@link FirnIOException} if the
 * operating system reports a failure.
 */
public final class ApproximateBuilder extends KeyValueBuilder {
    private ApproximateBuilder(Native handle) {
        super(handle);
    }

    @Override
    void addNative(
            byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] value,
            ByteBuffer valueBuffer, int valueOffset, int valueLength) {
        handle.approximateBuilderAdd(
                handle.id, key, keyBuffer, keyOffset, keyLength, value, valueBuffer, valueOffset,
                valueLength);
    }

    @Override
    void addAllNative(byte[] records, int length) {
        handle.approximateBuilderAddAll(handle.id, records, length);
    }

    /** Options of a build. Immutable: each method returns changed options. */
    public static final class Options extends BuildOptions<Options> {
        private static final Options DEFAULTS = new Options();

        private int valueWidth = 8;
        private int fingerprintBits = 16;

        private Options() {}

        private Options(Options other) {
            super(other);
            valueWidth = other.valueWidth;
            fingerprintBits = other.fingerprintBits;
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
         * Bytes of every value. Default: 8.
         *
         * @param bytes 1 to 16
         * @return the changed options
         */
        public Options valueWidth(int bytes) {
            Options changed = copy();
            changed.valueWidth = bytes;
            return changed;
        }

        /**
         * Bits of a fingerprint: an absent key is found with probability 1 in 2^bits. Default: 16.
         *
         * @param bits 0 to 32
         * @return the changed options
         */
        public Options fingerprintBits(int bits) {
            Options changed = copy();
            changed.fingerprintBits = bits;
            return changed;
        }

        private long create(String path) {
            return Native.approximateBuilderCreate(
                    path, valueWidth, fingerprintBits, duplicates.ordinal(), memoryLimit, tempDir,
                    threads, metadata);
        }
    }

    /**
     * Starts a build with default options.
     *
     * @param path the file that the build will write or replace
     * @return the builder; close it
     * @throws NotFoundException if its directory does not exist
     */
    public static ApproximateBuilder create(Path path) {
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
    public static ApproximateBuilder create(Path path, Options options) {
        NativeLibrary.load();
        Native.closeLeaks();
        long id = options.create(path.toAbsolutePath().toString());
        return new ApproximateBuilder(new Native(Native.Kind.APPROXIMATE_BUILDER, id));
    }

    @Override
    public long size() {
        return handle.approximateBuilderRecords(handle.id);
    }

    /**
     * What a build wrote.
     *
     * @param records records in the table
     * @param duplicates records that were dropped because their key occurred before
     * @param spilledBytes bytes written to temporary files
     */
    public record Report(long records, long duplicates, long spilledBytes) {}

    /**
     * Writes the table and publishes it.
     *
     * @return what was written
     * @throws IllegalArgumentException if a key was added twice, unless the options allow that
     * @throws FailedException if an earlier {@code add} failed, or the build is finished
     */
    public Report finish() {
        long[] n = handle.approximateBuilderFinish(handle.id);
        return new Report(n[0], n[1], n[2]);
    }
}
