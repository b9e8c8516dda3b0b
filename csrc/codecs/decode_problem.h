/* The reason why a record doesn't decode, and the functions that decoders report it with.
 *
 * Thread: any; no state. */
#ifndef KN_CODECS_DECODE_PROBLEM_H
#define KN_CODECS_DECODE_PROBLEM_H

#include <stdint.h>

struct kn_decode_problem {
    int32_t instruction; /* its index in the program */
    int64_t position;    /* of the record's bytes; in a default value: where the default began */
    const char *text;    /* a static English phrase */
};

/* The same before the decoder adds the instruction. */
struct kn_decode_failure {
    int status;
    const char *text; /* a static English phrase */
    const uint8_t *at;
};

/* These fill in a failure, and return NULL. */
const uint8_t *kn_decode_fail(struct kn_decode_failure *failure, int status, const char *text,
                              const uint8_t *at);
/* The record ends too early. */
const uint8_t *kn_decode_cut_off(struct kn_decode_failure *failure, const uint8_t *at);
/* A column can't grow: `status` is KN_ERR_FULL or KN_ERR_NOMEM. */
const uint8_t *kn_decode_no_room(struct kn_decode_failure *failure, int status, const uint8_t *at);

#endif
