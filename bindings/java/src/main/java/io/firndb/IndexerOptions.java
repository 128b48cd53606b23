package io.firndb;

/** How to open an {@link Indexer}. Immutable: each method returns changed options. */
public final class IndexerOptions {
    /** A share that is not set. */
    static final double NOT_SET = -1;

    private static final IndexerOptions DEFAULTS = new IndexerOptions(1 << 30, 0, NOT_SET);

    final long memoryLimit;
    final int threads;
    final double maxRemoved;

    private IndexerOptions(long memoryLimit, int threads, double maxRemoved) {
        this.memoryLimit = memoryLimit;
        this.threads = threads;
        this.maxRemoved = maxRemoved;
    }

    /**
     * The defaults.
     *
     * @return the default options
     */
    public static IndexerOptions defaults() {
        return DEFAULTS;
    }

    /**
     * Memory for rebuilding partitions, outside of the Java heap and shared by all threads. A
     * partition must fit into the share of one thread. Default: 1 GiB.
     *
     * @param bytes the limit
     * @return the changed options
     */
    public IndexerOptions memoryLimit(long bytes) {
        if (bytes < 0) {
            throw new IllegalArgumentException("a size is negative: " + bytes);
        }
        return new IndexerOptions(bytes, threads, maxRemoved);
    }

    /**
     * Native threads that rebuild partitions; they end with {@link Indexer#publish}. Default: as
     * many as processors.
     *
     * @param threads at least 1
     * @return the changed options
     */
    public IndexerOptions threads(int threads) {
        if (threads < 1) {
            throw new IllegalArgumentException("threads is " + threads + "; give at least 1");
        }
        return new IndexerOptions(memoryLimit, threads, maxRemoved);
    }

    /**
     * The share of the documents of its source that a feed may remove, unless
     * {@link Feed#maxRemoved} sets another. A feed that would remove more is refused, because it
     * may be truncated. Default: half of them, or 100 if that is more, and none if rows were left
     * out of the feed.
     *
     * @param share 0 to 1; 1 allows any number
     * @return the changed options
     */
    public IndexerOptions maxRemoved(double share) {
        return new IndexerOptions(memoryLimit, threads, checkedShare(share));
    }

    static double checkedShare(double share) {
        if (!(share >= 0 && share <= 1)) {
            throw new IllegalArgumentException("a share is from 0 to 1, not " + share);
        }
        return share;
    }
}
