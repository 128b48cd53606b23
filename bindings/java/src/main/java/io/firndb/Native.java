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
        LOG, SNAPSHOT, ITERATOR, TABLE, TABLE_BUILDER, APPROXIMATE, APPROXIMATE_BUILDER,
        SHARDED_TABLE, CATALOG, CATALOG_READER, GENERATION,
        PARTITION_BUILDER, COLLECTION, CHANGE, COLLECTION_READER, INDEXER, FEED
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
            case SHARDED_TABLE -> shardedClose(id);
            case CATALOG -> catalogClose(id);
            case CATALOG_READER -> catalogReaderClose(id);
            case GENERATION -> generationClose(id);
            case PARTITION_BUILDER -> partitionBuilderClose(id);
            case COLLECTION -> collectionClose(id);
            case CHANGE -> changeClose(id);
            case COLLECTION_READER -> readerClose(id);
            case INDEXER -> indexerClose(id);
            case FEED -> feedClose(id);
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

    native boolean logIsOrdered(long id);

    native boolean logRefresh(long id);

    native void logPromote(long id);

    native void logSync(long id);

    native boolean logMaintain(long id);

    native long[] logStats(long id);

    native long[] logVerify(long id);

    native long logSnapshot(long id);

    native long logIterate(long id);

    native long logRange(long id, byte[] from, byte[] to, boolean reverse);

    native long logPrefix(long id, byte[] prefix, boolean reverse);

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

    native int snapshotGetInto(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] to,
            ByteBuffer toBuffer, int toOffset, int toLength);

    native boolean snapshotContains(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    native long snapshotExpiry(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    native byte[] snapshotGetMany(
            long id, byte[] keys, int keysLength, int[] ends, int from, int count, int[] lengths);

    native long snapshotIterate(long id);

    native long snapshotRange(long id, byte[] from, byte[] to, boolean reverse);

    native long snapshotPrefix(long id, byte[] prefix, boolean reverse);

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

    native String tablePath(long id);

    native byte[] tableContentId(long id);

    native byte[] tableScan(long id, long cursor, int limit);

    native boolean tableIsOrdered(long id);

    native long tableRange(long id, byte[] from, byte[] to, boolean reverse);

    native long tablePrefix(long id, byte[] prefix, boolean reverse);

    static native long tableBuilderCreate(
            String at, int blockSize, int compression, int level, int filterBits, int duplicates,
            long memoryLimit, String tempDir, int threads, byte[] metadata, String valueSchema,
            boolean inKeyOrder);

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

    native String approximatePath(long id);

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

    // Sharded tables.

    static native long shardedOpen(String[] files, int access);

    static native long shardedOpenDir(String dir, int access);

    static native void shardedClose(long id);

    native byte[] shardedGet(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    native int shardedGetInto(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, byte[] to,
            ByteBuffer toBuffer, int toOffset, int toLength);

    native boolean shardedContains(
            long id, byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength);

    native byte[] shardedGetMany(
            long id, byte[] keys, int keysLength, int[] ends, int from, int count, int[] lengths);

    native byte[] shardedScan(long id, int shard, long cursor, int limit);

    native long shardedLength(long id);

    native int shardedShards(long id);

    native String[] shardedPaths(long id);

    native long[] shardedStats(long id);

    native String shardedValueSchema(long id);

    native long[] shardedVerify(long id);

    static native int shardedShardOf(
            byte[] key, ByteBuffer keyBuffer, int keyOffset, int keyLength, int shards);

    // Catalogs.

    static native long catalogOpen(String at, boolean create);

    static native long catalogOpenUrl(String url);

    static native void catalogClose(long id);

    native String[] catalogNames(long id);

    native long[] catalogVersions(long id, String name);

    native byte[] catalogVersion(long id, String name, long number);

    native byte[] catalogPublish(
            long id, String name, String at, boolean ifChanged, byte[] options, Object progress);

    native String catalogStage(long id, String name, String at, Object progress);

    static native byte[] catalogStaged(String text);

    native byte[] catalogPublishStaged(long id, String name, byte[] lines, byte[] options);

    native byte[] catalogRollback(long id, String name, long to, byte[] options);

    native void catalogPin(long id, String name, long number, String note);

    native void catalogUnpin(long id, String name, long number);

    native long[] catalogPins(long id, String name);

    native long[] catalogClean(
            long id, String name, int keep, long graceMillis, boolean dryRun);

    native long[] catalogVerify(long id, String name, long number, Object progress);

    native byte[] catalogPull(long id, String name, long number, String to, int threads);

    native byte[] catalogDiff(long id, String name, long before, long after);

    // Readers of catalogs, and generations.

    native long catalogReaderOpen(
            long id, String name, String cacheDir, long version, int access, int warm,
            long bundleLimit, long cacheBytes, int threads, long followMillis);

    static native void catalogReaderClose(long id);

    native long catalogReaderCurrent(long id);

    native boolean catalogReaderRefresh(long id);

    native byte[] catalogReaderStats(long id);

    static native void generationClose(long id);

    native long generationNumber(long id);

    native byte[] generationVersion(long id);

    native long generationTable(long id);

    native long generationApproximate(long id);

    native long generationSharded(long id);

    native long generationCollection(long id);

    // Schemas, builders of partitions, collections and changes.

    static native byte[] schemaRead(String text);

    static native byte[] schemaChange(String text, byte[] changes, int length);

    static native long partitionBuilderCreate(String schema, long memoryLimit, String tempDir);

    native void partitionBuilderAdd(long id, byte[] documents, int length);

    native long partitionBuilderLength(long id);

    native long partitionBuilderMemory(long id);

    native byte[] partitionBuilderSchema(long id);

    native void partitionBuilderWrite(long id, String to);

    static native void partitionBuilderClose(long id);

    static native long collectionCreate(String at);

    static native long collectionOpen(String at);

    static native void collectionClose(long id);

    static native long collectionOpenFiles(byte[] files, int length);

    native long collectionReader(long id);

    native long collectionVersion(long id);

    native boolean collectionRefresh(long id);

    native long collectionChange(long id);

    native byte[] collectionCompact(
            long id, long small, long mostDocuments, long mostBytes, long atLeast,
            long unchangedMillis, boolean isDryRun);

    native void changePut(long id, String name, long builder, boolean extend);

    native void changePutFile(long id, String name, String file, boolean extend);

    native void changeRemove(long id, String name);

    native void changeMerge(long id, byte[] names, int length, String into);

    native void changeClear(long id);

    native void changeCommit(long id);

    static native void changeClose(long id);

    // Indexes and their feeds.

    static native long indexerOpen(
            String at, String schema, String field, int partitions, long memoryLimit, int threads,
            double maxRemoved);

    static native void indexerClose(long id);

    native byte[] indexerSchema(long id);

    native boolean indexerIsRemade(long id);

    native byte[] indexerPartitioning(long id);

    native long indexerReader(long id);

    native long indexerFeed(long id, String source, boolean isWhole);

    native boolean indexerUpsert(long id, String source, byte[] item, int length);

    native boolean indexerDelete(long id, String source, byte[] key, int length);

    native byte[] indexerPublish(long id);

    native byte[] indexerPublishTo(long id, long catalog, String name);

    native void indexerRepartition(long id, String field, int partitions);

    native byte[] indexerStatus(long id);

    native long[] indexerBackup(long id, String to);

    native void feedAdd(long id, byte[] items, int length);

    native void feedRemove(long id, byte[] key, int length);

    native void feedLeftOut(long id, long rows);

    native byte[] feedFinish(long id, double maxRemoved);

    static native void feedClose(long id);

    // Queries, and readers of collections. A query or a filter is a byte, 0 before the length and
    // the UTF-8 of a text, 1 before what Query and Filter pack.

    static native byte[] filterParse(byte[] text, int length);

    static native byte[] filterText(byte[] filter, int length);

    static native byte[] queryParse(byte[] text, int length);

    static native byte[] queryText(byte[] query, int length);

    static native void readerClose(long id);

    native long readerWith(long id, int setting, long number);

    native long readerWithPartitions(long id, byte[] names, int namesLength);

    native byte[] readerSchema(long id);

    native long readerLength(long id);

    native long[] readerStats(long id);

    native byte[] readerPartitions(long id);

    native void readerWarm(long id);

    native long[] readerVerify(long id);

    native long[] readerSearch(long id, byte[] query, int length);

    native byte[] readerToken(long id, byte[] query, int length, int count, long last);

    native void readerForEach(long id, byte[] query, int length, Object each);

    native long readerCount(long id, byte[] filter, int length);

    native byte[] readerFacets(
            long id, byte[] filter, int length, byte[] facets, int facetsLength);

    native byte[] readerGroupBy(long id, byte[] filter, int length, byte[] by, int byLength);

    native byte[] readerExplain(long id, byte[] query, int length);

    native byte[] readerValue(long id, long hit, String field);

    native byte[] readerValues(long id, long hit, String field);

    native long readerLong(long id, long hit, String field);

    native double readerDouble(long id, long hit, String field);

    native boolean readerBoolean(long id, long hit, String field);

    native byte[] readerPayload(long id, long hit);

    native int readerPayloadInto(
            long id, long hit, byte[] to, ByteBuffer toBuffer, int toOffset, int toLength);

    native byte[] readerPayloads(long id, long[] hits, int from, int count);

    native byte[] readerColumns(
            long id, long[] hits, int from, int count, byte[] fields, int fieldsLength);

    native long[] readerNumbers(
            long id, long[] hits, int from, int count, String field, boolean areFloats,
            long absent);

    // For tests.

    /** Names and signatures of all native methods. */
    static native String[] methods();

    /** Exit code, name and base class of each kind of error. */
    static native String[] errorKinds();

    /** Panics in native code. */
    static native void panic(String message);
}
