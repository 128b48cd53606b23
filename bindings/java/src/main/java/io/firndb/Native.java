package io.firndb;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.nio.ByteBuffer;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * An open object of the native library, and all native methods.
 *
 * <p>A key, a value or a destination is four arguments: an array or null, else a direct buffer,
 * offset and length. These must be inside of the array or buffer; the native side relies on it. A
 * write has three for its options.
 *
 * <p>The methods of an open object are instance methods although they get its id: while a call
 * runs, the JVM keeps the object, and so nothing closes it as a leak.
 */
final class Native {
    /** What is open, and how it is closed. */
    enum Kind {
        LOG, SNAPSHOT, ITERATOR, TABLE, TABLE_BUILDER, APPROXIMATE, APPROXIMATE_BUILDER
    }

    /** The number of the object in the native library: never that of an object closed before. */
    final long id;

    private final Leak leak;

    Native(Kind kind, long id) {
        closeLeaks();
        this.id = id;
        this.leak = new Leak(this, kind, id);
        OPEN.add(leak);
    }

    /**
     * Closes the object, when running calls of other threads have ended. Later calls throw
     * {@link IllegalStateException}. Has no effect if it is closed.
     */
    void close() {
        close(leak.kind, id);
        OPEN.remove(leak);
    }

    private static void close(Kind kind, long id) {
        switch (kind) {
            case LOG -> logClose(id);
            case SNAPSHOT -> snapshotClose(id);
            case ITERATOR -> iteratorClose(id);
            case TABLE -> tableClose(id);
            case TABLE_BUILDER -> tableBuilderClose(id);
            case APPROXIMATE -> approximateClose(id);
            case APPROXIMATE_BUILDER -> approximateBuilderClose(id);
        }
    }

    /** The object was collected without having been closed. */
    private static final class Leak extends PhantomReference<Native> {
        final Kind kind;
        final long id;

        Leak(Native object, Kind kind, long id) {
            super(object, COLLECTED);
            this.kind = kind;
            this.id = id;
        }
    }

    private static final Set<Leak> OPEN = ConcurrentHashMap.newKeySet();
    private static final ReferenceQueue<Native> COLLECTED = new ReferenceQueue<>();

    /**
     * Closes objects that were collected without having been closed. Called whenever something is
     * opened, so that the library needs no thread for it.
     */
    static void closeLeaks() {
        for (Object found = COLLECTED.poll(); found != null; found = COLLECTED.poll()) {
            Leak leak = (Leak) found;
            if (OPEN.remove(leak)) {
                try {
                    close(leak.kind, leak.id);
                } catch (FirnException e) {
                    // The program that could handle it has dropped the object.
                }
            }
        }
    }

    /** Makes the exception for an error; the native side calls it. */
    static RuntimeException exception(int kind, String message, String path, long offset) {
        return switch (kind) {
            case -1 -> new IllegalStateException(message);
            case 2 -> new IllegalArgumentException(message);
            case 3 -> new NotFoundException(message, path, offset);
            case 4 -> new AlreadyExistsException(message, path, offset);
            case 5 -> new LockedException(message, path, offset);
            case 6 -> new CorruptException(message, path, offset);
            case 7 -> new UnsupportedVersionException(message, path, offset);
            case 8 -> new FirnIOException(message, path, offset);
            case 9 -> new FailedException(message, path, offset);
            case 10 -> new CancelledException(message, path, offset);
            default -> new InternalException(message, path, offset);
        };
    }

    // Log stores.

    static native long logOpen(
            String at, int flags, long segment, long rate, long checkpoint, double threshold);

    static native void logClose(long id);

    native byte[] logGet(long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    native int logGetInto(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] to,
            ByteBuffer toBuffer, int toOffset, int toLength);

    native byte[] logGetVersioned(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength,
            long[] details);

