package io.firndb;

/** The file was written by a newer release, which can read it. */
public final class UnsupportedVersionException extends FirnException {
    private static final long serialVersionUID = 1L;

    UnsupportedVersionException(String message, String path, long offset) {
        super(ErrorKind.UNSUPPORTED_VERSION, message, path, offset);
    }
}
