/* glibc_compat.h - force-included into everything that ends up in the agent: it is built on a new glibc and must load
 * on any since 2.17. Functions that moved between libraries got a second version when they arrived (2.32, 2.34, ...);
 * this file asks for the first version, which every later glibc still has. Functions whose first version is younger
 * must not be used. tests/lint finds both. `dlopen` is not in the list: the agent defines it. */
#ifndef PROFD_AGENT_GLIBC_COMPAT_H
#define PROFD_AGENT_GLIBC_COMPAT_H

#include <features.h>

/* No __isoc23_strtol and its like (2.38). */
#ifdef __GLIBC_USE_C2X_STRTOL
#undef __GLIBC_USE_C2X_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#endif
#ifdef __GLIBC_USE_C23_STRTOL
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C23_STRTOL 0
#endif

/* Before 2.32 no function had moved: each has one version, or none where its library is not linked (weak, see
 * below). */
#if !defined(__GLIBC__) || (__GLIBC__ == 2 && __GLIBC_MINOR__ < 32)
#define GLIBC_FIRST(name, x86_64)
#elif defined(__x86_64__)
#define GLIBC_FIRST(name, x86_64) __asm__(".symver " #name "," #name "@GLIBC_" #x86_64);
#elif defined(__aarch64__)
#define GLIBC_FIRST(name, x86_64) __asm__(".symver " #name "," #name "@GLIBC_2.17");
#else
#define GLIBC_FIRST(name, x86_64)
#endif

