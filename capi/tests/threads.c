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

/* A handle of the thread's own: one may have given the request up before. */
static void *wait_if_there(void *argument)
{
    circulant_request mine = *(circulant_request *)argument;
    int code = circulant_wait(&mine);
    CHECK(code == CIRCULANT_OK || code == CIRCULANT_ERR_HANDLE);
    return NULL;
}

static void *let_go(void *argument)
{
    OK(circulant_barrier((circulant_comm)argument));
    return NULL;
}

/* Rank 0's threads wait for, test and give up one request that the others join only when rank 0 is at a barrier. */
static void many_at_one_request(circulant_comm data, circulant_comm signal)
{
    int64_t *sums = memory(COUNT * sizeof *sums), *ones = memory(COUNT * sizeof *ones);
    circulant_request request, mine;
    pthread_t waiters[THREADS], releaser;
    int done;
    for (int i = 0; i < COUNT; i++)
        ones[i] = 1;
    if (rank > 0) {
        OK(circulant_barrier(signal));
        OK(circulant_allreduce(ones, sums, COUNT, CIRCULANT_INT64, CIRCULANT_SUM, data));
    } else {
        OK(circulant_allreduce_start(ones, sums, COUNT, CIRCULANT_INT64, CIRCULANT_SUM, data, &request));
        mine = request;
        for (int t = 0; t < THREADS; t++)
            CHECK(pthread_create(&waiters[t], NULL, wait_if_there, &mine) == 0);
        if (size > 1) {
            OK(circulant_test(&request, &done));
            CHECK(!done && request);
        }
        CHECK(pthread_create(&releaser, NULL, let_go, signal) == 0);
        done = circulant_request_free(&request);
        CHECK(done == CIRCULANT_OK || done == CIRCULANT_ERR_HANDLE);
        for (int i = 0; i < COUNT; i++)
            CHECK(sums[i] == size);
        for (int t = 0; t < THREADS; t++)
            CHECK(pthread_join(waiters[t], NULL) == 0);
        CHECK(pthread_join(releaser, NULL) == 0);
    }
    free(sums);
    free(ones);
}

/* One that is prepared stays, so all who wait for it are well. */
static void many_wait_for_a_prepared_one(circulant_comm comm)
{
    circulant_request request, mine[THREADS];
    pthread_t waiters[THREADS];
    OK(circulant_barrier_prepare(comm, &request));
    OK(circulant_start(request));
    for (int t = 0; t < THREADS; t++) {
        mine[t] = request;
        CHECK(pthread_create(&waiters[t], NULL, wait_for, &mine[t]) == 0);
    }
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_join(waiters[t], NULL) == 0);
    OK(circulant_request_free(&request));
}

/* One that another thread waits for runs, and who starts it hears so at once. */
static void nobody_starts_what_is_awaited(circulant_comm comm, circulant_comm signal)
{
    circulant_request request, mine;
    pthread_t waiter;
    OK(circulant_barrier_prepare(comm, &request));
    if (rank == 0 && size > 1) {
        OK(circulant_start(request));
        mine = request;
        CHECK(pthread_create(&waiter, NULL, wait_for, &mine) == 0);
        for (int i = 0; i < 100; i++)
            CHECK(circulant_start(request) == CIRCULANT_ERR_ARGUMENT);
        OK(circulant_barrier(signal));
        CHECK(pthread_join(waiter, NULL) == 0);
    } else {
        OK(circulant_barrier(signal));
        OK(circulant_start(request));
        OK(circulant_wait(&request));
    }
    OK(circulant_request_free(&request));
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
    many_at_one_request(comms[0], comms[1]);
    many_wait_for_a_prepared_one(comms[2]);
    nobody_starts_what_is_awaited(comms[0], comms[1]);
    OK(circulant_finalize(&world));
    return 0;
}
