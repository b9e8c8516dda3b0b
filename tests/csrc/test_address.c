/* The addresses of a name: how long they are valid, and that each round begins with another one,
 * the first round with a random one.
 * The test has its own resolver. */
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "check.h"
#include "net/address.h"
#include "net/connection.h"

static int resolved; /* how often a name was resolved */

static int addresses = 2; /* how many a name has */

/* Returns the addresses of a name, each in one allocation. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **result)
{
    (void)service;
    resolved++;
    *result = NULL;
    if (!strcmp(host, "nobody")) return EAI_NONAME;
    for (int i = addresses - 1; i >= 0; i--) {
        struct addrinfo *link = calloc(1, sizeof *link);
        link->ai_family = hints->ai_family;
        link->ai_flags = i; /* which of them */
        link->ai_next = *result;
        *result = link;
    }
    return 0;
}

void freeaddrinfo(struct addrinfo *head)
{
    while (head) {
        struct addrinfo *next = head->ai_next;
        free(head);
        head = next;
    }
}

static struct kn_address_list list;
static const char *why;

static int resolve(const char *host, int32_t ttl_ms)
{
    const struct kn_socket_config config = {.address_family = 4, .address_ttl_ms = ttl_ms};
    return kn_address_resolve(&list, host, 9092, &config, &why);
}

static void teardown(void)
{
    kn_address_list_clear(&list);
    memset(&list, 0, sizeof list);
    resolved = 0;
    addresses = 2;
}

static void test_name_is_resolved_again_when_its_addresses_are_old(void)
{
    CHECK_EQ(resolve("a", 3600 * 1000), KN_OK); /* address_ttl_ms */
    kn_address_list_rewind(&list);
    CHECK_EQ(resolve("a", 3600 * 1000), KN_OK);
    CHECK_EQ(resolved, 1);
    CHECK_EQ(list.head->ai_family, AF_INET);
    teardown();
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(resolve("a", 0), KN_OK);
        CHECK_EQ(resolved, i);
    }
    teardown();
    CHECK_EQ(resolve("a", 1), KN_OK);
    usleep(2000);
    CHECK_EQ(resolve("a", 1), KN_OK);
    CHECK_EQ(resolved, 2);
    teardown();
}

static void test_each_round_starts_after_the_last_address_tried(void)
{
    for (int32_t ttl_ms = 0; ttl_ms <= 3600 * 1000; ttl_ms += 3600 * 1000) {
        CHECK_EQ(resolve("a", ttl_ms), KN_OK);
        int first = kn_address_next(&list)->ai_flags;
        CHECK_EQ(resolve("a", ttl_ms), KN_OK);
        CHECK_EQ(kn_address_next(&list)->ai_flags, 1 - first);
        CHECK_EQ(kn_address_next(&list)->ai_flags, first);
        CHECK(kn_address_next(&list) == NULL);
        CHECK_EQ(resolve("a", ttl_ms), KN_OK);
        CHECK_EQ(kn_address_next(&list)->ai_flags, 1 - first);
        teardown();
    }
}

static void test_first_round_begins_at_random(void)
{
    int begun[3] = {0};
    for (int i = 0; i < 300; i++) {
        addresses = 3;
        CHECK_EQ(resolve("a", 3600 * 1000), KN_OK);
        begun[kn_address_next(&list)->ai_flags]++;
        teardown();
    }
    for (int i = 0; i < 3; i++) CHECK(begun[i] > 0);
}

static void test_round_has_each_address_once(void)
{
    const int counts[] = {1, 3, KN_ADDRESSES_MAX, KN_ADDRESSES_MAX + 1};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        addresses = counts[i];
        int seen[KN_ADDRESSES_MAX + 1] = {0};
        CHECK_EQ(resolve("a", 0), KN_OK);
        for (const struct addrinfo *at; (at = kn_address_next(&list));)
            CHECK_EQ(++seen[at->ai_flags], 1);
        CHECK_EQ(list.tried, counts[i] < KN_ADDRESSES_MAX ? counts[i] : KN_ADDRESSES_MAX);
        kn_address_list_rewind(&list);
    }
    teardown();
}

static void test_unknown_name_leaves_nothing(void)
{
    CHECK_EQ(resolve("nobody", 3600 * 1000), KN_ERR_RESOLVE);
    CHECK(kn_address_next(&list) == NULL);
    CHECK_EQ(resolve("nobody", 3600 * 1000), KN_ERR_RESOLVE);
    CHECK_EQ(resolved, 2);
    teardown();
}

int main(void)
{
    RUN(test_name_is_resolved_again_when_its_addresses_are_old);
    RUN(test_each_round_starts_after_the_last_address_tried);
    RUN(test_first_round_begins_at_random);
    RUN(test_round_has_each_address_once);
    RUN(test_unknown_name_leaves_nothing);
    return check_done();
}
