# The functions of csrc/codecs for the bindings. The headers document them.
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafka_native._native.kn_arrow cimport ArrowArray, ArrowSchema, kn_arrow_problem, kn_columns
from kafka_native._native.kn_records cimport kn_pool


cdef extern from "codecs/layout.h" nogil:
    enum kn_node_kind:
        KN_NODE_NONE
        KN_NODE_BITS
        KN_NODE_FIXED
        KN_NODE_BYTES
        KN_NODE_LIST
        KN_NODE_STRUCT
        KN_NODE_UNION
        KN_NODE_DICTIONARY
    struct kn_node:
        kn_node_kind kind
        int32_t width_bytes
        int32_t child_count
        int32_t end
        const char *format
        const char *name
        int64_t flags
        const char *metadata
        int32_t metadata_bytes
        int32_t value_count
        const int32_t *value_offsets
        const uint8_t *value_bytes
    struct kn_layout:
        int32_t node_count
        kn_node *nodes
    int kn_layout_new(const kn_node *nodes, int32_t node_count, kn_layout **out)
    void kn_layout_unref(kn_layout *layout)
    bint kn_layout_is_equal(const kn_layout *layout, const kn_layout *other)
    long kn_layout_live()
    int kn_layout_export(kn_layout *layout, ArrowSchema *out)

cdef extern from "codecs/builder.h" nogil:
    struct kn_built:
        int64_t length
    struct kn_builder:
        kn_layout *layout
        kn_built *columns
    kn_builder *kn_builder_new(kn_layout *layout, kn_pool *pool, int64_t bytes_max)
    void kn_builder_unref(kn_builder *builder)
    long kn_builder_live()
    int kn_builder_reserve(kn_builder *builder, int32_t node, int64_t count)
    void kn_builder_append_null(kn_builder *builder, int32_t node)
    void kn_builder_truncate(kn_builder *builder, int64_t row_count)
    int64_t kn_builder_size_bytes(const kn_builder *builder)
    int kn_builder_export(kn_builder *builder, ArrowArray *out)

cdef extern from "codecs/decode_problem.h" nogil:
    struct kn_decode_problem:
        int32_t instruction
        int64_t position
        const char *text

cdef extern from "codecs/decoder.h" nogil:
    struct kn_decoder:
        const void *program
    int kn_decode(const kn_decoder *decoder, kn_builder *builder, const uint8_t *data, int64_t size_bytes,
                  kn_decode_problem *problem)

cdef extern from "codecs/schema_decoders.h" nogil:
    enum:
        KN_SCHEMA_FAILURE_TEXT_BYTES
    enum kn_framing:
        KN_FRAMING_NONE
        KN_FRAMING_ID
        KN_FRAMING_INDEXES
    struct kn_schema_key:
        int32_t size_bytes
        uint8_t *bytes
    struct kn_schema_decoder:
        kn_schema_key key
        kn_decoder decoder
        const char *reason
        const char *const *paths
    struct kn_schema_decoders:
        int32_t count
    struct kn_schema_failure:
        kn_schema_key key
        const char *path
        int64_t position
        const char *text
    void kn_schema_decoders_init(kn_schema_decoders *decoders, kn_framing framing, bint is_key)
    void kn_schema_decoders_deinit(kn_schema_decoders *decoders)
    int kn_schema_decoders_add(kn_schema_decoders *decoders, const kn_schema_decoder *decoder)
    void kn_schema_decoders_clear(kn_schema_decoders *decoders)
    int32_t kn_schema_failure_text(const kn_schema_failure *failure, char *out)

cdef extern from "codecs/program_data.h" nogil:
    struct kn_program_data:
        const int32_t *table
        int32_t table_count
        int32_t constant_bytes
        const uint8_t *constants

cdef extern from "codecs/avro_program.h" nogil:
    enum:
        KN_AVRO_CODE_COUNT
    struct kn_avro_op:
        int32_t code
        int32_t node
        int32_t end
        int32_t arg
        int32_t count
    struct kn_avro_program:
        kn_layout *layout
    int kn_avro_program_new(kn_layout *layout, const kn_avro_op *ops, int32_t op_count, const kn_program_data *data,
                            kn_avro_program **out, int32_t *bad_op)
    void kn_avro_program_free(kn_avro_program *program)
    const char *kn_avro_op_name(int code)

cdef extern from "codecs/avro_decode.h" nogil:
    kn_decoder kn_avro_decoder(const kn_avro_program *program)

