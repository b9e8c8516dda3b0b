# What other extensions call of records.pyx.

# Fills a `struct kn_codec_table` (given as void*): the libraries of this build, the Python packages for what is missing
# and for what KN_DISABLE_NATIVE_CODECS names. The functions in it may be called from any thread without the interpreter lock.
cdef int codecs_fill(void *table) except -1
