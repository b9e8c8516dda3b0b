/* Intrusive doubly linked list. No locks, no allocation: the owner of the head guards it. */
#ifndef KN_BASE_LIST_H
#define KN_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct kn_list {
    struct kn_list *next;
    struct kn_list *prev;
};

#define KN_LIST_ENTRY(node, type, member) ((type *)((char *)(node) - offsetof(type, member)))

static inline void kn_list_init(struct kn_list *head) { head->next = head->prev = head; }
static inline bool kn_list_empty(const struct kn_list *head) { return head->next == head; }
static inline struct kn_list *kn_list_first(struct kn_list *head)
{
    return head->next == head ? NULL : head->next;
}
static inline void kn_list_insert_before(struct kn_list *at, struct kn_list *node)
{
    node->prev = at->prev;
    node->next = at;
    at->prev->next = node;
    at->prev = node;
}
static inline void kn_list_push_back(struct kn_list *head, struct kn_list *node)
{
    kn_list_insert_before(head, node);
}
static inline void kn_list_push_front(struct kn_list *head, struct kn_list *node)
{
    kn_list_insert_before(head->next, node);
}
/* Links the node to itself, so a second removal is harmless. */
static inline void kn_list_remove(struct kn_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    kn_list_init(node);
}
static inline struct kn_list *kn_list_pop_front(struct kn_list *head)
{
    struct kn_list *node = kn_list_first(head);
    if (node) kn_list_remove(node);
    return node;
}
/* Moves all nodes of `from` to the end of `to`. */
static inline void kn_list_splice_back(struct kn_list *to, struct kn_list *from)
{
    if (kn_list_empty(from)) return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    kn_list_init(from);
}

#endif
