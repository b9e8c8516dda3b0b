/* Reasons why records don't decode: see decode_problem.h. */
#include "codecs/decode_problem.h"

#include <stddef.h>

#include "base/status.h"

__attribute__((cold)) const uint8_t *kn_wire_fail(struct kn_wire_problem *problem, int status,
                                                  const char *text, const uint8_t *at)
{
    *problem = (struct kn_wire_problem){status, text, at};
    return NULL;
}

__attribute__((cold)) const uint8_t *kn_wire_cut_off(struct kn_wire_problem *problem,
                                                     const uint8_t *at)
{
    return kn_wire_fail(problem, KN_ERR_TRUNCATED, "the record ends too early", at);
}

__attribute__((cold)) const uint8_t *kn_wire_no_room(struct kn_wire_problem *problem, int status,
                                                     const uint8_t *at)
{
    const char *text = status == KN_ERR_FULL ? "a column has no more room"
                                             : "there is not enough memory";
    return kn_wire_fail(problem, status, text, at);
}
