package io.firndb;

import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.function.LongFunction;
import java.util.function.Supplier;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * Iterates over records, for one thread at a time. Close it: an iterator of a log store keeps files
 * that compaction would remove. It closes itself at the end. The store may be closed first.
 */
public final class EntryIterator implements Iterator<Entry>, AutoCloseable {
    /** Bytes of records that are read at a time. */
    static final int PAGE_BYTES = 256 << 10;

    /** Returns the next page of packed records; an empty one at the end. */
    private final Supplier<byte[]> pages;
    /** What to close, or null. */
    private final Native handle;

    private byte[] page = {};
    private int offset;
    private boolean isOver;

    EntryIterator(Native handle, Supplier<byte[]> pages) {
        this.handle = handle;
        this.pages = pages;
    }

    /** An iterator over pages that begin with the cursor of the next page. */
    static EntryIterator overPages(LongFunction<byte[]> read) {
        long[] cursor = {0};
        Supplier<byte[]> next = () -> {
            byte[] page = {};
            while (page.length <= 8 && cursor[0] >= 0) {
                page = read.apply(cursor[0]);
                cursor[0] = Packed.longAt(page, 0);
            }
            return page.length <= 8 ? new byte[0] : Arrays.copyOfRange(page, 8, page.length);
        };
        return new EntryIterator(null, next);
    }

    /**
     * Whether there is another record.
     *
     * @return true if {@link #next} returns one
     * @throws CorruptException if a record is damaged
     * @throws IllegalStateException if the iterator was closed before its end
     */
    @Override
    public boolean hasNext() {
        if (offset < page.length) {
            return true;
        }
        if (isOver) {
            return false;
        }
        page = pages.get();
        offset = 0;
        if (page.length == 0) {
            close();
        }
        return page.length > 0;
    }

    /**
     * The next record.
     *
     * @return its key and value
     * @throws NoSuchElementException if there is none
     * @throws CorruptException if a record is damaged
     */
    @Override
    public Entry next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        int key = offset + 8;
        int value = key + Packed.intAt(page, offset);
        offset = value + Packed.intAt(page, offset + 4);
        return new Entry(
                Arrays.copyOfRange(page, key, value), Arrays.copyOfRange(page, value, offset));
    }

    /** Ends the iteration. Has no effect if it has ended. */
    @Override
    public void close() {
        isOver = true;
        page = new byte[0];
        offset = 0;
        if (handle != null) {
            handle.close();
        }
    }

    /**
     * The remaining records as a stream, in the same order.
     *
     * @return a stream, whose closing closes the iterator
     */
    public Stream<Entry> stream() {
        int traits = Spliterator.ORDERED | Spliterator.NONNULL | Spliterator.IMMUTABLE
                | Spliterator.DISTINCT;
        Spliterator<Entry> records = Spliterators.spliteratorUnknownSize(this, traits);
        return StreamSupport.stream(records, false).onClose(this::close);
    }
}
