# What protects plain C fields that threads share on a Python without an interpreter lock.
#
# - flag: a bint that any thread sets and reads.
# - state: a number that a thread sets after it has written what belongs to the state.
# - count: a number that any thread changes.
# - kn_object_lock: a mutex in an object. Its holder runs no Python code. Unlike a critical section, it stays locked while its holder waits
#   for another lock. On a Python with an interpreter lock it does nothing.
# - guard: the same for a few instructions, but a thread that waits for it ends none of its critical sections.
# - gate: counts the threads that run a short piece of C code. Each thread counts in a cache line of its own, so that threads don't wait for
#   each other. Whoever closes the gate waits until no thread runs this code.
# - pair: two pointers that belong together. Readers take no lock: they read again if a writer was busy.
from libc.stdint cimport int64_t

cdef extern from *:
    """
    #include <sched.h>
    #include <stdint.h>
    #ifndef KN_FREE_THREADING
    #define KN_FREE_THREADING
    static inline int kn_flag_is_set(const int *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }
    static inline void kn_flag_set(int *flag, int value) { __atomic_store_n(flag, value, __ATOMIC_RELEASE); }
    static inline int kn_state_of(const int *state) { return __atomic_load_n(state, __ATOMIC_ACQUIRE); }
    static inline void kn_state_set(int *state, int value) { __atomic_store_n(state, value, __ATOMIC_RELEASE); }
    #ifdef Py_GIL_DISABLED
    enum { FREE_THREADED = 1 };
    typedef PyMutex kn_object_lock;
    static inline void kn_object_lock_take(kn_object_lock *lock) { PyMutex_Lock(lock); }
    static inline void kn_object_lock_release(kn_object_lock *lock) { PyMutex_Unlock(lock); }
    static inline int kn_flag_exchange(int *flag, int value) { return __atomic_exchange_n(flag, value, __ATOMIC_ACQ_REL); }
    static inline int kn_flag_take(int *flag) { return kn_flag_is_set(flag) && kn_flag_exchange(flag, 0); }
    static inline void kn_count_add(int *count, int more) { __atomic_fetch_add(count, more, __ATOMIC_RELAXED); }
    static inline void kn_count_add64(int64_t *count, int64_t more) { __atomic_fetch_add(count, more, __ATOMIC_RELAXED); }
    static inline int kn_count_of(const int *count) { return __atomic_load_n(count, __ATOMIC_RELAXED); }
    static inline int64_t kn_count_of64(const int64_t *count) { return __atomic_load_n(count, __ATOMIC_RELAXED); }
    static inline unsigned long kn_thread_of(const unsigned long *thread) { return __atomic_load_n(thread, __ATOMIC_RELAXED); }
    static inline void kn_thread_set(unsigned long *thread, unsigned long value) { __atomic_store_n(thread, value, __ATOMIC_RELAXED); }
    static inline void kn_guard_lock(char *guard)
    {
        while (__atomic_test_and_set(guard, __ATOMIC_ACQUIRE)) sched_yield();
    }
    static inline void kn_guard_unlock(char *guard) { __atomic_clear(guard, __ATOMIC_RELEASE); }
    enum { KN_GATE_LANES = 16 };
    struct kn_gate { struct { int inside; char line[60]; } lanes[KN_GATE_LANES]; };
    static inline int kn_gate_lane(void)
    {
        static unsigned next;
        static __thread int lane = -1;
        if (lane < 0) lane = (int)(__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % KN_GATE_LANES);
        return lane;
    }
    static inline void kn_gate_leave(struct kn_gate *gate)
    {
        __atomic_fetch_sub(&gate->lanes[kn_gate_lane()].inside, 1, __ATOMIC_RELEASE);
    }
    static inline int kn_gate_enter(struct kn_gate *gate, const int *closed)
    {
        __atomic_fetch_add(&gate->lanes[kn_gate_lane()].inside, 1, __ATOMIC_SEQ_CST);
        if (!__atomic_load_n(closed, __ATOMIC_SEQ_CST)) return 1;
        kn_gate_leave(gate);
        return 0;
    }
    static inline void kn_gate_close(struct kn_gate *gate, int *closed)
    {
        __atomic_store_n(closed, 1, __ATOMIC_SEQ_CST);
        for (int lane = 0; lane < KN_GATE_LANES; lane++)
            while (__atomic_load_n(&gate->lanes[lane].inside, __ATOMIC_SEQ_CST)) sched_yield();
    }
    struct kn_pair { void *first, *second; unsigned version; };
    static inline void *kn_pair_find(struct kn_pair *pair, const void *first)
    {
        unsigned version;
        void *found, *second;
        do {
            version = __atomic_load_n(&pair->version, __ATOMIC_ACQUIRE);
            found = __atomic_load_n(&pair->first, __ATOMIC_ACQUIRE);
            if (found != first) return 0;
            second = __atomic_load_n(&pair->second, __ATOMIC_ACQUIRE);
        } while (version & 1 || __atomic_load_n(&pair->version, __ATOMIC_RELAXED) != version);
        return second;
    }
    static inline void *kn_pair_exchange(struct kn_pair *pair, void *first, void *second)
    {
        void *before;
        unsigned version = __atomic_load_n(&pair->version, __ATOMIC_RELAXED) & ~1u;
        while (!__atomic_compare_exchange_n(&pair->version, &version, version + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            if (version & 1) sched_yield();
            version &= ~1u;
        }
        before = __atomic_exchange_n(&pair->first, first, __ATOMIC_RELEASE);
        __atomic_store_n(&pair->second, second, __ATOMIC_RELEASE);
        __atomic_store_n(&pair->version, version + 2, __ATOMIC_RELEASE);
        return before;
    }
    static inline void *kn_pointer_exchange(void **pointer, void *other) { return __atomic_exchange_n(pointer, other, __ATOMIC_ACQ_REL); }
    #else
    enum { FREE_THREADED = 0 };
    typedef char kn_object_lock;
    static inline void kn_object_lock_take(kn_object_lock *lock) { (void)lock; }
    static inline void kn_object_lock_release(kn_object_lock *lock) { (void)lock; }
    static inline int kn_flag_exchange(int *flag, int value) { int before = *flag; *flag = value; return before; }
    static inline int kn_flag_take(int *flag) { return kn_flag_exchange(flag, 0); }
    static inline void kn_count_add(int *count, int more) { *count += more; }
    static inline void kn_count_add64(int64_t *count, int64_t more) { *count += more; }
    static inline int kn_count_of(const int *count) { return *count; }
    static inline int64_t kn_count_of64(const int64_t *count) { return *count; }
    static inline unsigned long kn_thread_of(const unsigned long *thread) { return *thread; }
    static inline void kn_thread_set(unsigned long *thread, unsigned long value) { *thread = value; }
    static inline void kn_guard_lock(char *guard) { (void)guard; }
    static inline void kn_guard_unlock(char *guard) { (void)guard; }
    struct kn_gate { char unused; };
    static inline void kn_gate_leave(struct kn_gate *gate) { (void)gate; }
    static inline int kn_gate_enter(struct kn_gate *gate, const int *closed) { (void)gate; return !*closed; }
    static inline void kn_gate_close(struct kn_gate *gate, int *closed) { (void)gate; *closed = 1; }
    struct kn_pair { void *first, *second; };
    static inline void *kn_pair_find(struct kn_pair *pair, const void *first) { return pair->first == first ? pair->second : 0; }
    static inline void *kn_pair_exchange(struct kn_pair *pair, void *first, void *second)
    {
        void *before = pair->first;
        pair->first = first;
        pair->second = second;
        return before;
    }
    static inline void *kn_pointer_exchange(void **pointer, void *other) { void *before = *pointer; *pointer = other; return before; }
    #endif
    #endif
    """
    const bint FREE_THREADED  # a constant for the C compiler, which leaves out the other branch
    ctypedef struct kn_object_lock:
        pass
    void kn_object_lock_take(kn_object_lock *lock) noexcept nogil
    void kn_object_lock_release(kn_object_lock *lock) noexcept nogil
    int kn_state_of(const int *state) noexcept nogil
    void kn_state_set(int *state, int value) noexcept nogil
    bint kn_flag_is_set(const bint *flag) noexcept nogil
    void kn_flag_set(bint *flag, bint value) noexcept nogil
    bint kn_flag_exchange(bint *flag, bint value) noexcept nogil  # sets it, and returns its value before
    bint kn_flag_take(bint *flag) noexcept nogil  # clears it, and returns whether it was set
    void kn_count_add(int *count, int more) noexcept nogil
    void kn_count_add64(int64_t *count, int64_t more) noexcept nogil
    int kn_count_of(const int *count) noexcept nogil
    int64_t kn_count_of64(const int64_t *count) noexcept nogil
    unsigned long kn_thread_of(const unsigned long *thread) noexcept nogil
    void kn_thread_set(unsigned long *thread, unsigned long value) noexcept nogil
    void kn_guard_lock(char *guard) noexcept nogil
    void kn_guard_unlock(char *guard) noexcept nogil
    struct kn_gate:
        pass
    bint kn_gate_enter(kn_gate *gate, const bint *closed) noexcept nogil  # False: it is closed
    void kn_gate_leave(kn_gate *gate) noexcept nogil
    void kn_gate_close(kn_gate *gate, bint *closed) noexcept nogil  # sets the flag, and waits
    struct kn_pair:
        pass
    void *kn_pair_find(kn_pair *pair, const void *first) noexcept nogil  # the second pointer; NULL: the first is another
    void *kn_pair_exchange(kn_pair *pair, void *first, void *second) noexcept nogil  # the first one before
    void *kn_pointer_exchange(void **pointer, void *other) noexcept nogil  # the pointer before
