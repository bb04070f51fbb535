/* Time MPI_Bcast as `circulant bench broadcast` times its own: one CSV line per size.
 *
 *   broadcast LABEL SECONDS SIZE...      LABEL is library,algorithm as "mpich/default"
 *
 * An iteration is barrier, start, broadcast, stop; its time is the largest over the ranks. There are
 * as many iterations as fit SECONDS, 3 to 200. Afterwards every byte is checked on every rank: the
 * exit code is 1 if one is wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST = 3, MOST = 200, ROOT = 0 };

static int ranks, me;

static unsigned char expected(size_t place, int size) { return (unsigned char)(place * 167 + (place >> 8) + size); }

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double once(unsigned char *data, int size)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    MPI_Bcast(data, size, MPI_BYTE, ROOT, MPI_COMM_WORLD);
    return 1e6 * (MPI_Wtime() - start);
}

/* Rank 0 decides for all how many iterations fit, by the second of two untimed ones. */
static int iterations(unsigned char *data, int size, double seconds)
{
    double us, slowest;
    once(data, size);
    us = once(data, size);
    MPI_Allreduce(&us, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    double fit = 1e6 * seconds / slowest;
    return fit < FEWEST ? FEWEST : fit > MOST ? MOST : (int)fit;
}

static int wrong_bytes(unsigned char *data, int size)
{
    int wrong = 0, all = 0;
    for (int i = 0; i < size; i++) data[i] = me == ROOT ? expected(i, size) : (unsigned char)~expected(i, size);
    once(data, size);
    for (int i = 0; i < size; i++) wrong += data[i] != expected(i, size);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static int measure(const char *library, const char *algorithm, int size, double seconds)
{
    enum { PAGE = 4096 };
    size_t room = ((size_t)size / PAGE + 1) * PAGE;
    unsigned char *data = aligned_alloc(PAGE, room);
    double own[MOST], slowest[MOST];
    if (!data) MPI_Abort(MPI_COMM_WORLD, 3);
    memset(data, 0, room);
    int n = iterations(data, size, seconds);
    for (int i = 0; i < n; i++) own[i] = once(data, size);
    MPI_Reduce(own, slowest, n, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    int wrong = wrong_bytes(data, size);
    if (me == 0) {
        qsort(slowest, n, sizeof *slowest, by_value);
        printf("%s,broadcast,-,%s,%d,%d,%d,0,%.2f,%.2f,%.2f\n", library, algorithm, ranks, ranks, size, slowest[0],
               (slowest[n / 2] + slowest[(n - 1) / 2]) / 2, slowest[n - 1]);
        fflush(stdout);
        if (wrong) fprintf(stderr, "%s/%s: %d of %d bytes wrong\n", library, algorithm, wrong, size);
    }
    free(data);
    return wrong != 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    char *library = argc > 3 ? strtok(argv[1], "/") : NULL, *algorithm = strtok(NULL, "/");
    if (!library || !algorithm) {
        if (me == 0) fprintf(stderr, "usage: broadcast LIBRARY/ALGORITHM SECONDS SIZE...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 3; i < argc; i++) failed |= measure(library, algorithm, atoi(argv[i]), atof(argv[2]));
    MPI_Finalize();
    return failed;
}
