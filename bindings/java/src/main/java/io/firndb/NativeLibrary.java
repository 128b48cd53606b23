package io.firndb;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Locale;
import java.util.Set;

/**
 * Loads the native library.
 *
 * <p>{@code -Dio.firndb.native.path=FILE} names the file. Without it, the library of the platform
 * is taken from the jar and written to a directory: {@code -Dio.firndb.native.dir=DIR}, or one in
 * {@code java.io.tmpdir} that belongs to the user. The name of the file contains a hash of its
 * contents, so that versions do not overwrite each other. The file is created atomically, so that
 * several JVMs can start at the same time. It is compared with the jar before it is loaded.
 */
final class NativeLibrary {
    /** Not a constant: a tool that relocates the package must not change what users know. */
    private static final String PACKAGE = String.join(".", "io", "firndb");
    static final String PATH_PROPERTY = PACKAGE + ".native.path";
    static final String DIR_PROPERTY = PACKAGE + ".native.dir";

    private static boolean isLoaded;
    private static UnsatisfiedLinkError failure;

    private NativeLibrary() {}

    /** Loads the library unless it is loaded. An error is thrown by each call. */
    static synchronized void load() {
        if (isLoaded) {
            return;
        }
        if (failure != null) {
            throw because(failure.getMessage(), failure);
        }
        try {
            String path = System.getProperty(PATH_PROPERTY);
            if (path != null) {
                load(Path.of(path).toAbsolutePath(), null);
            } else {
                loadFromJar();
            }
            isLoaded = true;
        } catch (UnsatisfiedLinkError e) {
            failure = e;
            throw e;
        }
    }

    private static void loadFromJar() {
        String name = System.mapLibraryName("firndb_java");
        String platform = platform();
        byte[] library = resource("native/" + platform + "/" + name, platform);
        Path dir = null;
        try {
            dir = directory();
            load(unpack(library, dir, fileName(name, library)), dir);
        } catch (IOException e) {
            throw because("cannot unpack the native library into " + dir + ": " + e
                    + "; choose another directory with -D" + DIR_PROPERTY, e);
        }
    }

    /**
     * Loads a file. The JVM does that for one class loader only, and the file registers its methods
     * with one class only, which may be that of a relocated package. For another class loader or
     * package, loads a copy in {@code dir}, or in the directory of unpacked libraries.
     */
    private static void load(Path file, Path dir) {
        try {
            System.load(file.toString());
            if (isRegistered()) {
                return;
            }
        } catch (UnsatisfiedLinkError e) {
            if (!String.valueOf(e.getMessage()).contains("already loaded in another")) {
                throw because("cannot load " + file + ": " + reason(e.getMessage()), e);
            }
        }
        try {
            loadCopy(file, dir == null ? directory() : dir);
        } catch (IOException e) {
            throw because("cannot copy " + file + ": " + e, e);
        }
    }

    private static boolean isRegistered() {
        try {
            return Native.methods().length > 0;
        } catch (UnsatisfiedLinkError e) {
            return false;
        }
    }

    /**
     * Loads a copy with a unique name. The name is removed after loading, if the system allows it.
     */
    private static void loadCopy(Path file, Path dir) throws IOException {
        Path copy = Files.createTempFile(dir, "copy-", "-" + file.getFileName());
        try {
            Files.copy(file, copy, StandardCopyOption.REPLACE_EXISTING);
            System.load(copy.toString());
        } catch (UnsatisfiedLinkError e) {
            throw because("cannot load " + copy + ": " + reason(e.getMessage()), e);
        } finally {
            try {
                Files.deleteIfExists(copy);
            } catch (IOException e) {
                copy.toFile().deleteOnExit();
            }
        }
    }

    private static byte[] resource(String name, String platform) {
        try (InputStream found = NativeLibrary.class.getResourceAsStream(name)) {
            if (found == null) {
                throw because("the jar of FirnDB has no native library for " + platform
                        + "; build one and name it with -D" + PATH_PROPERTY, null);
            }
            return found.readAllBytes();
        } catch (IOException e) {
            throw because("cannot read " + name + " from the jar of FirnDB: " + e, e);
        }
    }

