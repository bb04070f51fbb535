/* A library to preload into MPI programs that have more ranks than cores: an idle rank sleeps.
 *
 * MPI libraries wait by polling without end, and a polling rank takes the core from one that has work.
 * Here only the first empty polls in a row return at once; later ones wait in the kernel until there
 * is something, or for a millisecond, as there may be work that no descriptor shows. A message wakes
 * its receiver at once, so nothing but a wake-up is added to a latency.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <sys/epoll.h>

enum { EMPTY_POLLS = 5, SLEEP_MS = 1 };

static __thread int empty;

static int patience(void) { return empty < EMPTY_POLLS ? 0 : SLEEP_MS; }

static int note(int events)
{
    empty = events ? 0 : empty + 1;
    return events;
}

/* Looked up at the first call, which may come from another library's constructor. */
#define NEXT(name) ({ static __typeof__(&name) next; next ? next : (next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)); })

int epoll_wait(int set, struct epoll_event *events, int most, int timeout)
{
    return timeout ? NEXT(epoll_wait)(set, events, most, timeout) : note(NEXT(epoll_wait)(set, events, most, patience()));
}

int poll(struct pollfd *descriptors, nfds_t count, int timeout)
{
    return timeout || !count ? NEXT(poll)(descriptors, count, timeout) : note(NEXT(poll)(descriptors, count, patience()));
}

/* To yield is for those that spin. */
int sched_yield(void)
{
    extern int sched_yield(void);
    return empty >= EMPTY_POLLS ? 0 : NEXT(sched_yield)();
}
