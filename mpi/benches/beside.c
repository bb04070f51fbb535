/* A call of MPI's that is taken over, beside the same call of circulant's own interface, turn about in one process:
 * medians over the turns, of rank 0, and their difference. Built and run by ci/lab/interposed. */
#include <circulant.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { TURNS = 21 };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void make(int form, double *in, double *out, size_t n, int root, circulant_comm own)
{
    switch (form) {
    case 0: MPI_Allreduce(in, out, (int)n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); break;
    case 1: circulant_allreduce(in, out, n, CIRCULANT_DOUBLE, CIRCULANT_SUM, own); break;
    case 2: MPI_Bcast(in, (int)n, MPI_DOUBLE, root, MPI_COMM_WORLD); break;
    default: circulant_broadcast(in, n, CIRCULANT_DOUBLE, root, own);
    }
}

static double turn(int form, double *in, double *out, size_t n, int times, circulant_comm own)
{
    PMPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < times; i++) make(form, in, out, n, i & 1, own);
    return (MPI_Wtime() - start) / times * 1e6;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    circulant_comm own;
    if (circulant_init(&own) != CIRCULANT_OK) {
        fprintf(stderr, "%s\n", circulant_error_message());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const struct { size_t bytes; int times; } sizes[] = {{8, 20000}, {65536, 2000}, {1048576, 200}};
    const char *names[] = {"allreduce", "broadcast"};
    if (rank == 0) printf("%-10s %9s %10s %10s %10s %7s\n", "collective", "bytes", "by MPI us", "own us", "difference", "ratio");
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = sizes[s].bytes / sizeof(double);
        double *in = calloc(n, sizeof *in), *out = calloc(n, sizeof *out), times[4][TURNS];
        for (int t = 0; t < TURNS; t++)
            for (int form = 0; form < 4; form++) times[form][t] = turn(form, in, out, n, sizes[s].times, own);
        for (int form = 0; form < 4; form++) qsort(times[form], TURNS, sizeof(double), by_size);
        for (int c = 0; c < 2 && rank == 0; c++) {
            double by_mpi = times[2 * c][TURNS / 2], by_own = times[2 * c + 1][TURNS / 2];
            printf("%-10s %9zu %10.2f %10.2f %10.2f %7.3f\n", names[c], sizes[s].bytes, by_mpi, by_own, by_mpi - by_own,
                   by_mpi / by_own);
        }
        free(in);
        free(out);
    }
    circulant_finalize(&own);
    return MPI_Finalize();
}
