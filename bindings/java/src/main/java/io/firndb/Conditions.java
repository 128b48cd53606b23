package io.firndb;

import java.util.Objects;

/**
 * Versions that keys must have for a batch to be written: see {@link LogStore#writeIf}. For one
 * thread at a time.
 */
public final class Conditions {
    final Packed packed = new Packed(128);

    /** Creates an empty list of conditions, which holds. */
    public Conditions() {}

    /**
     * The key must have this version.
     *
     * @param key the key
     * @param version a version from {@link LogStore#getVersioned}
     * @return these conditions
     */
    public Conditions version(byte[] key, long version) {
        return add(1, version, key);
    }

    /**
     * The key must be absent, or its record must have expired.
     *
     * @param key the key
     * @return these conditions
     */
    public Conditions absent(byte[] key) {
        return add(0, 0, key);
    }

    private Conditions add(int isPresent, long version, byte[] key) {
        Objects.requireNonNull(key, "key");
        packed.addByte(isPresent);
        packed.addLong(version);
        packed.addBytes(key);
        return this;
    }
}
