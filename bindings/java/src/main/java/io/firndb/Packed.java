package io.firndb;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** A growing array of bytes, in which many keys, values or changes cross to native code at once. */
final class Packed {
    private static final VarHandle INT =
            MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle LONG =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    /** Bytes of keys that are passed at a time. */
    private static final int KEY_BYTES = 64 << 20;

    byte[] bytes;
    int length;

    Packed(int capacity) {
        bytes = new byte[capacity];
    }

    void addByte(int value) {
        reserve(1);
        bytes[length++] = (byte) value;
    }

    void addLong(long value) {
        reserve(8);
        LONG.set(bytes, length, value);
        length += 8;
    }

    /** Adds bytes after their length. */
    void addBytes(byte[] value) {
        reserve(4L + value.length);
        INT.set(bytes, length, value.length);
        length += 4;
        addRaw(value);
    }

    /** Adds bytes without their length. */
    void addRaw(byte[] value) {
        reserve(value.length);
        System.arraycopy(value, 0, bytes, length, value.length);
        length += value.length;
    }

    private void reserve(long more) {
        long needed = length + more;
        if (needed > bytes.length) {
            if (needed > Integer.MAX_VALUE - 8) {
                throw new IllegalArgumentException("a batch has at most 2 GiB");
            }
            long doubled = Math.max(needed, Math.min(2L * bytes.length, Integer.MAX_VALUE - 8));
            bytes = Arrays.copyOf(bytes, (int) doubled);
        }
    }

    /** The number at an offset. */
    static int intAt(byte[] bytes, int offset) {
        return (int) INT.get(bytes, offset);
    }

    /** The number at an offset. */
    static long longAt(byte[] bytes, int offset) {
        return (long) LONG.get(bytes, offset);
    }

    /** A native method that returns the values of some keys, and their lengths in an array. */
    interface GetMany {
        byte[] call(byte[] keys, int length, int[] ends, int from, int count, int[] lengths);
    }

    /** The values of keys, in order. Calls the native method once unless the sizes are huge. */
    static List<byte[]> getMany(List<byte[]> keys, GetMany method) {
        byte[][] values = new byte[keys.size()][];
        int start = 0;
        while (start < values.length) {
            Packed packed = new Packed(Math.min(values.length - start, 1 << 16) * 16);
            int[] ends = new int[values.length - start];
            int count = 0;
            while (count < ends.length && (count == 0 || packed.length < KEY_BYTES)) {
                packed.addRaw(keys.get(start + count));
                ends[count++] = packed.length;
            }
            getMany(packed, ends, count, values, start, method);
            start += count;
        }
        return Arrays.asList(values);
    }

    private static void getMany(
            Packed keys, int[] ends, int count, byte[][] values, int start, GetMany method) {
        int[] lengths = new int[count];
        Arrays.fill(lengths, UNANSWERED);
        int done = 0;
        while (done < count) {
            byte[] found =
                    method.call(keys.bytes, keys.length, ends, done, count - done, lengths);
            int offset = 0;
            for (; done < count && lengths[done] != UNANSWERED; done++) {
                if (lengths[done] >= 0) {
                    values[start + done] =
                            Arrays.copyOfRange(found, offset, offset + lengths[done]);
                    offset += lengths[done];
                }
            }
        }
    }

    /** The length of a value that the native method left to another call. */
    private static final int UNANSWERED = -2;

    /** Reads the records of a page from an offset on. */
    static List<Entry> entries(byte[] page, int offset) {
        List<Entry> entries = new ArrayList<>();
        while (offset < page.length) {
            int key = offset + 8;
            int value = key + intAt(page, offset);
            int end = value + intAt(page, offset + 4);
            entries.add(new Entry(
                    Arrays.copyOfRange(page, key, value), Arrays.copyOfRange(page, value, end)));
            offset = end;
        }
        return entries;
    }
}