    /** The platform as in the jar: linux-x86_64, linux-aarch64-musl, macos-aarch64. */
    static String platform() {
        String os = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String arch = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        arch = arch.equals("amd64") || arch.equals("x64") ? "x86_64" : arch;
        if (os.startsWith("mac")) {
            return "macos-" + arch;
        }
        if (os.startsWith("windows")) {
            return "windows-" + arch;
        }
        boolean isMusl = os.equals("linux") && Files.exists(Path.of("/lib/ld-musl-" + arch + ".so.1"))
                && !Files.exists(Path.of("/lib64/ld-linux-x86-64.so.2"))
                && !Files.exists(Path.of("/lib/ld-linux-aarch64.so.1"));
        return os + "-" + arch + (isMusl ? "-musl" : "");
    }

    /** The name of the unpacked file, with a hash of the contents. */
    private static String fileName(String name, byte[] library) {
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(library);
            int dot = name.lastIndexOf('.');
            String hex = HexFormat.of().formatHex(hash, 0, 12);
            return name.substring(0, dot) + "-" + hex + name.substring(dot);
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError("every JVM has SHA-256", e);
        }
    }

    /** The directory of unpacked libraries. */
    private static Path directory() throws IOException {
        String dir = System.getProperty(DIR_PROPERTY);
        if (dir != null) {
            return Files.createDirectories(Path.of(dir).toAbsolutePath());
        }
        Path temp = Path.of(System.getProperty("java.io.tmpdir")).toAbsolutePath();
        String user = System.getProperty("user.name", "user").replaceAll("[^A-Za-z0-9._-]", "_");
        Path own = temp.resolve("firndb-" + user);
        if (!temp.getFileSystem().supportedFileAttributeViews().contains("posix")) {
            return Files.createDirectories(own);
        }
        Set<PosixFilePermission> ours = PosixFilePermissions.fromString("rwx------");
        FileAttribute<?> mode = PosixFilePermissions.asFileAttribute(ours);
        // Another user may have made a directory of this name.
        Path probe = Files.createTempDirectory(temp, "firndb-", mode);
        try {
            Files.createDirectory(own, mode);
        } catch (FileAlreadyExistsException e) {
            boolean isOurs = Files.isDirectory(own, LinkOption.NOFOLLOW_LINKS)
                    && Files.getOwner(own, LinkOption.NOFOLLOW_LINKS).equals(Files.getOwner(probe))
                    && Files.getPosixFilePermissions(own).equals(ours);
            if (!isOurs) {
                return probe;
            }
        }
        Files.delete(probe);
        return own;
    }

    /** Writes the library to the directory, unless an earlier JVM did. */
    private static Path unpack(byte[] library, Path dir, String name) throws IOException {
        Path file = dir.resolve(name);
        if (has(file, library)) {
            return file;
        }
        Path temp = Files.createTempFile(dir, "unpack-", ".tmp");
        try {
            Files.write(temp, library);
            try {
                Files.move(temp, file, StandardCopyOption.ATOMIC_MOVE);
            } catch (AtomicMoveNotSupportedException e) {
                Files.move(temp, file, StandardCopyOption.REPLACE_EXISTING);
            }
        } catch (IOException e) {
            // Windows does not replace a file that another JVM uses.
            if (!has(file, library)) {
                throw e;
            }
        } finally {
            Files.deleteIfExists(temp);
        }
        return file;
    }

    private static boolean has(Path file, byte[] contents) throws IOException {
        return Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)
                && Files.size(file) == contents.length
                && Arrays.equals(Files.readAllBytes(file), contents);
    }

    /** What the message of a failed load means, and what to do about it. */
    static String reason(String message) {
        String text = String.valueOf(message);
        String advice = "";
        if (text.contains("failed to map segment") || text.contains("Operation not permitted")) {
            advice = " (the file system is mounted noexec: choose another directory with -D"
                    + DIR_PROPERTY + ")";
        } else if (text.contains("GLIBC_") || text.contains("GLIBCXX_")) {
            advice = " (the C library of this system is older than the one that the native library"
                    + " was built for)";
        } else if (text.contains("ELF") || text.contains("wrong architecture")
                || text.contains("incompatible architecture") || text.contains("mach-o")) {
            advice = " (it is not a library for " + platform() + ")";
        } else if (text.contains("ld-linux") || text.contains("ld-musl")) {
            advice = " (it was built for another C library: glibc or musl)";
        }
        return text + advice;
    }

    private static UnsatisfiedLinkError because(String message, Throwable cause) {
        UnsatisfiedLinkError error = new UnsatisfiedLinkError(message);
        if (cause != null) {
            error.initCause(cause);
        }
        return error;
    }
}