cdef extern from "codecs/protobuf_program.h" nogil:
    enum:
        KN_PROTOBUF_CODE_COUNT
        KN_PROTOBUF_SINGULAR
        KN_PROTOBUF_REPEATED
        KN_PROTOBUF_PACKED
        KN_PROTOBUF_MAP
        KN_PROTOBUF_NULL
        KN_PROTOBUF_ZERO
        KN_PROTOBUF_CONSTANT
        KN_PROTOBUF_EMPTY
        KN_PROTOBUF_REQUIRED
    struct kn_protobuf_op:
        int32_t code
        int32_t node
        int32_t number
        int32_t shape
        int32_t missing
        int32_t arg
        int32_t count
        int32_t oneof
        int32_t constant
        int32_t constant_bytes
    struct kn_protobuf_message:
        int32_t node
        int32_t first
        int32_t count
    struct kn_protobuf_program:
        kn_layout *layout
    int kn_protobuf_program_new(kn_layout *layout, const kn_protobuf_op *ops, int32_t op_count, const kn_protobuf_message *messages,
                                int32_t message_count, const kn_program_data *data, kn_protobuf_program **out, int32_t *bad)
    void kn_protobuf_program_free(kn_protobuf_program *program)
    const char *kn_protobuf_op_name(int code)

cdef extern from "codecs/protobuf_decode.h" nogil:
    kn_decoder kn_protobuf_decoder(const kn_protobuf_program *program)

cdef extern from "arrow/columns.h" nogil:
    struct kn_decoding:
        kn_schema_decoders decoders
        bint skips_errors
        int32_t reason_column
        bint keeps_bytes
        kn_schema_failure failure
    void kn_columns_set_decoding(kn_columns *columns, int32_t column, kn_decoding *decoding)

cdef extern from "codecs/json_program.h" nogil:
    enum:
        KN_JSON_CODE_COUNT
    struct kn_json_rule:
        int32_t code
        int32_t arg
        int32_t scale
    struct kn_json_program:
        kn_layout *layout
    int kn_json_program_new(kn_layout *layout, const kn_json_rule *rules, kn_json_program **out, int32_t *bad_node)
    void kn_json_program_free(kn_json_program *program)
    const char *kn_json_code_name(int code)
    bint kn_json_is_available()

cdef extern from "codecs/json_decode.h" nogil:
    kn_decoder kn_json_decoder(const kn_json_program *program)

cdef extern from "codecs/nested.h" nogil:
    enum kn_nested_kind:
        KN_NESTED_SKIPPED
        KN_NESTED_NONE
        KN_NESTED_BITS
        KN_NESTED_FIXED
        KN_NESTED_BYTES32
        KN_NESTED_BYTES64
        KN_NESTED_VIEWS
        KN_NESTED_LIST32
        KN_NESTED_LIST64
        KN_NESTED_FIXED_LIST
        KN_NESTED_STRUCT
        KN_NESTED_DENSE_UNION
        KN_NESTED_SPARSE_UNION
        KN_NESTED_DICTIONARY
    struct kn_nested_node:
        kn_nested_kind kind
        int32_t width
        int32_t is_signed
        int32_t child_count
    struct kn_nested_type:
        int32_t node_count
    struct kn_nested_column:
        pass
    struct kn_nested:
        const kn_nested_type *type
        kn_nested_column *columns
    int kn_nested_type_new(const kn_nested_node *nodes, int32_t node_count, kn_nested_type **out)
    void kn_nested_type_unref(kn_nested_type *type)
    long kn_nested_type_live()
    int kn_nested_bind(kn_nested *nested, const ArrowArray *array, int64_t skip, int64_t length, kn_arrow_problem *problem)
    int kn_nested_bind_column(kn_nested *nested, const ArrowArray *table, int64_t column, kn_arrow_problem *problem)

cdef extern from "codecs/encoder.h" nogil:
    struct kn_encode_problem:
        int32_t instruction
        const char *text
    struct kn_encoder:
        const void *program
    int kn_encode_rows(const kn_encoder *encoder, const kn_nested *columns, const uint8_t *prefix, int64_t prefix_bytes,
                       int64_t *row, int64_t end, kn_builder *builder, kn_encode_problem *problem)
    kn_builder *kn_records_builder_new(int64_t bytes_max)

cdef extern from "codecs/encode_program.h" nogil:
    enum:
        KN_ENCODE_CODE_COUNT
        KN_ENCODE_NUMBER_HALF
        KN_ENCODE_NUMBER_SINGLE
        KN_ENCODE_NUMBER_DOUBLE
        KN_ENCODE_NUMBER_SIGNED
        KN_ENCODE_NUMBER_UNSIGNED
        KN_ENCODE_DECIMAL_NUMBER
        KN_ENCODE_DECIMAL_STRING
        KN_ENCODE_DECIMAL_BASE64
    struct kn_encode_op:
        int32_t code
        int32_t node
        int32_t end
        int32_t arg
        int32_t count
    struct kn_encode_program:
        pass
    int kn_encode_program_new(kn_nested_type *type, const kn_encode_op *ops, int32_t op_count, const kn_program_data *data,
                              kn_encode_program **out, int32_t *bad_op)
    void kn_encode_program_free(kn_encode_program *program)
    const char *kn_encode_op_name(int code)

cdef extern from "codecs/record_encode.h" nogil:
    kn_encoder kn_record_encoder(const kn_encode_program *program)
