/* The reason why a record doesn't decode. */
#ifndef KN_CODECS_DECODE_PROBLEM_H
#define KN_CODECS_DECODE_PROBLEM_H

#include <stdint.h>

struct kn_decode_problem {
    int32_t instruction; /* its index in the program */
    int64_t position;    /* of the record's bytes; in a default value: where the default began */
    const char *text;    /* a static English phrase */
};

#endif
