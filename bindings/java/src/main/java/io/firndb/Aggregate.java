package io.firndb;

import java.math.BigInteger;
import java.nio.ByteBuffer;

/**
 * Figures of the values of a field in some documents.
 *
 * @param count the number of values
 * @param min the smallest value, or {@code null} if there are none
 * @param max the largest value, or {@code null} if there are none
 * @param sum the sum: a {@link Long} or {@link BigInteger} for integers, which is exact, and a
 *     {@link Double} for numbers with a fraction; {@code null} without values, and for other types
 * @param average the average; {@code null} without values, and for other types
 */
public record Aggregate(long count, Object min, Object max, Number sum, Double average) {
    private static final int NO_SUM = 0;
    private static final int INTEGER = 1;

    static Aggregate unpack(Unpacked from) {
        return new Aggregate(
                from.nextLong(), from.nextValue(), from.nextValue(), unpackSum(from),
                from.nextByte() == 0 ? null : Double.longBitsToDouble(from.nextLong()));
    }

    private static Number unpackSum(Unpacked from) {
        switch (from.nextByte()) {
            case NO_SUM:
                return null;
            case INTEGER:
                long low = from.nextLong();
                long high = from.nextLong();
                if (high == low >> 63) {
                    return low;
                }
                return new BigInteger(ByteBuffer.allocate(16).putLong(high).putLong(low).array());
            default:
                return Double.longBitsToDouble(from.nextLong());
        }
    }
}
