"""How the process of a mock cluster keeps its memory.

Where memory is virtualised, the first touch of a page can cost more than everything else that happens to the bytes in
it. A broker that goes on receiving and dropping megabytes must not give pages back and fetch them again. glibc only;
elsewhere nothing happens.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8
_LARGEST_MMAP_THRESHOLD = 32 << 20
_BLOCK_BYTES = 1 << 20


def keep(prefault_bytes: int = 0) -> bool:
    """Let freed memory stay in one arena of this process, and touch so many bytes of it now; False without glibc."""
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
