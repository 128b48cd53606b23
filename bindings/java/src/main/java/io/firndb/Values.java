package io.firndb;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.Instant;

/**
 * Values of fields as objects of Java: {@link Boolean}, {@link Long}, {@link Double},
 * {@link String}, {@code byte[]}, {@link Instant}, and {@link BigInteger} for a {@code u64} above
 * the largest {@code long}.
 */
final class Values {
    private static final int BOOL = 1;
    private static final int I64 = 2;
    private static final int U64 = 3;
    private static final int F64 = 4;
    private static final int TIMESTAMP = 5;
    private static final int STRING = 6;
    private static final int BYTES = 7;

    private Values() {}

    /** Adds a value to what crosses to native code. */
    static void pack(Packed packed, Object value) {
        if (value instanceof String text) {
            packed.addByte(STRING);
            packed.addText(text);
        } else if (value instanceof Long || value instanceof Integer || value instanceof Short
                || value instanceof Byte) {
            packed.addByte(I64);
            packed.addLong(((Number) value).longValue());
        } else if (value instanceof Double || value instanceof Float) {
            packed.addByte(F64);
            packed.addLong(Double.doubleToRawLongBits(((Number) value).doubleValue()));
        } else if (value instanceof Boolean truth) {
            packed.addByte(BOOL);
            packed.addLong(truth ? 1 : 0);
        } else if (value instanceof Instant time) {
            packed.addByte(TIMESTAMP);
            packed.addLong(micros(time));
        } else if (value instanceof byte[] bytes) {
            packed.addByte(BYTES);
            packed.addBytes(bytes);
        } else if (value instanceof ByteBuffer buffer) {
            packed.addByte(BYTES);
            packed.addBytes(Buffers.copy(buffer));
        } else if (value instanceof BigInteger number) {
            packed.addByte(number.bitLength() < 64 ? I64 : U64);
            packed.addLong(checked(number).longValue());
        } else {
            throw wrongClass(value);
        }
    }

    private static IllegalArgumentException wrongClass(Object value) {
        String type = value == null ? "null" : value.getClass().getName();
        return new IllegalArgumentException(
                "a value is a Boolean, Integer, Long, BigInteger, Double, String, byte[],"
                        + " ByteBuffer or Instant, not " + type);
    }

    /** The value as it would be read back: a copy, of one of the classes above. */
    static Object canonical(Object value) {
        if (value instanceof String || value instanceof Long || value instanceof Double
                || value instanceof Boolean) {
            return value;
        } else if (value instanceof Integer || value instanceof Short || value instanceof Byte) {
            return ((Number) value).longValue();
        } else if (value instanceof Float number) {
            return number.doubleValue();
        } else if (value instanceof Instant time) {
            return instant(micros(time));
        } else if (value instanceof byte[] bytes) {
            return bytes.clone();
        } else if (value instanceof ByteBuffer buffer) {
            return Buffers.copy(buffer);
        } else if (value instanceof BigInteger number) {
            return number.bitLength() < 64 ? (Object) number.longValue() : checked(number);
        }
        throw wrongClass(value);
    }

    private static BigInteger checked(BigInteger number) {
        if (number.bitLength() > (number.signum() < 0 ? 63 : 64)) {
            throw new IllegalArgumentException("an integer has more than 64 bits: " + number);
        }
        return number;
    }

    /** Microseconds since 1970, rounded down. */
    static long micros(Instant time) {
        try {
            long seconds = time.getEpochSecond();
            long micros = time.getNano() / 1000;
            // The product alone may be below the range of a long if the sum is not.
            return seconds >= 0
                    ? Math.addExact(Math.multiplyExact(seconds, 1_000_000L), micros)
                    : Math.addExact(
                            Math.multiplyExact(seconds + 1, 1_000_000L), micros - 1_000_000L);
        } catch (ArithmeticException e) {
            throw new IllegalArgumentException("a time is out of range: " + time, e);
        }
    }

    /** A time from microseconds since 1970. */
    static Instant instant(long micros) {
        long seconds = Math.floorDiv(micros, 1_000_000L);
        return Instant.ofEpochSecond(seconds, Math.floorMod(micros, 1_000_000L) * 1000);
    }

    /** The value of a {@code u64}. */
    static Number unsigned(long bits) {
        return bits >= 0 ? (Number) bits : new BigInteger(Long.toUnsignedString(bits));
    }

    /** Reads a value, or null. */
    static Object unpack(Unpacked from) {
        return switch (from.nextByte()) {
            case BOOL -> from.nextLong() != 0;
            case I64 -> from.nextLong();
            case U64 -> unsigned(from.nextLong());
            case F64 -> Double.longBitsToDouble(from.nextLong());
            case TIMESTAMP -> instant(from.nextLong());
            case STRING -> from.nextText();
            case BYTES -> from.nextBytes();
            default -> null;
        };
    }
}
