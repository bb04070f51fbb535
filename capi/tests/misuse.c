/* Everything that can be wrong about arguments and can be seen: codes and sentences, and the communicator is as good
 * as before. */
#include "check.h"

static circulant_comm world;
static int rank, size;
static int data[64], more[64];

static int never(const void *left, const void *right, void *result, size_t count, circulant_type type, void *ctx)
{
    (void)left, (void)right, (void)result, (void)count, (void)type, (void)ctx;
    return 1;
}

static void handles(void)
{
    circulant_comm copy, gone, null = NULL;
    circulant_window window;
    circulant_request request, stale;
    circulant_op op, old;
    void *address;
    int done, answer;

    OK(circulant_comm_duplicate(world, &copy));
    gone = copy;
    OK(circulant_comm_free(&copy));
    FAILS(CIRCULANT_ERR_HANDLE, "circulant_barrier: a communicator that was freed", circulant_barrier(gone));
    FAILS(CIRCULANT_ERR_HANDLE, "freed", circulant_comm_rank(gone, &answer));
    FAILS(CIRCULANT_ERR_HANDLE, "freed", circulant_comm_free(&gone));
    /* The next one has its place, but not its handle. */
    OK(circulant_comm_duplicate(world, &copy));
    CHECK(copy != gone);
    FAILS(CIRCULANT_ERR_HANDLE, "freed", circulant_barrier(gone));
    OK(circulant_comm_free(&copy));

    FAILS(CIRCULANT_ERR_NULL, "null where a communicator belongs", circulant_barrier(NULL));
    FAILS(CIRCULANT_ERR_NULL, "null where a communicator belongs", circulant_comm_free(&null));
    FAILS(CIRCULANT_ERR_NULL, "`comm` is null", circulant_comm_free(NULL));
    FAILS(CIRCULANT_ERR_HANDLE, "0x5 where a communicator", circulant_barrier((circulant_comm)(uintptr_t)5));
    FAILS(CIRCULANT_ERR_HANDLE, "where a communicator", circulant_barrier((circulant_comm)(void *)data));
    FAILS(CIRCULANT_ERR_ARGUMENT, "give it to circulant_finalize", circulant_comm_free(&world));

    OK(circulant_window_alloc(world, 100, &address, &window));
    FAILS(CIRCULANT_ERR_HANDLE, "a window where a communicator belongs", circulant_barrier((circulant_comm)(void *)window));
    OK(circulant_window_free(&window));
    FAILS(CIRCULANT_ERR_NULL, "a window belongs", circulant_window_free(&window));
    /* One of no bytes has an address that means nothing else. */
    OK(circulant_window_alloc(world, 0, &address, &window));
    CHECK(address && address != CIRCULANT_IN_PLACE);
    OK(circulant_window_free(&window));
    FAILS(CIRCULANT_ERR_NULL, "`address` is null", circulant_window_alloc(world, 100, NULL, &window));
    FAILS(CIRCULANT_ERR_NULL, "`window` is null", circulant_window_alloc(world, 100, &address, NULL));
    CHECK(circulant_window_alloc(world, (size_t)1 << 62, &address, &window) != CIRCULANT_OK);

    OK(circulant_allreduce_start(data, more, 64, CIRCULANT_INT, CIRCULANT_SUM, world, &request));
    stale = request;
    FAILS(CIRCULANT_ERR_ARGUMENT, "circulant_start is for", circulant_start(request));
    OK(circulant_wait(&request));
    FAILS(CIRCULANT_ERR_NULL, "a request belongs", circulant_wait(&request));
    FAILS(CIRCULANT_ERR_HANDLE, "a request that was freed", circulant_wait(&stale));
    FAILS(CIRCULANT_ERR_HANDLE, "a request that was freed", circulant_test(&stale, &done));
    FAILS(CIRCULANT_ERR_NULL, "`request` is null", circulant_barrier_start(world, NULL));
    OK(circulant_barrier_prepare(world, &request));
    FAILS(CIRCULANT_ERR_NULL, "`done` is null", circulant_test(&request, NULL));
    OK(circulant_wait(&request)); /* It does not run, so it is done. */
    OK(circulant_start(request));
    FAILS(CIRCULANT_ERR_ARGUMENT, "a request that is running", circulant_start(request));
    OK(circulant_wait(&request));
    OK(circulant_request_free(&request));
    OK(circulant_wait_all(0, NULL));
    FAILS(CIRCULANT_ERR_NULL, "`requests` is null", circulant_wait_all(1, NULL));

    OK(circulant_op_create(never, 1, NULL, &op));
    old = op;
    OK(circulant_op_free(&op));
    FAILS(CIRCULANT_ERR_HANDLE, "an operator that was freed",
          circulant_allreduce(data, more, 1, CIRCULANT_INT, old, world));
    FAILS(CIRCULANT_ERR_NULL, "`function` is null", circulant_op_create(NULL, 1, NULL, &op));
    FAILS(CIRCULANT_ERR_NULL, "`op` is null", circulant_op_create(never, 1, NULL, NULL));
    op = CIRCULANT_SUM;
    CHECK(circulant_op_free(&op) == CIRCULANT_ERR_HANDLE);
    CHECK(circulant_allreduce(data, more, 1, CIRCULANT_INT, (circulant_op)(uintptr_t)99, world) == CIRCULANT_ERR_HANDLE);
    FAILS(CIRCULANT_ERR_NULL, "an operator", circulant_allreduce(data, more, 1, CIRCULANT_INT, NULL, world));
}