/* clang-format off */
GLIBC_FIRST(__pthread_key_create, 2.2.5)
GLIBC_FIRST(dladdr, 2.2.5)
GLIBC_FIRST(dladdr1, 2.3.3)
GLIBC_FIRST(dlclose, 2.2.5)
GLIBC_FIRST(dlerror, 2.2.5)
GLIBC_FIRST(dlinfo, 2.3.3)
GLIBC_FIRST(dlsym, 2.2.5)
GLIBC_FIRST(dlvsym, 2.2.5)
GLIBC_FIRST(pthread_attr_getaffinity_np, 2.3.4)
GLIBC_FIRST(pthread_attr_getguardsize, 2.2.5)
GLIBC_FIRST(pthread_attr_getstack, 2.2.5)
GLIBC_FIRST(pthread_attr_getstackaddr, 2.2.5)
GLIBC_FIRST(pthread_attr_getstacksize, 2.2.5)
GLIBC_FIRST(pthread_attr_setaffinity_np, 2.3.4)
GLIBC_FIRST(pthread_attr_setguardsize, 2.2.5)
GLIBC_FIRST(pthread_attr_setstack, 2.2.5)
GLIBC_FIRST(pthread_attr_setstackaddr, 2.2.5)
GLIBC_FIRST(pthread_attr_setstacksize, 2.2.5)
GLIBC_FIRST(pthread_barrier_destroy, 2.2.5)
GLIBC_FIRST(pthread_barrier_init, 2.2.5)
GLIBC_FIRST(pthread_barrier_wait, 2.2.5)
GLIBC_FIRST(pthread_barrierattr_destroy, 2.2.5)
GLIBC_FIRST(pthread_barrierattr_getpshared, 2.3.3)
GLIBC_FIRST(pthread_barrierattr_init, 2.2.5)
GLIBC_FIRST(pthread_barrierattr_setpshared, 2.2.5)
GLIBC_FIRST(pthread_cancel, 2.2.5)
GLIBC_FIRST(pthread_condattr_getclock, 2.3.3)
GLIBC_FIRST(pthread_condattr_getpshared, 2.2.5)
GLIBC_FIRST(pthread_condattr_setclock, 2.3.3)
GLIBC_FIRST(pthread_condattr_setpshared, 2.2.5)
GLIBC_FIRST(pthread_create, 2.2.5)
GLIBC_FIRST(pthread_detach, 2.2.5)
GLIBC_FIRST(pthread_getaffinity_np, 2.3.4)
GLIBC_FIRST(pthread_getattr_np, 2.2.5)
GLIBC_FIRST(pthread_getconcurrency, 2.2.5)
GLIBC_FIRST(pthread_getcpuclockid, 2.2.5)
GLIBC_FIRST(pthread_getname_np, 2.12)
GLIBC_FIRST(pthread_getspecific, 2.2.5)
GLIBC_FIRST(pthread_join, 2.2.5)
GLIBC_FIRST(pthread_key_create, 2.2.5)
GLIBC_FIRST(pthread_key_delete, 2.2.5)
GLIBC_FIRST(pthread_kill, 2.2.5)
GLIBC_FIRST(pthread_mutex_consistent, 2.12)
GLIBC_FIRST(pthread_mutex_getprioceiling, 2.4)
GLIBC_FIRST(pthread_mutex_setprioceiling, 2.4)
GLIBC_FIRST(pthread_mutex_timedlock, 2.2.5)
GLIBC_FIRST(pthread_mutex_trylock, 2.2.5)
GLIBC_FIRST(pthread_mutexattr_destroy, 2.2.5)
GLIBC_FIRST(pthread_mutexattr_getprioceiling, 2.4)
GLIBC_FIRST(pthread_mutexattr_getprotocol, 2.4)
GLIBC_FIRST(pthread_mutexattr_getpshared, 2.2.5)
GLIBC_FIRST(pthread_mutexattr_getrobust, 2.12)
GLIBC_FIRST(pthread_mutexattr_gettype, 2.2.5)
GLIBC_FIRST(pthread_mutexattr_init, 2.2.5)
GLIBC_FIRST(pthread_mutexattr_setprioceiling, 2.4)
GLIBC_FIRST(pthread_mutexattr_setprotocol, 2.4)
GLIBC_FIRST(pthread_mutexattr_setpshared, 2.2.5)
GLIBC_FIRST(pthread_mutexattr_setrobust, 2.12)
GLIBC_FIRST(pthread_mutexattr_settype, 2.2.5)
GLIBC_FIRST(pthread_once, 2.2.5)
GLIBC_FIRST(pthread_rwlock_destroy, 2.2.5)
GLIBC_FIRST(pthread_rwlock_init, 2.2.5)
GLIBC_FIRST(pthread_rwlock_rdlock, 2.2.5)
GLIBC_FIRST(pthread_rwlock_timedrdlock, 2.2.5)
GLIBC_FIRST(pthread_rwlock_timedwrlock, 2.2.5)
GLIBC_FIRST(pthread_rwlock_tryrdlock, 2.2.5)
GLIBC_FIRST(pthread_rwlock_trywrlock, 2.2.5)
GLIBC_FIRST(pthread_rwlock_unlock, 2.2.5)
GLIBC_FIRST(pthread_rwlock_wrlock, 2.2.5)
GLIBC_FIRST(pthread_rwlockattr_destroy, 2.2.5)
GLIBC_FIRST(pthread_rwlockattr_getkind_np, 2.2.5)
GLIBC_FIRST(pthread_rwlockattr_getpshared, 2.2.5)
GLIBC_FIRST(pthread_rwlockattr_init, 2.2.5)
GLIBC_FIRST(pthread_rwlockattr_setkind_np, 2.2.5)
GLIBC_FIRST(pthread_rwlockattr_setpshared, 2.2.5)
GLIBC_FIRST(pthread_setaffinity_np, 2.3.4)
GLIBC_FIRST(pthread_setconcurrency, 2.2.5)
GLIBC_FIRST(pthread_setname_np, 2.12)
GLIBC_FIRST(pthread_setschedprio, 2.3.4)
GLIBC_FIRST(pthread_setspecific, 2.2.5)
GLIBC_FIRST(pthread_sigmask, 2.2.5)
GLIBC_FIRST(pthread_sigqueue, 2.11)
GLIBC_FIRST(pthread_spin_destroy, 2.2.5)
GLIBC_FIRST(pthread_spin_init, 2.2.5)
GLIBC_FIRST(pthread_spin_lock, 2.2.5)
GLIBC_FIRST(pthread_spin_trylock, 2.2.5)
GLIBC_FIRST(pthread_spin_unlock, 2.2.5)
GLIBC_FIRST(pthread_testcancel, 2.2.5)
GLIBC_FIRST(pthread_timedjoin_np, 2.3.3)
GLIBC_FIRST(pthread_tryjoin_np, 2.3.3)
GLIBC_FIRST(sem_close, 2.2.5)
GLIBC_FIRST(sem_destroy, 2.2.5)
GLIBC_FIRST(sem_getvalue, 2.2.5)
GLIBC_FIRST(sem_init, 2.2.5)
GLIBC_FIRST(sem_open, 2.2.5)
GLIBC_FIRST(sem_post, 2.2.5)
GLIBC_FIRST(sem_timedwait, 2.2.5)
GLIBC_FIRST(sem_trywait, 2.2.5)
GLIBC_FIRST(sem_unlink, 2.2.5)
GLIBC_FIRST(sem_wait, 2.2.5)
GLIBC_FIRST(shm_open, 2.2.5)
GLIBC_FIRST(shm_unlink, 2.2.5)
GLIBC_FIRST(timer_create, 2.3.3)
GLIBC_FIRST(timer_delete, 2.3.3)
GLIBC_FIRST(timer_getoverrun, 2.3.3)
GLIBC_FIRST(timer_gettime, 2.3.3)
GLIBC_FIRST(timer_settime, 2.3.3)
/* clang-format on */

/* Functions that stood in libpthread and libdl before they came into libc are weak, and the agent does not name these
 * two libraries as needed. A container with a new glibc may lack them, and a program does not start without a library
 * that a preloaded one needs. Under an old glibc a program without libpthread gets no agent; enter.c looks. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#pragma weak dladdr
#pragma weak dlsym
#pragma weak pthread_attr_setstacksize
#pragma weak pthread_create
#pragma weak pthread_join
#pragma weak pthread_sigmask

#undef GLIBC_FIRST
#endif
