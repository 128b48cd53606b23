package io.firndb;

import static io.firndb.Tests.bytes;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * A program in which 8 threads call objects that another thread closes. Its arguments are a
 * directory and the number of rounds. A crash of the JVM, a wrong answer or an exception other than
 * {@link IllegalStateException} is a failure.
 */
final class CloseRace {
    private static final int THREADS = 8;

    /** Calls of a thread in a round before it leaves the processor to the thread that closes. */
    private static final int CALLS = 20;
    private static final long PAUSE = 20_000;

    /** What is open in a round. */
    private record Open(Table table, LogStore store, Snapshot snapshot, EntryIterator records) {}

    private static volatile Open open;
    private static volatile boolean isOver;
    private static volatile Throwable failure;
    private static final AtomicLong ANSWERS = new AtomicLong();
    private static final AtomicLong REFUSALS = new AtomicLong();

    private CloseRace() {}

    /**
     * Runs the program.
     *
     * @param args directory, rounds
     */
    public static void main(String[] args) throws Exception {
        Path dir = Path.of(args[0]);
        int rounds = Integer.parseInt(args[1]);
        Path file = Tests.table(dir, 100);
        LogOptions options = LogOptions.defaults().background(false);
        try (LogStore store = LogStore.open(dir.resolve("store"), options)) {
            store.put(bytes("key 1"), bytes("value 1"));
        }
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            int number = i;
            threads.add(new Thread(() -> callUntilOver(number)));
        }
        LogStore store = LogStore.open(dir.resolve("store"), options);
        open = new Open(Table.open(file), store, store.snapshot(), store.iterator());
        threads.forEach(Thread::start);
        for (int round = 0; round < rounds && failure == null; round++) {
            Open old = open;
            long answers = ANSWERS.get();
            while (ANSWERS.get() == answers && failure == null) {
                Thread.yield();
            }
            old.table().close();
            old.snapshot().close();
            old.records().close();
            LogStore next = old.store();
            if (round % 50 == 0) {
                old.store().close();
                next = LogStore.open(dir.resolve("store"), options);
            }
            open = new Open(Table.open(file), next, next.snapshot(), next.iterator());
        }
        isOver = true;
        for (Thread thread : threads) {
            thread.join();
        }
        if (failure != null) {
            throw new AssertionError(failure);
        }
        if (REFUSALS.get() == 0) {
            throw new AssertionError("no call came too late");
        }
        System.out.println("survived");
    }

    private static void callUntilOver(int number) {
        ByteBuffer to = number % 2 == 0 ? ByteBuffer.allocate(20) : ByteBuffer.allocateDirect(20);
        Open current = null;
        int calls = 0;
        for (int i = number; !isOver && failure == null; i++) {
            if (current != open) {
                current = open;
                calls = 0;
            }
            try {
                call(current, i, to.clear());
                ANSWERS.incrementAndGet();
                if (++calls > CALLS) {
                    LockSupport.parkNanos(PAUSE);
                }
            } catch (IllegalStateException e) {
                REFUSALS.incrementAndGet();
                while (current == open && !isOver && failure == null) {
                    LockSupport.parkNanos(PAUSE);
                }
            } catch (Throwable e) {
                failure = e;
            }
        }
    }

    private static void call(Open o, int i, ByteBuffer to) {
        byte[] key = bytes("key 1");
        switch (i % 8) {
            case 0 -> check(o.table().get(key));
            case 1 -> check(o.table().getMany(List.of(key, bytes("absent"))).get(0));
            case 2 -> o.table().get(key, to);
            case 3 -> check(o.store().get(key));
            case 4 -> o.store().get(key, to);
            case 5 -> check(o.snapshot().get(key));
            case 6 -> o.store().put(key, bytes("value 1"));
            default -> o.table().scan(0, 10);
        }
    }

    private static void check(byte[] value) {
        if (!"value 1".equals(Tests.text(value))) {
            throw new AssertionError("a wrong value: " + Tests.text(value));
        }
    }
}
