/**
 * FirnDB: an embedded storage library for data that is written once or in bursts and read all the
 * time.
 *
 * <p>The library contains native code. Since Java 24 the JVM warns about that unless it is started
 * with {@code --enable-native-access=io.firndb}, or {@code ALL-UNNAMED} on a class path.
 */
module io.firndb {
    exports io.firndb;
}
