/* One-sided communication with ranks that wait in a collective: they must let MPI go on meanwhile, whichever collective it is.
 * Prints what was wrong. */
#include <mpi.h>
#include <stdio.h>

#define VALUES 512
#define TURNS 50

static int me, size, cases, wrong;

/* Rank 0 reads and adds to what the others have, who wait for it in a collective. */
static void turn(MPI_Win window, int number)
{
    int target = number % size, found[VALUES], more[VALUES];
    for (int i = 0; i < VALUES; i++) more[i] = i;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
    MPI_Get(found, VALUES, MPI_INT, target, 0, VALUES, MPI_INT, window);
    MPI_Win_flush(target, window);
    MPI_Accumulate(more, VALUES, MPI_INT, target, 0, VALUES, MPI_INT, MPI_SUM, window);
    MPI_Win_unlock(target, window);
    int is_wrong = 0;
    for (int i = 0; i < VALUES; i++) is_wrong |= found[i] != target + (number / size) * i;
    cases++;
    wrong += is_wrong;
}

int main(int argc, char **argv)
{
    int *values, sum, one = 1;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(VALUES * sizeof *values, sizeof *values, MPI_INFO_NULL, MPI_COMM_WORLD, &values, &window);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, window);
    for (int i = 0; i < VALUES; i++) values[i] = me;
    MPI_Win_unlock(me, window);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int number = 0; number < TURNS * size; number++) {
        if (me == 0) turn(window, number);
        if (number % 2) MPI_Barrier(MPI_COMM_WORLD);
        else MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    if (me == 0) printf("one-sided: %d ranks: %d cases, %d wrong\n", size, cases, wrong);
    return wrong != 0;
}
