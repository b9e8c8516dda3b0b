/* Reasons why records don't decode: see decode_problem.h. */
#include "codecs/decode_problem.h"

#include <stddef.h>

#include "base/status.h"

__attribute__((cold)) const uint8_t *kn_decode_fail(struct kn_decode_failure *failure, int status,
                                                    const char *text, const uint8_t *at)
{
    *failure = (struct kn_decode_failure){status, text, at};
    return NULL;
}

__attribute__((cold)) const uint8_t *kn_decode_cut_off(struct kn_decode_failure *failure,
                                                       const uint8_t *at)
{
    return kn_decode_fail(failure, KN_ERR_TRUNCATED, "the record ends too early", at);
}

__attribute__((cold)) const uint8_t *kn_decode_no_room(struct kn_decode_failure *failure,
                                                       int status, const uint8_t *at)
{
    const char *text = status == KN_ERR_FULL ? "a column has no more room"
                                             : "there is not enough memory";
    return kn_decode_fail(failure, status, text, at);
}
