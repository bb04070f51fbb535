/* The heat equation on a square plate, its rows divided among the ranks.
 *
 *     cc -O2 heat.c -o heat $(pkg-config --cflags --libs circulant) -lm
 *     circulant run -n 4 -- ./heat [SIDE [STEPS]] [--verify]
 *
 * Each step a rank needs the row above its first and the one below its last from its neighbours: an alltoallv in
 * which a rank has something for these two only. The calls are prepared once, one for each of the two grids that
 * take turns. Every hundred steps an allreduce tells how much still changes. With --verify rank 0 computes
 * everything once more by itself, and compares bit by bit.
 */
#include <circulant.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void ok(int code)
{
    if (code == CIRCULANT_OK)
        return;
    fprintf(stderr, "heat: %s\n", circulant_error_message());
    exit(1);
}

static void *words(int count)
{
    void *found = calloc((size_t)count, sizeof(size_t));
    if (!found)
        exit(1);
    return found;
}

/* Rows first to first + rows - 1 of the plate, with a row of a neighbour's (or of the edge) on both sides. */
struct share {
    size_t side, first, rows;
};

static struct share share_of(size_t side, int rank, int size)
{
    size_t begin = side * (size_t)rank / (size_t)size, end = side * ((size_t)rank + 1) / (size_t)size;
    struct share share = {side, begin, end - begin};
    return share;
}

static size_t cells(struct share share) { return (share.rows + 2) * share.side; }

/* Cold, but for the edge above the first row. */
static void start_cold(double *grid, struct share share)
{
    memset(grid, 0, cells(share) * sizeof *grid);
    for (size_t i = 0; i < share.side && share.first == 0; i++)
        grid[i] = 100;
}

/* One step from one grid to the other; the largest change of a cell. The left and right edges stay cold. */
static double step(const double *old, double *new, struct share share)
{
    double change = 0;
    for (size_t row = 1; row <= share.rows; row++)
        for (size_t i = 1; i + 1 < share.side; i++) {
            size_t at = row * share.side + i;
            double around = old[at - 1] + old[at + 1] + old[at - share.side] + old[at + share.side];
            new[at] = 0.25 * around;
            change = fmax(change, fabs(new[at] - old[at]));
        }
    return change;
}

/* Prepares the exchange of a grid's border rows with the ranks above and below. */
static circulant_request border_exchange(double *grid, struct share share, int rank, int size, circulant_comm world)
{
    circulant_request request;
    size_t *counts = words(size), *from = words(size), *to = words(size);
    if (rank > 0) {
        counts[rank - 1] = share.side;
        from[rank - 1] = share.side;
        to[rank - 1] = 0;
    }
    if (rank + 1 < size) {
        counts[rank + 1] = share.side;
        from[rank + 1] = share.rows * share.side;
        to[rank + 1] = (share.rows + 1) * share.side;
    }
    ok(circulant_alltoallv_prepare(grid, counts, from, grid, counts, to, CIRCULANT_DOUBLE, world, &request));
    free(counts), free(from), free(to);
    return request;
}

/* Gathers the plate at rank 0, which computes it by itself too. */
static int verify(const double *grid, struct share mine, long steps, int rank, int size, circulant_comm world)
{
    struct share all = share_of(mine.side, 0, 1);
    size_t *counts = words(size);
    double *plate = NULL, *old = NULL, *new = NULL;
    int differs = 0;
    for (int r = 0; r < size; r++)
        counts[r] = share_of(mine.side, r, size).rows * mine.side;
    if (rank == 0) {
        plate = malloc(mine.side * mine.side * sizeof *plate);
        old = malloc(cells(all) * sizeof *old), new = malloc(cells(all) * sizeof *new);
        if (!plate || !old || !new)
            exit(1);
    }
    ok(circulant_gatherv(grid + mine.side, plate, counts, NULL, CIRCULANT_DOUBLE, 0, world));
    if (rank == 0) {
        start_cold(old, all), start_cold(new, all);
        for (long s = 0; s < steps; s++) {
            double *last = old;
            step(old, new, all);
            old = new, new = last;
        }
        differs = memcmp(plate, old + mine.side, mine.side * mine.side * sizeof *plate) != 0;
        printf("%s\n", differs ? "NOT what one rank computes" : "bit for bit what one rank computes");
    }
    ok(circulant_broadcast(&differs, 1, CIRCULANT_INT, 0, world));
    free(counts), free(plate), free(old), free(new);
    return differs;
}

int main(int argc, char **argv)
{
    circulant_comm world;
    circulant_window windows[2];
    circulant_request borders[2];
    double *grids[2];
    int rank, size, verifies = argc > 1 && strcmp(argv[argc - 1], "--verify") == 0, differs = 0;
    size_t side = argc - verifies > 1 ? strtoul(argv[1], NULL, 10) : 300;
    long steps = argc - verifies > 2 ? strtol(argv[2], NULL, 10) : 500;

    ok(circulant_init(&world));
    ok(circulant_comm_rank(world, &rank));
    ok(circulant_comm_size(world, &size));
    if (side < (size_t)size || side < 3 || steps < 0) {
        fprintf(stderr, "heat: a side of 3 cells at least, and of a row for each rank\n");
        return 1;
    }
    struct share share = share_of(side, rank, size);
    for (int g = 0; g < 2; g++) {
        void *address;
        ok(circulant_window_alloc(world, cells(share) * sizeof(double), &address, &windows[g]));
        grids[g] = address;
        start_cold(grids[g], share);
        borders[g] = border_exchange(grids[g], share, rank, size, world);
    }

    for (long s = 0; s < steps; s++) {
        double change, largest;
        ok(circulant_start(borders[s % 2]));
        ok(circulant_wait(&borders[s % 2]));
        change = step(grids[s % 2], grids[(s + 1) % 2], share);
        if ((s + 1) % 100 == 0) {
            ok(circulant_allreduce(&change, &largest, 1, CIRCULANT_DOUBLE, CIRCULANT_MAX, world));
            if (rank == 0)
                printf("step %ld: a cell changes by %.6f at most\n", s + 1, largest);
        }
    }
    if (verifies)
        differs = verify(grids[steps % 2], share, steps, rank, size, world);
    ok(circulant_finalize(&world)); /* with its windows and requests */
    return differs;
}
