package io.firndb;

import java.time.Duration;
import java.time.Instant;
import java.util.Objects;

/**
 * Options of one write. Immutable: each method returns changed options.
 *
 * <pre>{@code
 * WriteOptions session = WriteOptions.sync().ttl(Duration.ofHours(1));
 * }</pre>
 */
public final class WriteOptions {
    private static final WriteOptions DEFAULTS = new WriteOptions(-1, Packing.UNSPECIFIED, 0);
    private static final WriteOptions SYNC = DEFAULTS.durability(Durability.SYNC);

    /** The numbers of lifetimes on the native side. */
    static final class Packing {
        static final int UNSPECIFIED = 0;
        static final int TTL = 1;
        static final int AT = 2;
        static final int FOREVER = 3;

        private Packing() {}
    }

    /** The number of the durability, or -1 for that of the store. */
    final int durability;
    /** What {@link #time} means. */
    final int lifetime;
    /** Milliseconds. */
    final long time;

    private WriteOptions(int durability, int lifetime, long time) {
        this.durability = durability;
        this.lifetime = lifetime;
        this.time = time;
    }

    /**
     * The durability of the store, and no expiry. Then a put writes records that do not expire, and
     * a write that changes a value (an update, compare-and-set or append) keeps the expiry of the
     * record that it replaces.
     *
     * @return the default options
     */
    public static WriteOptions defaults() {
        return DEFAULTS;
    }

    /**
     * A write that is acknowledged when it survives a power cut.
     *
     * @return the default options with {@link Durability#SYNC}
     */
    public static WriteOptions sync() {
        return SYNC;
    }

    /**
     * When the write is acknowledged. Default: as in the options of the store.
     *
     * @param durability the durability
     * @return the changed options
     */
    public WriteOptions durability(Durability durability) {
        return new WriteOptions(durability.ordinal(), lifetime, time);
    }

    /**
     * Time to live of the records, from the moment of the write. Replaces an expiry set before.
     *
     * @param ttl the time, rounded down to milliseconds; not negative
     * @return the changed options
     */
    public WriteOptions ttl(Duration ttl) {
        return new WriteOptions(durability, Packing.TTL, Buffers.millis(ttl));
    }

    /**
     * When the records expire. Replaces a time to live set before.
     *
     * @param time the time, rounded down to milliseconds. One that has passed is allowed: then the
     *     record has expired as soon as it is written. {@link Instant#MAX} is never.
     * @return the changed options
     */
    public WriteOptions expiry(Instant time) {
        if (Objects.requireNonNull(time, "time").equals(Instant.MAX)) {
            return new WriteOptions(durability, Packing.FOREVER, 0);
        }
        return new WriteOptions(durability, Packing.AT, Buffers.millis(time));
    }

    /** Whether the options say when records expire. */
    boolean setsLifetime() {
        return lifetime != Packing.UNSPECIFIED;
    }
}
