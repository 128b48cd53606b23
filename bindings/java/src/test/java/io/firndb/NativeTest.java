package io.firndb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The table of native methods, and the exceptions that they throw. */
class NativeTest {
    @BeforeAll
    static void load() {
        NativeLibrary.load();
    }

    @Test
    void theClassDeclaresWhatTheLibraryHas() {
        Set<String> declared = Arrays.stream(Native.class.getDeclaredMethods())
                .filter(method -> Modifier.isNative(method.getModifiers()))
                .map(NativeTest::signature)
                .collect(Collectors.toCollection(TreeSet::new));
        assertEquals(declared, new TreeSet<>(Arrays.asList(Native.methods())));
    }

    private static String signature(Method method) {
        MethodType type = MethodType.methodType(method.getReturnType(), method.getParameterTypes());
        return method.getName() + type.toMethodDescriptorString();
    }

    @Test
    void exceptionsAreThoseOfTheTableOfKinds() {
        String[] kinds = Native.errorKinds();
        // All but the invalid argument, and the internal error, which is no kind of the library.
        assertEquals(ErrorKind.values().length, kinds.length);
        for (String kind : kinds) {
            String[] words = kind.split(" ");
            int code = Integer.parseInt(words[0]);
            RuntimeException made = Native.exception(code, "message", "/a/b", 7);
            assertEquals("message", made.getMessage());
            Class<?> base =
                    made instanceof FirnException ? made.getClass().getSuperclass() : made.getClass();
            assertEquals(words[2], base.getSimpleName());
            if (made instanceof FirnException error) {
                assertEquals(words[1].toUpperCase(java.util.Locale.ROOT), error.kind().name());
                assertEquals(code, error.kind().exitCode());
                assertEquals("/a/b", error.path().toString());
                assertEquals(7, error.offset());
            } else {
                assertEquals("invalid_argument", words[1]);
            }
        }
    }

    @Test
    void aPanicIsAnException() {
        InternalException error =
                assertThrows(InternalException.class, () -> Native.panic("\u00e9t\u00e9 \ud83d\ude00"));
        assertEquals("panic: \u00e9t\u00e9 \ud83d\ude00", error.getMessage());
        assertEquals(ErrorKind.INTERNAL, error.kind());
        assertEquals(null, error.path());
        assertEquals(-1, error.offset());
        assertTrue(Native.methods().length > 50);
    }

    @Test
    void numbersThatAreNoHandlesAreRefused() {
        Native forged = new Native(Native.Kind.TABLE, 0);
        for (long id : new long[] {0, 1, -1, Long.MAX_VALUE, Long.MIN_VALUE, 1L << 32 | 77777}) {
            assertThrows(IllegalStateException.class, () -> forged.tableLength(id));
            assertThrows(IllegalStateException.class, () -> forged.logLength(id));
            Native.tableClose(id);
            Native.logClose(id);
        }
        forged.close();
    }
}
