package io.firndb;

import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.time.Duration;
import java.time.Instant;

/**
 * Turns arguments into those of native methods.
 *
 * <p>The position and the limit of a buffer are read once each, so that an offset and a length
 * computed from them are within its bounds even if another thread changes them.
 */
final class Buffers {
    private Buffers() {}

    /** The buffer, or a copy if native code can reach neither its array nor its memory. */
    static ByteBuffer reachable(ByteBuffer buffer) {
        if (buffer.hasArray() || buffer.isDirect()) {
            return buffer;
        }
        return ByteBuffer.wrap(copy(buffer));
    }

    /** The bytes from the position of a buffer to its limit. */
    static byte[] copy(ByteBuffer buffer) {
        ByteBuffer from = buffer.duplicate();
        byte[] copy = new byte[from.remaining()];
        from.get(copy);
        return copy;
    }

    /** The array of a buffer, or null if it is direct. */
    static byte[] array(ByteBuffer buffer) {
        return buffer.hasArray() ? buffer.array() : null;
    }

    /** The buffer if it is direct, or null. */
    static ByteBuffer direct(ByteBuffer buffer) {
        return buffer.hasArray() ? null : buffer;
    }

    /** The offset of a position in the array or the memory of a buffer. */
    static int offset(ByteBuffer buffer, int position) {
        return buffer.hasArray() ? buffer.arrayOffset() + position : position;
    }

    /** The number of bytes from a position to the limit. */
    static int length(ByteBuffer buffer, int position) {
        return Math.max(buffer.limit() - position, 0);
    }

    /** The position of a buffer that can be written to. */
    static int writable(ByteBuffer to) {
        if (to.isReadOnly()) {
            throw new ReadOnlyBufferException();
        }
        return to.position();
    }

    /** Advances the position of a buffer if the value was copied. */
    static int advance(ByteBuffer to, int at, int room, int length) {
        if (length >= 0 && length <= room) {
            to.position(at + length);
        }
        return length;
    }

    /** A time to live in milliseconds. */
    static long millis(Duration ttl) {
        return millis("the time to live", ttl);
    }

    /** A time in milliseconds, which a message calls {@code what}. */
    static long millis(String what, Duration time) {
        if (time.isNegative()) {
            throw new IllegalArgumentException(what + " is negative: " + time);
        }
        try {
            return time.toMillis();
        } catch (ArithmeticException e) {
            return Long.MAX_VALUE;
        }
    }

    /** A time in milliseconds since 1970; 0 if it is earlier. */
    static long millis(Instant time) {
        try {
            return Math.max(time.toEpochMilli(), 0);
        } catch (ArithmeticException e) {
            return time.isAfter(Instant.EPOCH) ? Long.MAX_VALUE : 0;
        }
    }

    /** The time of a result: -2 is that of an absent key, -1 is never. */
    static Instant instant(long millis) {
        if (millis == -2) {
            return null;
        }
        return millis == -1 ? Instant.MAX : Instant.ofEpochMilli(millis);
    }
}
