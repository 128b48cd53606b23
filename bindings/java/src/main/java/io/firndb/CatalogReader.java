package io.firndb;

import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;

/**
 * Keeps a version of a name open, and switches to newer versions while queries run. Any number of
 * threads may use it. {@link Catalog#reader} opens one.
 *
 * <pre>{@code
 * try (Generation generation = reader.current()) {   // one version, for one request
 *     byte[] value = generation.table().get(key);
 * }
 * }</pre>
 *
 * <p>A reader switches when {@link #refresh} is called: by a task that the program schedules, or by
 * a thread of the reader ({@link CatalogReaderOptions#follow}). All methods throw
 * {@link IllegalStateException} if the reader is closed.
 */
public final class CatalogReader implements AutoCloseable {
    private final Native handle;
    private final String name;
    private final Path cacheDir;

    CatalogReader(Native handle, String name, Path cacheDir) {
        this.handle = handle;
        this.name = name;
        this.cacheDir = cacheDir;
    }

    /**
     * The name whose versions the reader opens.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * The directory of the reader's files.
     *
     * @return its absolute path
     */
    public Path cacheDir() {
        return cacheDir;
    }

    /**
     * The open version. Never waits, also not for a refresh. It stays usable until it is closed,
     * even if the reader switches to another version or is closed: use one generation for
     * one request.
     *
     * @return the version; close it
     */
    public Generation current() {
        long id = handle.catalogReaderCurrent(handle.id);
        return new Generation(new Native(Native.Kind.GENERATION, id));
    }

    /**
     * Switches to the newest version if it is newer than the open one: fetches its files, compares
     * every byte with the manifest, opens and warms it next to the open one, and only then
     * switches. Concurrent calls wait for each other.
     *
     * @return whether the reader has switched
     * @throws FirnException if the newest version cannot be fetched or opened. The open version
     *     stays in use, and the next call tries again. A task that is scheduled with a fixed rate
     *     or delay must catch this exception: the JDK does not run it again otherwise.
     */
    public boolean refresh() {
        return handle.catalogReaderRefresh(handle.id);
    }

    /**
     * The state of the reader.
     *
     * @return the figures
     */
    public Stats stats() {
        return Stats.of(new Unpacked(handle.catalogReaderStats(handle.id)));
    }

    /**
     * The state of a reader at one moment. Counts begin when it is opened.
     *
     * @param version the number of the open version
     * @param newest the number of the newest version that the reader has found. If it is not the
     *     open one, {@code lastError} says why.
     * @param swaps how often the reader switched to a newer version
     * @param switched when the open version became current
     * @param opening how long opening its files took, without fetching them
     * @param warming how long warming it took ({@link CatalogReaderOptions#warm})
     * @param files files that were fetched or linked
     * @param bytes bytes of these files
     * @param failures how often a refresh failed
     * @param lastError the error of the last refresh; {@code null} if it succeeded
     */
    public record Stats(
            long version,
            long newest,
            long swaps,
            Instant switched,
            Duration opening,
            Duration warming,
            long files,
            long bytes,
            long failures,
            String lastError) {
        private static Stats of(Unpacked from) {
            return new Stats(
                    from.nextLong(), from.nextLong(), from.nextLong(),
                    Values.instant(from.nextLong()), Duration.ofNanos(from.nextLong()),
                    Duration.ofNanos(from.nextLong()), from.nextLong(), from.nextLong(),
                    from.nextLong(), Version.nextOptional(from));
        }
    }

    /**
     * Closes the reader, and ends its thread if it has one. A refresh that runs in another thread
     * ends soon, and throws {@link IllegalStateException}. Waits for running calls. Generations
     * stay usable until they are closed; the files stay in the directory. Has no effect if it is
     * closed.
     */
    @Override
    public void close() {
        handle.close();
    }
}