static void arguments(void)
{
    size_t counts[64], places[64];
    for (int r = 0; r < size; r++)
        counts[r] = 1, places[r] = (size_t)r;
    FAILS(CIRCULANT_ERR_ARGUMENT, "root -1 of a communicator", circulant_broadcast(data, 1, CIRCULANT_INT, -1, world));
    FAILS(CIRCULANT_ERR_ARGUMENT, "take one from 0 to", circulant_reduce(data, more, 1, CIRCULANT_INT, CIRCULANT_SUM, size, world));
    FAILS(CIRCULANT_ERR_NULL, "`buffer` is null, for 4 bytes", circulant_broadcast(NULL, 1, CIRCULANT_INT, 0, world));
    FAILS(CIRCULANT_ERR_NULL, "`input` is null", circulant_allgather(NULL, more, 1, CIRCULANT_INT, world));
    FAILS(CIRCULANT_ERR_NULL, "`counts` is null", circulant_allgatherv(data, more, NULL, NULL, CIRCULANT_INT, world));
    FAILS(CIRCULANT_ERR_NULL, "`sent` is null", circulant_alltoallv(data, NULL, NULL, more, counts, NULL, CIRCULANT_INT, world));
    FAILS(CIRCULANT_ERR_ARGUMENT, "no address of a size_t",
          circulant_allgatherv(data, more, (const size_t *)(const void *)((const char *)counts + 1), NULL, CIRCULANT_INT, world));
    FAILS(CIRCULANT_ERR_ARGUMENT, "`input` and `output` overlap", circulant_allreduce(data, data, 8, CIRCULANT_INT, CIRCULANT_SUM, world));
    FAILS(CIRCULANT_ERR_ARGUMENT, "overlap", circulant_allreduce(data, data + 7, 8, CIRCULANT_INT, CIRCULANT_SUM, world));
    FAILS(CIRCULANT_ERR_ARGUMENT, "CIRCULANT_IN_PLACE as `output`",
          circulant_allreduce(data, CIRCULANT_IN_PLACE, 8, CIRCULANT_INT, CIRCULANT_SUM, world));
    if (size > 1) {
        /* Parts of the one may lie between parts of the other, and empty ones anywhere; none in one another. */
        size_t even[64], odd[64];
        for (int r = 0; r < size; r++)
            even[r] = 2 * (size_t)r, odd[r] = 2 * (size_t)(size - 1 - r);
        OK(circulant_alltoallv(data, counts, even, data + 1, counts, odd, CIRCULANT_INT, world));
        FAILS(CIRCULANT_ERR_ARGUMENT, "`input` and `output` overlap",
              circulant_alltoallv(data, counts, even, data, counts, even, CIRCULANT_INT, world));
        FAILS(CIRCULANT_ERR_ARGUMENT, "`input` and `output` overlap",
              circulant_alltoallv(data, counts, odd, data, counts, NULL, CIRCULANT_INT, world));
        FAILS(CIRCULANT_ERR_ARGUMENT, "`input` and `output` overlap",
              circulant_allgatherv(data + odd[0], data, counts, odd, CIRCULANT_INT, world));
        OK(circulant_allgatherv(data + 1, data, counts, odd, CIRCULANT_INT, world));
        odd[0] = odd[1];
        FAILS(CIRCULANT_ERR_ARGUMENT, "parts of `output` overlap",
              circulant_allgatherv(more, data, counts, odd, CIRCULANT_INT, world));
    }
    if (size > 1) { /* One side would fit. */
        size_t most[64] = { PTRDIFF_MAX - 64 };
        FAILS(CIRCULANT_ERR_OVERFLOW, "`count` would exceed", circulant_alltoall(CIRCULANT_IN_PLACE, data, PTRDIFF_MAX / (size_t)size, CIRCULANT_BYTE, world));
        FAILS(CIRCULANT_ERR_OVERFLOW, "`counts` would exceed", circulant_alltoallv(data, most, NULL, more, most, NULL, CIRCULANT_BYTE, world));
    }
    if (rank != 0)
        FAILS(CIRCULANT_ERR_ARGUMENT, "CIRCULANT_IN_PLACE as `input`",
              circulant_reduce(CIRCULANT_IN_PLACE, more, 8, CIRCULANT_INT, CIRCULANT_SUM, 0, world));
    FAILS(CIRCULANT_ERR_ARGUMENT, "colour -7", circulant_comm_split(world, -7, 0, &(circulant_comm){NULL}));

    FAILS(CIRCULANT_ERR_ARGUMENT, "blocks of a barrier",
          circulant_comm_set_algorithm(world, CIRCULANT_BARRIER, NULL, 7));
    FAILS(CIRCULANT_ERR_ARGUMENT, "barrier has no algorithm `ring`",
          circulant_comm_set_algorithm(world, CIRCULANT_BARRIER, "ring", 0));
    OK(circulant_comm_set_algorithm(world, CIRCULANT_BARRIER, "mst", 0));
    OK(circulant_barrier(world));
    OK(circulant_comm_set_algorithm(world, CIRCULANT_BARRIER, NULL, 0));

    FAILS(CIRCULANT_ERR_TYPE, "0 is no type", circulant_broadcast(data, 1, 0, 0, world));
    FAILS(CIRCULANT_ERR_TYPE, "99 is no type", circulant_broadcast(data, 1, 99, 0, world));
    FAILS(CIRCULANT_ERR_TYPE, "is no type", circulant_broadcast(data, 1, CIRCULANT_STRUCT(0), 0, world));
    FAILS(CIRCULANT_ERR_TYPE, "is no type", circulant_broadcast(data, 1, CIRCULANT_STRUCT((size_t)-1), 0, world));
    FAILS(CIRCULANT_ERR_TYPE, "circulant_allreduce: CIRCULANT_SUM does not fit CIRCULANT_STRUCT(8); it fits CIRCULANT_INT8, ",
          circulant_allreduce(data, more, 1, CIRCULANT_STRUCT(8), CIRCULANT_SUM, world));
    FAILS(CIRCULANT_ERR_TYPE, "circulant_reduce_start: CIRCULANT_BIT_OR does not fit CIRCULANT_DOUBLE; ",
          circulant_reduce_start(data, more, 1, CIRCULANT_DOUBLE, CIRCULANT_BIT_OR, 0, world, &(circulant_request){NULL}));
    FAILS(CIRCULANT_ERR_TYPE, "CIRCULANT_MAX_PLACE does not fit CIRCULANT_INT32; it fits CIRCULANT_FLOAT_INT32, ",
          circulant_allreduce(data, more, 1, CIRCULANT_INT, CIRCULANT_MAX_PLACE, world));

    FAILS(CIRCULANT_ERR_OVERFLOW, "exceed all memory", circulant_broadcast(data, (size_t)-1, CIRCULANT_INT, 0, world));
    FAILS(CIRCULANT_ERR_OVERFLOW, "exceed all memory", circulant_broadcast(data, ((size_t)1 << 62) + 1, CIRCULANT_INT, 0, world));
    FAILS(CIRCULANT_ERR_OVERFLOW, "exceed all memory", circulant_broadcast(data, (size_t)1 << 61, CIRCULANT_INT, 0, world));
    if (size > 1)
        FAILS(CIRCULANT_ERR_OVERFLOW, "exceed all memory", circulant_allgather(data, more, (size_t)-1 / 2 + 1, CIRCULANT_UINT8, world));
    places[size - 1] = (size_t)-1;
    FAILS(CIRCULANT_ERR_OVERFLOW, "exceed all memory", circulant_allgatherv(data, more, counts, places, CIRCULANT_INT, world));
    counts[size - 1] = (size_t)-1;
    FAILS(CIRCULANT_ERR_OVERFLOW, "exceed all memory", circulant_allgatherv(data, more, counts, NULL, CIRCULANT_INT, world));
    FAILS(CIRCULANT_ERR_OVERFLOW, "exceed all memory",
          circulant_scatterv(data, counts, NULL, more, CIRCULANT_INT, 0, world));
    FAILS(CIRCULANT_ERR_OVERFLOW, "exceed all memory",
          circulant_broadcast(data, (size_t)1 << 20, CIRCULANT_STRUCT((size_t)1 << 45), 0, world));
}

