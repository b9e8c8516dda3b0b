/* Writes google.protobuf.Struct, Value and ListValue as JSON text.
 *
 * Keys are sorted by their bytes, so that equal messages have equal texts. If a key comes again, its
 * last entry wins. A value without a kind is null.
 *
 * Thread: any; the text belongs to one decoder. Who frees: kn_json_text_deinit(). */
#ifndef KN_CODECS_PROTOBUF_JSON_H
#define KN_CODECS_PROTOBUF_JSON_H

#include "codecs/protobuf_wire.h"

#define KN_PROTOBUF_JSON_DEPTH_MAX 100 /* nested values, as in Protobuf's own decoders */

enum kn_struct_tag {
    KN_STRUCT_ENTRY_TAG = 1 << 3 | KN_WIRE_DELIMITED, /* also an item of a list; an entry's key */
    KN_STRUCT_ENTRY_VALUE_TAG = 2 << 3 | KN_WIRE_DELIMITED,
    /* of a Value: */
    KN_STRUCT_NULL_TAG = 1 << 3 | KN_WIRE_VARINT,
    KN_STRUCT_NUMBER_TAG = 2 << 3 | KN_WIRE_FIXED64,
    KN_STRUCT_STRING_TAG = 3 << 3 | KN_WIRE_DELIMITED,
    KN_STRUCT_BOOL_TAG = 4 << 3 | KN_WIRE_VARINT,
    KN_STRUCT_STRUCT_TAG = 5 << 3 | KN_WIRE_DELIMITED,
    KN_STRUCT_LIST_TAG = 6 << 3 | KN_WIRE_DELIMITED,
};

enum kn_protobuf_json_kind {
    KN_PROTOBUF_JSON_STRUCT,
    KN_PROTOBUF_JSON_VALUE,
    KN_PROTOBUF_JSON_LIST,
    KN_PROTOBUF_JSON_KIND_COUNT
};

struct kn_json_text {
    uint8_t *data;
    int64_t size_bytes;
    int64_t capacity_bytes;
};

/* Writes a message as a new text. KN_OK, or *problem says why not. */
int kn_protobuf_json(struct kn_json_text *text, enum kn_protobuf_json_kind kind,
                     const uint8_t *data, int64_t size_bytes, int64_t bytes_max,
                     struct kn_decode_failure *problem);
void kn_json_text_deinit(struct kn_json_text *text);

#endif
