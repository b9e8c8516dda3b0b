/* Floating-point numbers as text: see shortest_number.h. */
#include "codecs/shortest_number.h"

#include <charconv>

namespace
{
template <typename Number> uint8_t *put(uint8_t *to, Number value)
{
    char *text = reinterpret_cast<char *>(to);
    return reinterpret_cast<uint8_t *>(
        std::to_chars(text, text + KN_SHORTEST_NUMBER_MAX_BYTES, value).ptr);
}
} /* namespace */

uint8_t *kn_shortest_double_put(uint8_t *to, double value) { return put(to, value); }

/* Readers may read a double, and round it to a float. There is one float whose shortest text, 7.038531e-26,
 * then becomes its neighbour: a program has tried all of them. */
uint8_t *kn_shortest_float_put(uint8_t *to, float value)
{
    bool is_exception = value == 7.038531e-26f || value == -7.038531e-26f;
    return is_exception ? put(to, static_cast<double>(value)) : put(to, value);
}
