/* The tokens of a JSON text: see json_tokens.h. */
#include "codecs/json_tokens.h"

#include <memory>
#include <new>
#include <simdjson.h>

#define DEPTH 1 /* of simdjson's second stage, which isn't used */

static_assert(KN_JSON_PADDING_BYTES >= simdjson::SIMDJSON_PADDING, "simdjson reads further");

struct kn_json_tokenizer {
    std::unique_ptr<simdjson::internal::dom_parser_implementation> parser;
};

int kn_json_tokenizer_new(kn_json_tokenizer **out)
{
    *out = new (std::nothrow) kn_json_tokenizer;
    return *out ? KN_OK : KN_ERR_NOMEM;
}

void kn_json_tokenizer_free(kn_json_tokenizer *tokenizer) { delete tokenizer; }

int kn_json_tokenizer_reserve(kn_json_tokenizer *tokenizer, int64_t size_bytes)
{
    size_t capacity = static_cast<size_t>(size_bytes) + 1; /* simdjson wants more than the size */
    if (!tokenizer->parser) {
        auto *chosen = static_cast<const simdjson::implementation *>(
            simdjson::get_active_implementation());
        if (chosen->create_dom_parser_implementation(capacity, DEPTH, tokenizer->parser) !=
            simdjson::SUCCESS) {
            tokenizer->parser.reset();
            return KN_ERR_NOMEM;
        }
    }
    if (tokenizer->parser->capacity() >= capacity) return KN_OK;
    return tokenizer->parser->allocate(capacity, DEPTH) == simdjson::SUCCESS ? KN_OK : KN_ERR_NOMEM;
}

int kn_json_tokenize(kn_json_tokenizer *tokenizer, const uint8_t *text, int64_t size_bytes,
                     struct kn_json_tokens *tokens)
{
    auto *parser = tokenizer->parser.get();
    switch (parser->stage1(text, static_cast<size_t>(size_bytes), simdjson::stage1_mode::regular)) {
    case simdjson::SUCCESS: break;
    case simdjson::EMPTY:
    case simdjson::UNCLOSED_STRING: return KN_ERR_TRUNCATED;
    default: return KN_ERR_INVALID;
    }
    uint32_t *starts = parser->structural_indexes.get();
    uint32_t count = parser->n_structural_indexes;
    starts[count] = starts[count + 1] = static_cast<uint32_t>(size_bytes);
    *tokens = {starts, count};
    return count ? KN_OK : KN_ERR_TRUNCATED;
}
