package io.firndb;

import java.nio.ByteBuffer;
import java.nio.file.Path;

/**
 * A static store of values of 1 to 16 bytes without their keys, in about 3 bits per key and the
 * value. A key that was added has its value. Any other key is absent or, with probability 1 in 2^r,
 * has a wrong value: r is the number of fingerprint bits that was given to the build. Any number of
 * threads may use it. {@link ApproximateBuilder} makes one.
 *
 * <p>All methods throw {@link IllegalStateException} if the table is closed,
 * {@link CorruptException} if what they read is damaged, and {@link FirnIOException} if the
 * operating system reports a failure.
 */
public final class ApproximateTable extends KeyValueReader {
    ApproximateTable(Native handle) {
        super(handle);
    }

    @Override
    byte[] getNative(byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength) {
        return handle.approximateGet(handle.id, key, keyBuffer, keyOffset, keyLength);
    }

    @Override
    int getNative(
            byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] to,
            ByteBuffer toBuffer, int toOffset, int toLength) {
        return handle.approximateGetInto(
                handle.id, key, keyBuffer, keyOffset, keyLength, to, toBuffer, toOffset, toLength);
    }

    @Override
    boolean containsNative(byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength) {
        return handle.approximateContains(handle.id, key, keyBuffer, keyOffset, keyLength);
    }

    @Override
    byte[] getManyNative(
            byte[] keys, int keysLength, int[] ends, int from, int count, int[] lengths) {
        return handle.approximateGetMany(handle.id, keys, keysLength, ends, from, count, lengths);
    }

    /**
     * Opens a table, mapped into memory.
     *
     * @param path its file
     * @return the table
     * @throws NotFoundException if there is no such file
     * @throws CorruptException if it is damaged
     */
    public static ApproximateTable open(Path path) {
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
    public static ApproximateTable open(Path path, Access access) {
        NativeLibrary.load();
        Native.closeLeaks();
        long id = Native.approximateOpen(path.toAbsolutePath().toString(), access.ordinal());
        return new ApproximateTable(new Native(Native.Kind.APPROXIMATE, id));
    }

    /**
     * The file of the table.
     *
     * @return its absolute path
     */
    public Path path() {
        return Path.of(handle.approximatePath(handle.id));
    }

    /**
     * The number of records.
     *
     * @return how many there are
     */
    public long size() {
        return handle.approximateLength(handle.id);
    }

    /**
     * The metadata that was given to the build.
     *
     * @return the bytes; empty if none
     */
    public byte[] metadata() {
        return handle.approximateMetadata(handle.id);
    }

    /**
     * Reads and checks the whole file.
     *
     * @return what is intact
     * @throws CorruptException if anything is damaged
     */
    public Verification verify() {
        return Verification.of(handle.approximateVerify(handle.id));
    }

    /**
     * Counts, sizes and options of the table.
     *
     * @return the figures
     */
    public Stats stats() {
        return Stats.of(handle.approximateStats(handle.id));
    }

    /**
     * Counts, sizes and options of an approximate table. Sizes are in bytes.
     *
     * @param records records
     * @param shards shards, each with its own perfect hash function
     * @param valueWidth bytes of a value
     * @param fingerprintBits bits of a fingerprint
     * @param falsePositives probability that an absent key is found
     * @param hashBytes the perfect hash functions
     * @param slotBytes fingerprints and values
     * @param fileBytes the file
     * @param memoryBytes memory of the open table outside of the Java heap, without mapped pages
     * @param seed the seed of the hash of keys; 0 unless keys were crafted to collide
     */
    public record Stats(
            long records,
            long shards,
            int valueWidth,
            int fingerprintBits,
            double falsePositives,
            long hashBytes,
            long slotBytes,
            long fileBytes,
            long memoryBytes,
            long seed) {
        static Stats of(long[] n) {
            return new Stats(
                    n[0], n[1], (int) n[2], (int) n[3], Double.longBitsToDouble(n[4]), n[5], n[6],
                    n[7], n[8], n[9]);
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