    native boolean logContains(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    native long logValueLength(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    native long logExpiry(long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    native byte[] logGetMany(
            long id, byte[] keys, int keysLength, int[] ends, int from, int count, int[] lengths);

    native void logPut(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] value,
            ByteBuffer valueBuffer, int valueOffset, int valueLength, int durability, int lifetime,
            long time);

    native boolean logDelete(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, int durability,
            int lifetime, long time);

    native long logAppend(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] value,
            ByteBuffer valueBuffer, int valueOffset, int valueLength, int durability, int lifetime,
            long time);

    native boolean logCompareAndSet(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength,
            byte[] expected, byte[] next, int durability, int lifetime, long time);

    native boolean logSetExpiry(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, int durability,
            int lifetime, long time);

    native boolean logWrite(
            long id, byte[] changes, int changesLength, byte[] conditions, int conditionsLength,
            int durability, int lifetime, long time);

    native long logLength(long id);

    native boolean logRefresh(long id);

    native void logSync(long id);

    native boolean logMaintain(long id);

    native long[] logStats(long id);

    native long[] logVerify(long id);

    native long logSnapshot(long id);

    native long logIterate(long id);

    native long logCompact(long id, double threshold);

    native void logPauseCompaction(long id, boolean pause);

    native long[] logBackup(long id, String to);

    static native long[] logRestore(String from, String to);

    static native long[] logRepair(String from, String to);

    native byte[] logScan(long id, long cursor, int limit);

    // Snapshots and iterators of log stores.

    static native void snapshotClose(long id);

    native byte[] snapshotGet(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    native boolean snapshotContains(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    native long snapshotExpiry(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    native byte[] snapshotGetMany(
            long id, byte[] keys, int keysLength, int[] ends, int from, int count, int[] lengths);

    native long snapshotIterate(long id);

    native byte[] iteratorNext(long id, int bytes);

    static native void iteratorClose(long id);

    // Tables and their builder.

    static native long tableOpen(String at, int access);

    static native void tableClose(long id);

    native byte[] tableGet(long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    native int tableGetInto(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] to,
            ByteBuffer toBuffer, int toOffset, int toLength);

    native boolean tableContains(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    native byte[] tableGetMany(
            long id, byte[] keys, int keysLength, int[] ends, int from, int count, int[] lengths);

    native long tableLength(long id);

    native long[] tableStats(long id);

    native byte[] tableMetadata(long id);

    native long[] tableVerify(long id);

    native String tableValueSchema(long id);

    native byte[] tableContentId(long id);

    native byte[] tableScan(long id, long cursor, int limit);

    static native long tableBuilderCreate(
            String at, int blockSize, int compression, int level, int filterBits, int duplicates,
            long memoryLimit, String tempDir, int threads, byte[] metadata, String valueSchema);

    native void tableBuilderAdd(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] value,
            ByteBuffer valueBuffer, int valueOffset, int valueLength);

    native void tableBuilderAddAll(long id, byte[] records, int length);

    native long tableBuilderRecords(long id);

    static native void tableBuilderClose(long id);

    native long[] tableBuilderFinish(long id, Object progress);

    // Approximate tables and their builder.

    static native long approximateOpen(String at, int access);

    static native void approximateClose(long id);

    native byte[] approximateGet(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    native int approximateGetInto(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] to,
            ByteBuffer toBuffer, int toOffset, int toLength);

    native boolean approximateContains(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    native byte[] approximateGetMany(
            long id, byte[] keys, int keysLength, int[] ends, int from, int count, int[] lengths);

    native long approximateLength(long id);

    native long[] approximateStats(long id);

    native byte[] approximateMetadata(long id);

    native long[] approximateVerify(long id);

    static native long approximateBuilderCreate(
            String at, int valueWidth, int fingerprintBits, int duplicates, long memoryLimit,
            String tempDir, int threads, byte[] metadata);

    native void approximateBuilderAdd(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] value,
            ByteBuffer valueBuffer, int valueOffset, int valueLength);

    native void approximateBuilderAddAll(long id, byte[] records, int length);

    native long approximateBuilderRecords(long id);

    static native void approximateBuilderClose(long id);

    native long[] approximateBuilderFinish(long id);

    // For tests.

    /** Names and signatures of all native methods. */
    static native String[] methods();

    /** Exit code, name and base class of each kind of error. */
    static native String[] errorKinds();

    /** Panics in native code. */
    static native void panic(String message);
}
