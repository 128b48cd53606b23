package io.firndb;

import java.util.function.Function;
import java.util.function.LongUnaryOperator;

/**
 * One version of a name, opened by a {@link CatalogReader}. It never changes. Its table or
 * collection belongs to it and is closed with it. Any number of threads may use it.
 *
 * <p>All methods throw {@link IllegalStateException} if the generation is closed.
 */
public final class Generation implements AutoCloseable {
    private final Native handle;
    /** The table or collection once it was used, and its handle. Guarded by this. */
    private Object store;
    private Native storeHandle;

    Generation(Native handle) {
        this.handle = handle;
    }

    /**
     * The number of the version.
     *
     * @return the number
     */
    public long number() {
        return handle.generationNumber(handle.id);
    }

    /**
     * The version: its time, kind, labels and files. Takes time proportional to the number of
     * files.
     *
     * @return the version
     */
    public Version version() {
        return Version.of(new Unpacked(handle.generationVersion(handle.id)));
    }

    /**
     * The table. It is closed with the generation.
     *
     * @return the same object at each call
     * @throws IllegalArgumentException if the version is of another kind
     */
    public Table table() {
        return store(Table.class, Native.Kind.TABLE, handle::generationTable, Table::new);
    }

    /**
     * The approximate table. It is closed with the generation.
     *
     * @return the same object at each call
     * @throws IllegalArgumentException if the version is of another kind
     */
    public ApproximateTable approximateTable() {
        return store(
                ApproximateTable.class, Native.Kind.APPROXIMATE, handle::generationApproximate,
                ApproximateTable::new);
    }

    /**
     * The sharded table. It is closed with the generation.
     *
     * @return the same object at each call
     * @throws IllegalArgumentException if the version is of another kind
     */
    public ShardedTable shardedTable() {
        return store(
                ShardedTable.class, Native.Kind.SHARDED_TABLE, handle::generationSharded,
                ShardedTable::new);
    }

    /**
     * The collection. It is closed with the generation.
     *
     * @return the same object at each call
     * @throws IllegalArgumentException if the version is of another kind
     */
    public CollectionReader collection() {
        return store(
                CollectionReader.class, Native.Kind.COLLECTION_READER,
                handle::generationCollection, CollectionReader::new);
    }

    private synchronized <T> T store(
            Class<T> type, Native.Kind kind, LongUnaryOperator open, Function<Native, T> wrap) {
        if (!type.isInstance(store)) {
            // Throws if the version is of another kind, so an open store is not replaced.
            Native opened = new Native(kind, open.applyAsLong(handle.id));
            store = wrap.apply(opened);
            storeHandle = opened;
        }
        return type.cast(store);
    }

    /**
     * Closes the generation with its table or collection. Waits for running calls. The files are
     * removed from the disk if the reader has switched to another version and nothing else has
     * them open. Has no effect if it is closed.
     *
     * @throws IllegalStateException if a callback of its collection calls it; then nothing is
     *     closed
     */
    @Override
    public void close() {
        closeStore();
        handle.close();
        closeStore(); // Another thread may have opened it since.
        synchronized (this) {
            store = null;
            storeHandle = null;
        }
    }

    /** Closes the store, not under the lock: it waits for calls, whose callbacks may need it. */
    private void closeStore() {
        Native opened;
        synchronized (this) {
            opened = storeHandle;
        }
        if (opened != null) {
            opened.close();
        }
    }
}
