/* Ranks that do not agree on a call: an error at all of them, which names two. */
#include "check.h"

int main(void)
{
    circulant_comm world;
    int rank, size, data[9] = {0};
    OK(circulant_init(&world));
    OK(circulant_comm_rank(world, &rank));
    OK(circulant_comm_size(world, &size));
    if (size > 1) {
        /* So nobody hears of it while it still joins; but the others may be quicker to leave the barrier, too. */
        int found = circulant_barrier(world);
        if (found == CIRCULANT_OK)
            found = circulant_broadcast(data, rank == 1 ? 9 : 8, CIRCULANT_INT, 0, world);
        /* The root may be done before anybody knows; then the next call tells. */
        if (found == CIRCULANT_OK)
            found = circulant_barrier(world);
        CHECK(found == CIRCULANT_ERR_DISAGREEMENT || found == CIRCULANT_ERR_ABORTED);
        CHECK(strstr(circulant_error_message(), "ranks disagree about call #"));
        CHECK(circulant_barrier(world) == found);
        CHECK(circulant_finalize(&world) == found);
    } else {
        OK(circulant_finalize(&world));
    }
    return 0;
}
