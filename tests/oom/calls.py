"""The calls of the C library that fail, and their errors."""

from __future__ import annotations

import errno
import socket

ALLOCATIONS, SYSTEM_CALLS = "allocations", "system calls"
MEMORY = (
    *("malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "strdup", "mmap"),
    "pthread_create",
)
"""The calls that need memory."""
ERRORS = {
    "socket": ("EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "EACCES"),
    "connect": (
        *("ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "ETIMEDOUT", "EADDRNOTAVAIL"),
        *("EAGAIN", "EINTR"),
    ),
    "sendmsg": ("EPIPE", "ECONNRESET", "ENOBUFS", "ENOMEM", "EINTR", "EAGAIN"),
    "recv": ("ECONNRESET", "ETIMEDOUT", "ENOMEM", "EINTR", "EAGAIN"),
    "readv": ("ECONNRESET", "ETIMEDOUT", "ENOMEM", "EINTR", "EAGAIN"),
    "read": ("EINTR", "EAGAIN"),
    "write": ("EINTR",),
    "ppoll": ("EINTR", "ENOMEM"),
    "eventfd": ("EMFILE", "ENFILE", "ENOMEM"),
    "getsockopt": ("ENOBUFS", "ENOMEM"),
    "setsockopt": ("ENOBUFS", "ENOMEM", "EINVAL", "EPERM"),
    "madvise": ("EAGAIN", "ENOMEM", "EINVAL"),
    "close": ("EINTR", "EIO"),
    "getaddrinfo": ("EAI_AGAIN", "EAI_FAIL", "EAI_MEMORY"),
}
"""The system calls, and the errors that their manual pages give them for a valid call.

`read` and `write` are those of a thread's descriptor for wake-ups. So `write` has no EAGAIN: the
descriptor is then readable, and a call that does nothing would be another fault.
"""
KINDS = {ALLOCATIONS: MEMORY, SYSTEM_CALLS: tuple(ERRORS)}
"""The kinds of calls that fail."""


def errors_of(call: str) -> tuple[str, ...]:
    """Return the names of a call's errors."""
    return ERRORS.get(call, ("ENOMEM",))


def number_of(error: str) -> int:
    """Return an error's number."""
    return int(getattr(socket if error.startswith("EAI_") else errno, error))
