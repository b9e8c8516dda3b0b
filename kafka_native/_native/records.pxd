# The function of records.pyx that other extensions call.

# Fills a `struct kn_codec_table` (passed as void*) with the libraries of this build. Python packages replace missing ones,
# and those in KN_DISABLE_NATIVE_CODECS. Any thread may call the table's functions, without the interpreter lock.
cdef int codecs_fill(void *table) except -1
