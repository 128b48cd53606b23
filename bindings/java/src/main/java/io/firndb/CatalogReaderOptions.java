package io.firndb;

import java.nio.file.Path;
import java.time.Duration;

/** How a {@link CatalogReader} works. Immutable: each method returns changed options. */
public final class CatalogReaderOptions {
    private static final CatalogReaderOptions DEFAULTS = new CatalogReaderOptions();
    /** An option that is not set. */
    private static final long UNSET = -1;

    private long version = UNSET;
    private Access access = Access.MAP;
    private Warm warm = Warm.USED;
    private long bundleLimit = UNSET;
    private long cacheBytes = UNSET;
    private int threads = 8;
    private long followMillis = UNSET;

    private CatalogReaderOptions() {}

    private CatalogReaderOptions(CatalogReaderOptions from) {
        version = from.version;
        access = from.access;
        warm = from.warm;
        bundleLimit = from.bundleLimit;
        cacheBytes = from.cacheBytes;
        threads = from.threads;
        followMillis = from.followMillis;
    }

    /**
     * The defaults: the newest version and its successors, whenever {@link CatalogReader#refresh}
     * is called.
     *
     * @return the default options
     */
    public static CatalogReaderOptions defaults() {
        return DEFAULTS;
    }

    /** What is made for a version before it becomes current, so that first queries are fast. */
    public enum Warm {
        /** A refresh makes for the next version what queries have made for the open one. */
        USED,
        /** Opening and every refresh make everything. */
        ALL,
        /** Nothing. */
        NONE
    }

    /**
     * Follow the catalog: a native thread of the reader looks for a newer version periodically,
     * every 0.75 to 1.25 times the interval, and switches to it as {@link CatalogReader#refresh}
     * does. Errors are in {@link CatalogReader#stats}, and the next look tries again. The thread
     * never enters the JVM, and ends when the reader is closed. Default: the program calls
     * {@code refresh}.
     *
     * @param interval the time between two looks, at least a millisecond
     * @return the changed options
     */
    public CatalogReaderOptions follow(Duration interval) {
        long millis = Buffers.millis("the interval", interval);
        if (millis == 0) {
            throw new IllegalArgumentException("the interval is shorter than a millisecond");
        }
        CatalogReaderOptions changed = new CatalogReaderOptions(this);
        changed.followMillis = millis;
        return changed;
    }

    /**
     * Open this version and no other. Default: the newest version and its successors.
     *
     * @param number the number of the version
     * @return the changed options
     */
    public CatalogReaderOptions version(long number) {
        CatalogReaderOptions changed = new CatalogReaderOptions(this);
        changed.version = checked("the number of a version", number);
        return changed;
    }

    /**
     * How tables are read. Default: {@link Access#MAP}.
     *
     * @param access the mode
     * @return the changed options
     */
    public CatalogReaderOptions access(Access access) {
        CatalogReaderOptions changed = new CatalogReaderOptions(this);
        changed.access = access;
        return changed;
    }

    /**
     * What is made for a version before it becomes current. Default: {@link Warm#USED}.
     *
     * @param warm what is made
     * @return the changed options
     */
    public CatalogReaderOptions warm(Warm warm) {
        CatalogReaderOptions changed = new CatalogReaderOptions(this);
        changed.warm = warm;
        return changed;
    }

    /**
     * Memory for small partitions of a collection that are merged in memory, of each version,
     * outside of the Java heap. Default: 256 MiB.
     *
     * @param bytes the limit
     * @return the changed options
     */
    public CatalogReaderOptions bundleLimit(long bytes) {
        CatalogReaderOptions changed = new CatalogReaderOptions(this);
        changed.bundleLimit = checked("a size", bytes);
        return changed;
    }

    /**
     * Disk space for the files of the open version and the next one together. Removed files that
     * generations of older versions still have open are not counted. Default: no limit.
     *
     * @param bytes the limit
     * @return the changed options
     */
    public CatalogReaderOptions cacheBytes(long bytes) {
        CatalogReaderOptions changed = new CatalogReaderOptions(this);
        changed.cacheBytes = checked("a size", bytes);
        return changed;
    }

    /**
     * Native threads that fetch files at the same time. They end with the refresh. Default: 8.
     *
     * @param threads at least 1
     * @return the changed options
     */
    public CatalogReaderOptions threads(int threads) {
        if (threads < 1) {
            throw new IllegalArgumentException("threads is " + threads + "; give at least 1");
        }
        CatalogReaderOptions changed = new CatalogReaderOptions(this);
        changed.threads = threads;
        return changed;
    }

    private static long checked(String what, long number) {
        if (number < 0) {
            throw new IllegalArgumentException(what + " is negative: " + number);
        }
        return number;
    }

    /** Opens a reader, and returns its number. */
    long open(Native catalog, String name, Path cacheDir) {
        return catalog.catalogReaderOpen(
                catalog.id, name, cacheDir.toString(), version, access.ordinal(), warm.ordinal(),
                bundleLimit, cacheBytes, threads, followMillis);
    }
}
