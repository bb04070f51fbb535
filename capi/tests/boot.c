/* Ranks that no launcher started: by an allgather of the caller's, and by an id; here over memory that forked processes
 * share. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 3, MOST = 1 << 16 };

/* What the processes share: a counter of arrivals for each phase, and room for everybody's block. */
struct shared {
    int arrived[256];
    char blocks[SIZE][MOST];
    circulant_id id;
};

struct place {
    struct shared *shared;
    int rank, phase, fails;
};

static void meet(struct place *here)
{
    int phase = here->phase++;
    __atomic_add_fetch(&here->shared->arrived[phase], 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&here->shared->arrived[phase], __ATOMIC_SEQ_CST) < SIZE)
        sched_yield();
}

static int gather(const void *own, void *all, size_t bytes, void *context)
{
    struct place *here = (struct place *)context;
    if (here->fails || bytes > MOST)
        return 42;
    memcpy(here->shared->blocks[here->rank], own, bytes);
    meet(here);
    for (int r = 0; r < SIZE; r++)
        memcpy((char *)all + (size_t)r * bytes, here->shared->blocks[r], bytes);
    meet(here);
    return 0;
}

static void work(circulant_comm world, int rank)
{
    char how[100];
    int found, size, sum;
    OK(circulant_comm_rank(world, &found));
    OK(circulant_comm_size(world, &size));
    CHECK(found == rank && size == SIZE);
    OK(circulant_comm_boot(world, how, sizeof how));
    OK(circulant_allreduce(&rank, &sum, 1, CIRCULANT_INT, CIRCULANT_SUM, world));
    CHECK(sum == SIZE * (SIZE - 1) / 2);
}

/* One world after the other, and both at one time. */
static void be_a_rank(struct shared *shared, int rank)
{
    struct place here = {shared, rank, 0, 0};
    circulant_comm by_allgather, by_id;
    OK(circulant_init_allgather(rank, SIZE, gather, &here, &by_allgather));
    work(by_allgather, rank);
    if (rank == 0)
        OK(circulant_id_create(&shared->id));
    meet(&here);
    OK(circulant_init_id(rank, SIZE, &shared->id, &by_id));
    work(by_id, rank);
    work(by_allgather, rank);
    OK(circulant_finalize(&by_allgather));
    work(by_id, rank);
    OK(circulant_finalize(&by_id));
}

static void refusals(struct shared *shared)
{
    struct place here = {shared, 0, 0, 1};
    circulant_comm world = NULL;
    FAILS(CIRCULANT_ERR_BOOT, "the caller's allgather returned 42", circulant_init_allgather(0, 2, gather, &here, &world));
    FAILS(CIRCULANT_ERR_ARGUMENT, "rank 2 of 2 ranks", circulant_init_allgather(2, 2, gather, &here, &world));
    FAILS(CIRCULANT_ERR_ARGUMENT, "rank -1 of 2 ranks", circulant_init_allgather(-1, 2, gather, &here, &world));
    FAILS(CIRCULANT_ERR_ARGUMENT, "rank 0 of 0 ranks", circulant_init_allgather(0, 0, gather, &here, &world));
    FAILS(CIRCULANT_ERR_NULL, "`allgather` is null", circulant_init_allgather(0, 1, NULL, &here, &world));
    FAILS(CIRCULANT_ERR_NULL, "`id` is null", circulant_id_create(NULL));
    FAILS(CIRCULANT_ERR_NULL, "`id` is null", circulant_init_id(0, 1, NULL, &world));
    FAILS(CIRCULANT_ERR_ARGUMENT, "unique id", circulant_init_id(0, 1, &shared->id, &world));
    CHECK(!world);
}

int main(void)
{
    void *map = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int failed = 0;
    CHECK(map != MAP_FAILED);
    refusals((struct shared *)map);
    for (int r = 0; r < SIZE; r++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            be_a_rank((struct shared *)map, r);
            exit(0);
        }
    }
    for (int r = 0; r < SIZE; r++) {
        int status;
        CHECK(wait(&status) > 0);
        failed += status != 0;
    }
    return failed;
}
