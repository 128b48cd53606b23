package io.firndb;

/** A call to the operating system failed, for example because the disk is full. */
public final class FirnIOException extends FirnException {
    private static final long serialVersionUID = 1L;

    FirnIOException(String message, String path, long offset) {
        super(ErrorKind.IO, message, path, offset);
    }
}
