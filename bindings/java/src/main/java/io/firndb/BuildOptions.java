package io.firndb;

import java.nio.file.Path;

/**
 * Options that builds of tables have in common. Immutable: each method returns changed options.
 *
 * @param <T> the class of the options
 */
public abstract sealed class BuildOptions<T extends BuildOptions<T>>
        permits TableBuilder.Options, ApproximateBuilder.Options {
    Duplicates duplicates = Duplicates.ERROR;
    long memoryLimit = 1 << 30;
    String tempDir;
    int threads;
    byte[] metadata;

    BuildOptions() {}

    BuildOptions(BuildOptions<T> other) {
        duplicates = other.duplicates;
        memoryLimit = other.memoryLimit;
        tempDir = other.tempDir;
        threads = other.threads;
        metadata = other.metadata;
    }

    /** A copy, which the caller changes before anything else gets it. */
    abstract T copy();

    /**
     * What happens if a key is added more than once. Default: the build fails.
     *
     * @param duplicates the policy
     * @return the changed options
     */
    public final T duplicates(Duplicates duplicates) {
        T changed = copy();
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
    public final T memoryLimit(long bytes) {
        T changed = copy();
        changed.memoryLimit = bytes;
        return changed;
    }

    /**
     * Directory of the temporary file. Default: the directory of the table.
     *
     * @param dir an existing directory
     * @return the changed options
     */
    public final T tempDir(Path dir) {
        T changed = copy();
        changed.tempDir = dir.toAbsolutePath().toString();
        return changed;
    }

    /**
     * Threads of the build. They end with it. Default: as many as processors.
     *
     * @param threads 1 to 1,024
     * @return the changed options
     */
    public final T threads(int threads) {
        if (threads < 1) {
            throw new IllegalArgumentException("threads is " + threads + "; give at least 1");
        }
        T changed = copy();
        changed.threads = threads;
        return changed;
    }

    /**
     * Metadata of the program, stored in the file. Default: none.
     *
     * @param bytes the metadata
     * @return the changed options
     */
    public final T metadata(byte[] bytes) {
        T changed = copy();
        changed.metadata = bytes.clone();
        return changed;
    }
}
