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
    public static final class Options {
        private static final Options DEFAULTS = new Options();

        private int valueWidth = 8;
        private int fingerprintBits = 16;
        private Duplicates duplicates = Duplicates.ERROR;
        private long memoryLimit = 1 << 30;
        private String tempDir;
        private int threads;
        private byte[] metadata;

        private Options() {}

        private Options(Options other) {
            valueWidth = other.valueWidth;
            fingerprintBits = other.fingerprintBits;
            duplicates = other.duplicates;
            memoryLimit = other.memoryLimit;
            tempDir = other.tempDir;
            threads = other.threads;
            metadata = other.metadata;
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
            Options changed = new Options(this);
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
            Options changed = new Options(this);
            changed.fingerprintBits = bits;
            return changed;
        }

        /**
         * What happens if a key is added more than once. Default: the build fails.
         *
         * @param duplicates the policy
         * @return the changed options
         */
        public Options duplicates(Duplicates duplicates) {
            Options changed = new Options(this);
            changed.duplicates = duplicates;
            return changed;
        }

        /**
         * Memory for collected records; more records go to a temporary file. It is outside of the
         * Java heap, and the build may use up to 1.2 times as much, plus 100 MiB. Default: 1 GiB.
         *
         * @param bytes at least 16 MiB
         * @return the changed options
         */
        public Options memoryLimit(long bytes) {
            Options changed = new Options(this);
            changed.memoryLimit = bytes;
            return changed;
        }

        /**
         * Directory of the temporary file. Default: the directory of the table.
         *
         * @param dir an existing directory
         * @return the changed options
         */
        public Options tempDir(Path dir) {
            Options changed = new Options(this);
            changed.tempDir = dir.toAbsolutePath().toString();
            return changed;
        }

        /**
         * Threads of the build. They end with it. Default: as many as processors.
         *
         * @param threads 1 to 1,024
         * @return the changed options
         */
        public Options threads(int threads) {
            if (threads < 1) {
                throw new IllegalArgumentException("threads is " + threads + "; give at least 1");
            }
            Options changed = new Options(this);
            changed.threads = threads;
            return changed;
        }

        /**
         * Metadata of the program, stored in the file. Default: none.
         *
         * @param bytes the metadata
         * @return the changed options
         */
        public Options metadata(byte[] bytes) {
            Options changed = new Options(this);
            changed.metadata = bytes.clone();
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
