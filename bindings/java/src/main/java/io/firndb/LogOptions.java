package io.firndb;

import java.nio.file.Path;

/** How to open a log store. Immutable: each method returns changed options. */
public final class LogOptions {
    private static final int CREATE = 1;
    private static final int READ_ONLY = 2;
    private static final int SYNC = 4;
    private static final int BUFFERED = 8;
    private static final int BACKGROUND = 16;
    private static final int APPEND_MAP = 32;
    private static final int APPEND_WRITE = 64;
    private static final int ORDERED = 128;
    private static final LogOptions DEFAULTS =
            new LogOptions(CREATE | BACKGROUND, 64 << 20, 0.5, 0, 256 << 20);

    private final int flags;
    private final long segmentBytes;
    private final double compactionThreshold;
    private final long compactionRate;
    private final long checkpointBytes;

    private LogOptions(
            int flags, long segmentBytes, double compactionThreshold, long compactionRate,
            long checkpointBytes) {
        this.flags = flags;
        this.segmentBytes = segmentBytes;
        this.compactionThreshold = compactionThreshold;
        this.compactionRate = compactionRate;
        this.checkpointBytes = checkpointBytes;
    }

    /**
     * The defaults: open or create a store for reading and writing.
     *
     * @return the default options
     */
    public static LogOptions defaults() {
        return DEFAULTS;
    }

    private LogOptions flag(int flag, boolean isSet) {
        int changed = isSet ? flags | flag : flags & ~flag;
        return new LogOptions(
                changed, segmentBytes, compactionThreshold, compactionRate, checkpointBytes);
    }

    /**
     * Create the store if there is none. Default: yes.
     *
     * @param create whether to create it
     * @return the changed options
     */
    public LogOptions create(boolean create) {
        return flag(CREATE, create);
    }

    /**
     * Create the store as an ordered one, whose keys can be read in byte order: see
     * {@link LogStore#range}. A store keeps its kind: an ordered one is opened as one with either
     * value, and opening one that is not ordered with {@code true} is an error. Default: no.
     *
     * @param ordered whether to create an ordered store
     * @return the changed options
     */
    public LogOptions ordered(boolean ordered) {
        return flag(ORDERED, ordered);
    }

    /**
     * Open for reading only, without a lock; another process may write. Default: no.
     *
     * @param readOnly whether to only read
     * @return the changed options
     */
    public LogOptions readOnly(boolean readOnly) {
        return flag(READ_ONLY, readOnly);
    }

    /**
     * Durability of writes that do not set one. Default: {@link Durability#OS}.
     *
     * @param durability the durability
     * @return the changed options
     */
    public LogOptions durability(Durability durability) {
        return flag(SYNC, durability == Durability.SYNC);
    }

    /**
     * How records are read. Default: {@link Access#MAP}. {@link Access#BUFFERED} reports a
     * failing disk as an exception; a get takes a microsecond more.
     *
     * @param access {@code MAP} or {@code BUFFERED}
     * @return the changed options
     */
    public LogOptions access(Access access) {
        if (access != Access.MAP && access != Access.BUFFERED) {
            throw new IllegalArgumentException("log stores have access MAP and BUFFERED");
        }
        return flag(BUFFERED, access == Access.BUFFERED);
    }

    /**
     * How records are appended. Default: {@link AppendMode#AUTO}.
     *
     * @param mode the mode
     * @return the changed options
     */
    public LogOptions appendMode(AppendMode mode) {
        return flag(APPEND_MAP, mode == AppendMode.MAP)
                .flag(APPEND_WRITE, mode == AppendMode.WRITE);
    }

    /**
     * Do maintenance (compaction, checkpoints) in threads of the store. Otherwise the program
     * calls {@link LogStore#maintain}. These threads never enter the JVM. Default: yes.
     *
     * @param background whether to have threads
     * @return the changed options
     */
    public LogOptions background(boolean background) {
        return flag(BACKGROUND, background);
    }

    /**
     * Largest size of a segment file. A store of more than 64 GiB uses larger ones by itself.
     * Default: 64 MiB.
     *
     * @param bytes 4 KiB to 8 GiB
     * @return the changed options
     */
    public LogOptions segmentBytes(long bytes) {
        return new LogOptions(flags, bytes, compactionThreshold, compactionRate, checkpointBytes);
    }

    /**
     * Share of a segment that must be stale for compaction to copy the rest. Default: 0.5.
     *
     * @param share 0.01 to 0.99
     * @return the changed options
     */
    public LogOptions compactionThreshold(double share) {
        return new LogOptions(flags, segmentBytes, share, compactionRate, checkpointBytes);
    }

    /**
     * How much compaction may copy. Default: no limit.
     *
     * @param bytesPerSecond the rate, or 0 for no limit
     * @return the changed options
     */
    public LogOptions compactionRate(long bytesPerSecond) {
        checkSize(bytesPerSecond);
        return new LogOptions(
                flags, segmentBytes, compactionThreshold, bytesPerSecond, checkpointBytes);
    }

    /**
     * Bytes of log between two checkpoints, which bounds what an opening after a crash has to
     * read. Default: 256 MiB.
     *
     * @param bytes the distance
     * @return the changed options
     */
    public LogOptions checkpointBytes(long bytes) {
        checkSize(bytes);
        return new LogOptions(flags, segmentBytes, compactionThreshold, compactionRate, bytes);
    }

    private static void checkSize(long bytes) {
        if (bytes < 0) {
            throw new IllegalArgumentException("a size is negative: " + bytes);
        }
    }

    /** Opens the store in this directory, and returns its number. */
    long open(Path path) {
        return Native.logOpen(
                path.toString(), flags, segmentBytes, compactionRate, checkpointBytes,
                compactionThreshold);
    }
}
