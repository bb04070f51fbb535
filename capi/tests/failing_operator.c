/* An operator that fails at one rank is an error at all, and the communicator of no more use. */
#include "check.h"

static int fails(const void *left, const void *right, void *result, size_t count, circulant_type type, void *ctx)
{
    (void)left, (void)right, (void)result, (void)count, (void)type;
    return *(int *)ctx;
}

int main(void)
{
    circulant_comm world;
    circulant_op op;
    int size, code = 7, mine = 1, sum;
    OK(circulant_init(&world));
    OK(circulant_comm_size(world, &size));
    OK(circulant_op_create(fails, 1, &code, &op));
    if (size > 1) {
        /* So nobody hears of it while it still joins; but the others may be quicker to leave the barrier, too. */
        int found = circulant_barrier(world);
        if (found == CIRCULANT_OK)
            found = circulant_allreduce(&mine, &sum, 1, CIRCULANT_INT, op, world);
        CHECK(found == CIRCULANT_ERR_OPERATOR || found == CIRCULANT_ERR_ABORTED);
        CHECK(strstr(circulant_error_message(), "it returned 7"));
        CHECK(circulant_barrier(world) == found);
        CHECK(circulant_finalize(&world) == found);
    } else {
        OK(circulant_allreduce(&mine, &sum, 1, CIRCULANT_INT, op, world));
        OK(circulant_finalize(&world));
    }
    CHECK(!world);
    OK(circulant_op_free(&op));
    return 0;
}
