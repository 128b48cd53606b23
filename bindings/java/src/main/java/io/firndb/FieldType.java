package io.firndb;

/** The type of the values of a field, and their class in Java. */
public enum FieldType {
    /** {@link Boolean}. */
    BOOL,
    /** A signed integer of 64 bits: {@link Long}. */
    I64,
    /** An unsigned integer of 64 bits: {@link Long}, or {@link java.math.BigInteger} above that. */
    U64,
    /** A {@link Double}, but not NaN. -0.0 is stored as 0.0. */
    F64,
    /** A time in microseconds: {@link java.time.Instant}. */
    TIMESTAMP,
    /** A {@link String}, ordered by its bytes in UTF-8. */
    STRING,
    /** {@code byte[]}, ordered as unsigned bytes. */
    BYTES;

    private static final FieldType[] ALL = values();

    /** The number in native code, from 1 on. */
    int code() {
        return ordinal() + 1;
    }

    static FieldType of(int code) {
        return ALL[code - 1];
    }
}
