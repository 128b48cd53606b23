package io.firndb;

import static io.firndb.Tests.bytes;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.function.IntSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Gets into a buffer allocate nothing on the Java heap. */
class AllocationTest {
    private static final int CALLS = 2000;

    @TempDir
    Path dir;

    interface ArrayGet {
        int get(byte[] key, ByteBuffer to);
    }

    interface BufferGet {
        int get(ByteBuffer key, ByteBuffer to);
    }

    @Test
    void ofLogStores() {
        try (LogStore store = LogStore.open(dir.resolve("log"))) {
            byte[] key = bytes("key 7");
            store.put(key, bytes("value 7"));
            assertTrue(allocated(() -> store.get(key).length) >= CALLS * 24);
            checkGets(store::get, store::get);
        }
    }

    @Test
    void ofTables() {
        try (Table table = Table.open(Tests.table(dir, 10))) {
            checkGets(table::get, table::get);
        }
    }

    @Test
    void ofApproximateTables() {
        Path file = dir.resolve("approximate");
        ApproximateBuilder.Options width = ApproximateBuilder.Options.defaults().valueWidth(7);
        try (ApproximateBuilder builder = ApproximateBuilder.create(file, width)) {
            builder.add(bytes("key 7"), bytes("value 7"));
            builder.finish();
        }
        try (ApproximateTable table = ApproximateTable.open(file)) {
            checkGets(table::get, table::get);
        }
    }

    private static void checkGets(ArrayGet byArray, BufferGet byBuffer) {
        byte[] key = bytes("key 7");
        byte[] absent = bytes("no such key");
        ByteBuffer heapKey = ByteBuffer.wrap(key);
        ByteBuffer directKey = ByteBuffer.allocateDirect(key.length).put(key).flip();
        ByteBuffer small = ByteBuffer.allocateDirect(3);
        for (ByteBuffer to : List.of(ByteBuffer.allocate(100), ByteBuffer.allocateDirect(100))) {
            checkNothing(7, () -> byArray.get(key, to.clear()));
            checkNothing(7, () -> byBuffer.get(heapKey, to.clear()));
            checkNothing(7, () -> byBuffer.get(directKey, to.clear()));
            checkNothing(-1, () -> byArray.get(absent, to.clear()));
        }
        checkNothing(7, () -> byArray.get(key, small));
    }

    private static void checkNothing(int length, IntSupplier get) {
        assertEquals(length, get.getAsInt());
        assertEquals(0, allocated(get), "bytes in " + CALLS + " gets");
    }

    /**
     * The bytes that this thread allocates in {@link #CALLS} calls: the least of several runs, since
     * the JVM sometimes allocates some bytes when it compiles or links a method.
     */
    private static long allocated(IntSupplier call) {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        assumeTrue(threads.isThreadAllocatedMemorySupported());
        long least = Long.MAX_VALUE;
        for (int run = 0; run < 5 && least > 0; run++) {
            long before = threads.getCurrentThreadAllocatedBytes();
            repeat(call);
            least = Math.min(least, threads.getCurrentThreadAllocatedBytes() - before);
        }
        return least;
    }

    private static void repeat(IntSupplier call) {
        for (int i = 0; i < CALLS; i++) {
            call.getAsInt();
        }
    }
}
