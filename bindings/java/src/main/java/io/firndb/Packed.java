package io.firndb;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.BiConsumer;

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

    void addInt(int value) {
        reserve(4);
        INT.set(bytes, length, value);
        length += 4;
    }

    /** Changes the number at an offset. */
    void setInt(int offset, int value) {
        INT.set(bytes, offset, value);
    }

    /** Adds a text as UTF-8 after its length. */
    void addText(String text) {
        checkUnicode(text);
        addBytes(text.getBytes(StandardCharsets.UTF_8));
    }

    /** Refuses half of a pair of surrogates, which UTF-8 cannot represent. */
    static void checkUnicode(String text) {
        for (int i = 0; i < text.length(); i++) {
            if (Character.isSurrogate(text.charAt(i))) {
                checkSurrogates(text);
                break;
            }
        }
    }

    private static void checkSurrogates(String text) {
        int at = 0;
        while (at < text.length()) {
            int point = text.codePointAt(at);
            if (point >= Character.MIN_SURROGATE && point <= Character.MAX_SURROGATE) {
                throw new IllegalArgumentException(
                        "the text is not valid Unicode: an unpaired surrogate at index " + at);
            }
            at += Character.charCount(point);
        }
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
        addRaw(value, 0, value.length);
    }

    /** Adds a part of an array. */
    void addRaw(byte[] value, int from, int count) {
        reserve(count);
        System.arraycopy(value, from, bytes, length, count);
        length += count;
    }

    /** The bytes that were added. */
    byte[] toArray() {
        return Arrays.copyOf(bytes, length);
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

    /** Replaces the number at an offset. */
    static void setLong(byte[] bytes, int offset, long number) {
        LONG.set(bytes, offset, number);
    }

    /** A native method that takes packed items. */
    interface Pass {
        void call(byte[] items, int length);
    }

    /** Bytes of items that are passed at a time. */
    private static final int PASSED_BYTES = 1 << 20;

    /**
     * Packs items, and passes about a megabyte of them at a time. If an item cannot be packed,
     * those before it are passed.
     */
    static <T> void passAll(Iterable<T> items, BiConsumer<T, Packed> pack, Pass method) {
        Packed packed = new Packed(1 << 16);
        for (T item : items) {
            int before = packed.length;
            try {
                pack.accept(item, packed);
            } catch (RuntimeException e) {
                method.call(packed.bytes, before);
                throw e;
            }
            if (packed.length >= PASSED_BYTES) {
                method.call(packed.bytes, packed.length);
                packed.length = 0;
            }
        }
        method.call(packed.bytes, packed.length);
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
