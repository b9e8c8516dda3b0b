/* Finds the tokens of a JSON text, with the first stage of simdjson. It also checks that the text is
 * UTF-8, and that strings end and have no control characters.
 *
 * simdjson chooses its instructions at run time. This header hides C++ from the rest of csrc: no
 * exception leaves a function, and no type of C++ is in the interface.
 *
 * Thread: one at a time uses a tokenizer. Who frees: kn_json_tokenizer_free(). */
#ifndef KN_CODECS_JSON_TOKENS_H
#define KN_CODECS_JSON_TOKENS_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

#define KN_JSON_PADDING_BYTES 64 /* readable bytes behind a text */
#define KN_JSON_TEXT_MAX_BYTES INT32_MAX

struct kn_json_tokenizer;

/* The start of each token: {}[]:, or the first byte of a string or another value. Whitespace alone
 * separates a token from the next one. tokens[count] and tokens[count + 1] are the text's size. */
struct kn_json_tokens {
    const uint32_t *starts;
    int64_t count;
};

#ifdef KN_HAVE_SIMDJSON
#define KN_JSON_IS_AVAILABLE 1
#ifdef __cplusplus
extern "C" {
#endif

/* KN_OK or KN_ERR_NOMEM. */
int kn_json_tokenizer_new(struct kn_json_tokenizer **out);
void kn_json_tokenizer_free(struct kn_json_tokenizer *tokenizer); /* NULL is allowed */
/* Makes room for the tokens of a text. KN_OK or KN_ERR_NOMEM. */
int kn_json_tokenizer_reserve(struct kn_json_tokenizer *tokenizer, int64_t size_bytes);
/* There must be room for the text, and padding behind it. The tokens are valid until the next call.
 * KN_OK, KN_ERR_TRUNCATED (no token, or a string doesn't end), or KN_ERR_INVALID (a control
 * character in a string, or not UTF-8). */
int kn_json_tokenize(struct kn_json_tokenizer *tokenizer, const uint8_t *text, int64_t size_bytes,
                     struct kn_json_tokens *tokens);

#ifdef __cplusplus
}
#endif
#else /* a build without simdjson: no program can be made */
#define KN_JSON_IS_AVAILABLE 0
static inline int kn_json_tokenizer_new(struct kn_json_tokenizer **out)
{
    *out = NULL;
    return KN_ERR_UNSUPPORTED;
}
static inline void kn_json_tokenizer_free(struct kn_json_tokenizer *tokenizer) { (void)tokenizer; }
static inline int kn_json_tokenizer_reserve(struct kn_json_tokenizer *tokenizer, int64_t size_bytes)
{
    (void)tokenizer, (void)size_bytes;
    return KN_ERR_UNSUPPORTED;
}
static inline int kn_json_tokenize(struct kn_json_tokenizer *tokenizer, const uint8_t *text,
                                   int64_t size_bytes, struct kn_json_tokens *tokens)
{
    (void)tokenizer, (void)text, (void)size_bytes, (void)tokens;
    return KN_ERR_UNSUPPORTED;
}
#endif

#endif
