"""Memory settings for the process of a mock cluster.

On virtual machines the first access to a memory page can be very slow. A broker receives and drops
megabytes all the time, so it must not return pages to the system and get them again. The settings
need glibc. Elsewhere they have no effect.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8
_LARGEST_MMAP_THRESHOLD = 32 << 20
_BLOCK_BYTES = 1 << 20


def keep(prefault_bytes: int = 0) -> bool:
    """Keep freed memory in one arena of this process, and access this many bytes of it now.

    Returns False without glibc.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    set_option(_ARENA_MAX, 1)
    set_option(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    set_option(_TRIM_THRESHOLD, 0x7FFFFFFF)
    blocks = [bytearray(_BLOCK_BYTES) for _ in range(prefault_bytes // _BLOCK_BYTES)]
    del blocks
    return True
