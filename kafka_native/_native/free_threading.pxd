# What protects plain C fields that threads share on a Python without an interpreter lock.
#
# A flag is a bint that one thread sets and others read. A guard is a char that threads hold for a few instructions: its holder must not run
# Python code. Unlike a critical section, waiting for a guard ends no critical section of the waiting thread.

cdef extern from *:
    """
    #include <sched.h>
    #include <stdint.h>
    #ifndef KN_FREE_THREADING
    #define KN_FREE_THREADING
    static inline int kn_flag_is_set(const int *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }
    static inline void kn_flag_set(int *flag, int value) { __atomic_store_n(flag, value, __ATOMIC_RELEASE); }
    #ifdef Py_GIL_DISABLED
    static inline void kn_guard_lock(char *guard)
    {
        while (__atomic_test_and_set(guard, __ATOMIC_ACQUIRE)) sched_yield();
    }
    static inline void kn_guard_unlock(char *guard) { __atomic_clear(guard, __ATOMIC_RELEASE); }
    #else
    static inline void kn_guard_lock(char *guard) { (void)guard; }
    static inline void kn_guard_unlock(char *guard) { (void)guard; }
    #endif
    #endif
    """
    bint kn_flag_is_set(const bint *flag) noexcept nogil
    void kn_flag_set(bint *flag, bint value) noexcept nogil
    void kn_guard_lock(char *guard) noexcept nogil
    void kn_guard_unlock(char *guard) noexcept nogil