static void versions(void)
{
    circulant_comm other = NULL;
    FAILS(CIRCULANT_ERR_VERSION, "circulant.h 0.99, and runs with libcirculant 0.", circulant_init_version(0, 99, &other));
    FAILS(CIRCULANT_ERR_VERSION, "circulant.h 1.1, ", circulant_init_version(1, 1, &other));
    FAILS(CIRCULANT_ERR_NULL, "`world` is null", circulant_init(NULL));
    CHECK(!other);
}

static void strings(void)
{
    char text[8];
    FAILS(CIRCULANT_ERR_NULL, "no room", circulant_comm_transport(world, NULL, 10));
    FAILS(CIRCULANT_ERR_NULL, "no room", circulant_comm_boot(world, text, 0));
    CHECK(strcmp(circulant_error_name(CIRCULANT_ERR_NULL), "CIRCULANT_ERR_NULL") == 0);
    CHECK(strcmp(circulant_error_name(-3), "no code of circulant's") == 0);
}

/* What one launcher's word is good for: one world. A process without a launcher may have any number. */
static void worlds(void)
{
    circulant_comm other = NULL;
    if (size > 1) {
        FAILS(CIRCULANT_ERR_BOOT, "circulant_init_id", circulant_init(&other));
        CHECK(!other);
    } else {
        OK(circulant_init(&other));
        OK(circulant_finalize(&other));
    }
}

int main(void)
{
    circulant_comm again;
    int sum;
    CHECK(strcmp(circulant_error_message(), "") == 0);
    versions();
    OK(circulant_init(&world));
    OK(circulant_comm_rank(world, &rank));
    OK(circulant_comm_size(world, &size));
    handles();
    arguments();
    strings();
    worlds();
    OK(circulant_allreduce(&rank, &sum, 1, CIRCULANT_INT, CIRCULANT_SUM, world));
    CHECK(sum == size * (size - 1) / 2);
    again = world;
    OK(circulant_finalize(&world));
    CHECK(!world);
    worlds();
    FAILS(CIRCULANT_ERR_HANDLE, "freed", circulant_barrier(again));
    FAILS(CIRCULANT_ERR_HANDLE, "freed", circulant_finalize(&again));
    FAILS(CIRCULANT_ERR_NULL, "null", circulant_finalize(&world));
    return 0;
}
