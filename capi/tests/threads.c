/* Threads, each on a communicator of its own, and one more that waits for what another has started. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <pthread.h>

enum { THREADS = 3, COUNT = 1500 };

static int rank, size, times;

/* Many collectives on one communicator; failures are the thread's own. */
static void *work(void *argument)
{
    circulant_comm comm = (circulant_comm)argument;
    int64_t *data = memory(COUNT * sizeof *data);
    for (int t = 0; t < times; t++) {
        for (int i = 0; i < COUNT; i++)
            data[i] = rank + i + t;
        OK(circulant_allreduce(CIRCULANT_IN_PLACE, data, t % 2 ? COUNT : 1, CIRCULANT_INT64, CIRCULANT_SUM, comm));
        CHECK(data[0] == size * (size - 1) / 2 + (int64_t)size * t);
        CHECK(circulant_barrier(NULL) == CIRCULANT_ERR_NULL);
        CHECK(strstr(circulant_error_message(), "null where"));
    }
    free(data);
    return NULL;
}

static void *wait_for(void *argument)
{
    OK(circulant_wait((circulant_request *)argument));
    return NULL;
}

int main(int argc, char **argv)
{
    circulant_comm world, comms[THREADS];
    circulant_request request;
    pthread_t threads[THREADS], waiter;
    int sum = 0;
    /* Under a slow checker few must do. */
    times = argc > 1 && strcmp(argv[1], "few") == 0 ? 20 : 200;
    OK(circulant_init(&world));
    OK(circulant_comm_rank(world, &rank));
    OK(circulant_comm_size(world, &size));
    OK(circulant_allreduce_start(&rank, &sum, 1, CIRCULANT_INT, CIRCULANT_SUM, world, &request));
    for (int t = 0; t < THREADS; t++)
        OK(circulant_comm_duplicate(world, &comms[t]));
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, work, comms[t]) == 0);
    CHECK(pthread_create(&waiter, NULL, wait_for, &request) == 0);
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_join(threads[t], NULL) == 0);
    CHECK(pthread_join(waiter, NULL) == 0);
    CHECK(sum == size * (size - 1) / 2 && !request);
    CHECK(strcmp(circulant_error_message(), "") == 0); /* this thread's */
    OK(circulant_finalize(&world));
    return 0;
}
