"""The exceptions of FirnDB: one class for each kind of error."""

from __future__ import annotations

from typing import Any


class FirnError(Exception):
    """The base of all errors of FirnDB.

    Attributes:
        path: the file that the error is about, or `None`.
        offset: where in the file, in bytes, or `None`.
    """

    path: str | None
    offset: int | None

    def __init__(
        self,
        message: str = "",
        *,
        path: str | None = None,
        offset: int | None = None,
        errno: int | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.offset = offset
        _describe(self, message, path, errno)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions cross process boundaries (multiprocessing, concurrent.futures).
        return (_restore, (type(self), self.args, self.__dict__))


def _describe(error: Exception, message: str, path: str | None, errno: int | None) -> None:
    """Sets what the built-in base class of an error has."""
    if isinstance(error, OSError):
        error.errno = errno
        error.filename = path
        error.strerror = message


def _restore(cls: type[FirnError], args: tuple[Any, ...], state: dict[str, Any]) -> FirnError:
    error = cls(*args, path=state.get("path"), offset=state.get("offset"))
    error.__dict__.update(state)
    return error


class InvalidArgumentError(FirnError, ValueError):
    """An argument exceeds a documented limit or names something that is not in the schema."""


class NotFoundError(FirnError, FileNotFoundError):
    """There is no store, file or partition of this name. An absent key is a `KeyError`."""


class AlreadyExistsError(FirnError, FileExistsError):
    """The call would overwrite something that exists."""


class LockedError(FirnError, BlockingIOError):
    """Another process or handle holds the writer's lock."""


class CorruptError(FirnError):
    """Data read from disk has a wrong checksum or an invalid structure."""


class UnsupportedVersionError(FirnError):
    """The file was written by a newer release, which can read it. It was not changed."""


class IoError(FirnError, OSError):
    """A call to the operating system failed."""


class FailedError(FirnError, RuntimeError):
    """The handle is no longer usable: open it again."""


class CancelledError(FirnError, TimeoutError):
    """The call exceeded its deadline or was cancelled."""


class FirnWarning(UserWarning):
    """A call succeeded, but left something out, such as rows that cannot be used."""


BY_KIND: dict[str, type[FirnError]] = {
    "invalid_argument": InvalidArgumentError,
    "not_found": NotFoundError,
    "already_exists": AlreadyExistsError,
    "locked": LockedError,
    "corrupt": CorruptError,
    "unsupported_version": UnsupportedVersionError,
    "io": IoError,
    "failed": FailedError,
    "cancelled": CancelledError,
}
