package io.firndb;

import java.time.Instant;

/**
 * A value with its version and its expiry.
 *
 * <p>A version identifies one write: every write of the key changes it, also one that leaves the
 * value as it is. Compaction, reopening, backup and restore keep it. Versions cannot be compared
 * for order.
 *
 * @param value the value
 * @param version the version of the record
 * @param expiry when the record expires; {@link Instant#MAX} if it does not
 */
public record Versioned(byte[] value, long version, Instant expiry) {}
