package io.firndb;

import java.time.Duration;

/**
 * Which versions {@link Catalog#clean} keeps. Immutable: each method returns changed options.
 */
public final class CleanOptions {
    private static final CleanOptions DEFAULTS =
            new CleanOptions(3, Duration.ofDays(1).toMillis(), false);

    final int keep;
    final long graceMillis;
    final boolean dryRun;

    private CleanOptions(int keep, long graceMillis, boolean dryRun) {
        this.keep = keep;
        this.graceMillis = graceMillis;
        this.dryRun = dryRun;
    }

    /**
     * The defaults: keep the newest 3 versions, and those that were the newest within the last day.
     *
     * @return the default options
     */
    public static CleanOptions defaults() {
        return DEFAULTS;
    }

    /**
     * How many of the newest versions are always kept. Default: 3.
     *
     * @param versions at least 1
     * @return the changed options
     */
    public CleanOptions keep(int versions) {
        if (versions < 1) {
            throw new IllegalArgumentException("keep is " + versions + "; give at least 1");
        }
        return new CleanOptions(versions, graceMillis, dryRun);
    }

    /**
     * How long a version is kept after the next one was published, for readers that are fetching
     * it, and a staged file after it was staged. Must be longer than the slowest fetch. Default: a
     * day.
     *
     * @param grace the time
     * @return the changed options
     */
    public CleanOptions grace(Duration grace) {
        return new CleanOptions(keep, Buffers.millis("the grace period", grace), dryRun);
    }

    /**
     * Report what would be removed without removing it. Default: no.
     *
     * @param dryRun whether to only report
     * @return the changed options
     */
    public CleanOptions dryRun(boolean dryRun) {
        return new CleanOptions(keep, graceMillis, dryRun);
    }
}
