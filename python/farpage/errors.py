"""Errors: what went wrong with a call. A page that is not there is none, but a verdict."""

from __future__ import annotations

import enum


class Code(enum.IntEnum):
    """How a call, or one page of a put, ended."""

    OK = 0
    INVALID = 1  # the caller's input is wrong
    NOT_FOUND = 2  # what was named does not exist
    EXISTS = 3  # what was to be made exists already
    TIMEOUT = 4  # the time was over first
    UNAVAILABLE = 5  # a node cannot be reached, or does not serve now
    EXHAUSTED = 6  # no memory, slot or descriptor is left, or too much is under way
    DENIED = 7  # not permitted
    ABORTED = 8  # ended before it was done
    PROTOCOL = 9  # a node said something that it must not say
    SYSTEM = 10  # the operating system refused
    BUSY = 12  # not now: an operation that is under way stands in the way


class FarpageError(Exception):
    """A call failed. `str()` is a sentence: what is wrong, and what to do. `code` is a Code."""

    code = Code.SYSTEM


class InvalidError(FarpageError, ValueError):
    """The caller's input is wrong: nothing was begun."""

    code = Code.INVALID


class NotFoundError(FarpageError, LookupError):
    """What was named does not exist."""

    code = Code.NOT_FOUND


class RegisteredError(FarpageError):
    """A part of the memory is registered with this client already."""

    code = Code.EXISTS


class FarpageTimeoutError(FarpageError, TimeoutError):
    """The time was over first."""

    code = Code.TIMEOUT


class UnavailableError(FarpageError, ConnectionError):
    """No node can be reached, or it does not serve now."""

    code = Code.UNAVAILABLE


class ExhaustedError(FarpageError):
    """No memory or descriptor is left, or too many operations are under way: let a ticket go."""

    code = Code.EXHAUSTED


class DeniedError(FarpageError, PermissionError):
    """The node refused the token or the certificate."""

    code = Code.DENIED


class BusyError(FarpageError):
    """Not now: an operation that is under way stands in the way."""

    code = Code.BUSY


_CLASSES = {each.code: each for each in (InvalidError, NotFoundError, RegisteredError, FarpageTimeoutError, UnavailableError,
                                         ExhaustedError, DeniedError, BusyError)}


def error_of(code: int, sentence: str) -> FarpageError:
    """The error of a code. One that this version does not know is the operating system's."""
    known = Code(code) if code in Code._value2member_map_ else Code.SYSTEM
    error = _CLASSES.get(known, FarpageError)(sentence)
    error.code = known
    return error
