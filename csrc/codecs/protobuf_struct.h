/* Writes JSON text as google.protobuf.Struct, Value or ListValue. protobuf_json.h reads them.
 *
 * If a key of an object comes again, both entries are written: readers take the last one. Numbers
 * become the nearest double.
 *
 * Thread: any; no state, and no memory of its own. */
#ifndef KN_CODECS_PROTOBUF_STRUCT_H
#define KN_CODECS_PROTOBUF_STRUCT_H

#include "codecs/builder.h"
#include "codecs/protobuf_json.h"

#define KN_PROTOBUF_STRUCT_NUMBER_MAX_BYTES 1024 /* of a number's text */

/* Appends a message behind its size to the bytes of a column. KN_OK, KN_ERR_NOMEM, KN_ERR_FULL, or
 * KN_ERR_INVALID: *problem is a static English phrase. After a failure the bytes behind the former
 * ones mean nothing. */
int kn_protobuf_struct_put(struct kn_builder *builder, struct kn_built *column,
                           enum kn_protobuf_json_kind kind, const uint8_t *text, int64_t size_bytes,
                           const char **problem);

#endif
