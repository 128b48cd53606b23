"""Times and durations, as arguments and as results."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

Duration: TypeAlias = float | timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def seconds(duration: Duration, what: str) -> float:
    """A duration in seconds. `what` names the argument in errors."""
    if isinstance(duration, timedelta):
        value = duration.total_seconds()
    elif type(duration) in (int, float):
        value = float(duration)
    else:
        kind = type(duration).__name__
        raise TypeError(f"{what} is a number of seconds or a timedelta, not {kind}")
    if not 0 <= value < 1e12:
        raise ValueError(f"{what} is a time from 0 seconds on, not {duration!r}")
    return value


def from_micros(micros: int) -> datetime:
    """The time so many microseconds after 1970. Times out of range become the nearest one."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return (datetime.min if micros < 0 else datetime.max).replace(tzinfo=UTC)
