package io.firndb.bench;

import java.nio.ByteBuffer;
import java.util.SplittableRandom;

/** The records of all engines: keys of 8 bytes and values of 100 random bytes. */
final class Records {
    static final int VALUE_BYTES = 100;

    private Records() {}

    /** The key of a record. */
    static byte[] key(long number) {
        return ByteBuffer.allocate(Long.BYTES).putLong(number).array();
    }

    /** The value of a record. */
    static byte[] value(long number) {
        byte[] value = new byte[VALUE_BYTES];
        new SplittableRandom(number).nextBytes(value);
        return value;
    }

    /** The numbers of all records, in random order. */
    static int[] shuffled(int records) {
        int[] numbers = new int[records];
        SplittableRandom random = new SplittableRandom(7);
        for (int i = 0; i < records; i++) {
            int other = random.nextInt(i + 1);
            numbers[i] = numbers[other];
            numbers[other] = i;
        }
        return numbers;
    }

    /** Keys of random records. */
    static byte[][] randomKeys(int count, int records) {
        SplittableRandom random = new SplittableRandom(11);
        byte[][] keys = new byte[count][];
        for (int i = 0; i < count; i++) {
            keys[i] = key(random.nextInt(records));
        }
        return keys;
    }
}
