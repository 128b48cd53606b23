package io.firndb;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/** Reads what native code packed, in order. */
final class Unpacked {
    private final byte[] bytes;
    private int at;

    Unpacked(byte[] bytes) {
        this.bytes = bytes;
    }

    boolean isOver() {
        return at == bytes.length;
    }

    /** All bytes that are left. */
    byte[] rest() {
        byte[] rest = Arrays.copyOfRange(bytes, at, bytes.length);
        at = bytes.length;
        return rest;
    }

    int nextByte() {
        return bytes[at++] & 0xff;
    }

    int nextInt() {
        at += 4;
        return Packed.intAt(bytes, at - 4);
    }

    long nextLong() {
        at += 8;
        return Packed.longAt(bytes, at - 8);
    }

    byte[] nextBytes() {
        int length = nextInt();
        at += length;
        return Arrays.copyOfRange(bytes, at - length, at);
    }

    String nextText() {
        int length = nextInt();
        at += length;
        return new String(bytes, at - length, length, StandardCharsets.UTF_8);
    }

    /** Several values of a field after their number, as a list that cannot be changed. */
    List<Object> nextValues() {
        Object[] values = new Object[nextInt()];
        for (int i = 0; i < values.length; i++) {
            values[i] = nextValue();
        }
        return List.of(values);
    }

    /** Texts after their number. */
    List<String> nextTexts() {
        String[] texts = new String[nextInt()];
        for (int i = 0; i < texts.length; i++) {
            texts[i] = nextText();
        }
        return List.of(texts);
    }

    /** A value of a field, or null: see {@link Values}. */
    Object nextValue() {
        return Values.unpack(this);
    }
}
