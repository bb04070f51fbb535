/* Time MPI's collectives as `circulant bench` times its own: one CSV line per collective, kind and size.
 *
 *   collectives LIBRARY/ALGORITHM SECONDS REST COLLECTIVES KINDS SIZES      the last three comma-separated
 *
 * A size is a total in bytes, of n = size / 4 ints: the vector of broadcast, reduce and allreduce, all
 * shares of those that gather or scatter together, what one rank sends in alltoall. Where all shares are
 * equal they have max(1, n / p) ints, and the line says what was used. KINDS are of the shares of
 * allgatherv and reduce_scatter: regular (all the same), irregular (rank i has i mod 3 parts) and
 * degenerate (rank 0 has all); what the division leaves goes to the last rank that has any. Sums are
 * MPI_SUM, the root is rank 0.
 *
 * An iteration is barrier, start, operation, stop; its time is the largest over the ranks. With a REST of
 * more than 0 seconds all start by the clock, so long after the root has left the barrier, and times count
 * from then. Where the
 * environment has FRESH, the operation is what a program does: each rank writes its input, calls, and
 * reads what has come; else the input stays as it is. There are
 * as many iterations as fit SECONDS, 3 to 10000, after a warm-up of as long, 0.1 s at most. Afterwards
 * the operation runs once more over results that are wrong everywhere, and every element is checked on
 * every rank: one that is wrong makes the exit code 1, and there is no line.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FEWEST = 3, MOST = 10000, ROOT = 0, PAGE = 4096 };

static const MPI_Comm world = MPI_COMM_WORLD;
static const double WARM_UP = 0.1;
/* From shorter rests ranks that sleep would wake microseconds apart: they look at the clock until it is time. */
static const double SLEPT = 1e-4;
static double rest;
static int fresh;
static int ranks, me;

/* Each rank has a share of n ints; `in` and `out` have room for all n. */
struct job {
    int n;
    int *share, *place;
    int *in, *out;
};

static void broadcast(struct job *j) { MPI_Bcast(me == ROOT ? j->in : j->out, j->n, MPI_INT, ROOT, world); }
static void reduce(struct job *j) { MPI_Reduce(j->in, j->out, j->n, MPI_INT, MPI_SUM, ROOT, world); }
static void allreduce(struct job *j) { MPI_Allreduce(j->in, j->out, j->n, MPI_INT, MPI_SUM, world); }
static void allgather(struct job *j) { MPI_Allgather(j->in, *j->share, MPI_INT, j->out, *j->share, MPI_INT, world); }
static void allgatherv(struct job *j)
{
    MPI_Allgatherv(j->in, j->share[me], MPI_INT, j->out, j->share, j->place, MPI_INT, world);
}
static void reduce_scatter(struct job *j) { MPI_Reduce_scatter(j->in, j->out, j->share, MPI_INT, MPI_SUM, world); }
static void reduce_scatter_block(struct job *j)
{
    MPI_Reduce_scatter_block(j->in, j->out, *j->share, MPI_INT, MPI_SUM, world);
}
static void scatter(struct job *j) { MPI_Scatter(j->in, *j->share, MPI_INT, j->out, *j->share, MPI_INT, ROOT, world); }
static void gather(struct job *j) { MPI_Gather(j->in, *j->share, MPI_INT, j->out, *j->share, MPI_INT, ROOT, world); }
static void alltoall(struct job *j) { MPI_Alltoall(j->in, *j->share, MPI_INT, j->out, *j->share, MPI_INT, world); }
static void barrier(struct job *j) { (void)j, MPI_Barrier(world); }

enum data { NONE, WHOLE, EQUAL, COUNTED };          /* how the ints belong to ranks */
enum content { MOVED, SUMMED, EXCHANGED };          /* what becomes of them */
enum extent { NOTHING, OWN, ALL, AT_ROOT, NOT_AT_ROOT }; /* how much of them a rank ends with */

static const struct collective {
    const char *name;
    void (*run)(struct job *);
    enum data data;
    enum content content;
    enum extent input, result;
} collectives[] = {
    { "broadcast", broadcast, WHOLE, MOVED, ALL, NOT_AT_ROOT },
    { "reduce", reduce, WHOLE, SUMMED, ALL, AT_ROOT },
    { "allreduce", allreduce, WHOLE, SUMMED, ALL, ALL },
    { "allgather", allgather, EQUAL, MOVED, OWN, ALL },
    { "allgatherv", allgatherv, COUNTED, MOVED, OWN, ALL },
    { "reduce_scatter", reduce_scatter, COUNTED, SUMMED, ALL, OWN },
    { "reduce_scatter_block", reduce_scatter_block, EQUAL, SUMMED, ALL, OWN },
    { "scatter", scatter, EQUAL, MOVED, ALL, OWN },
    { "gather", gather, EQUAL, MOVED, OWN, AT_ROOT },
    { "alltoall", alltoall, EQUAL, EXCHANGED, ALL, ALL },
    { "barrier", barrier, NONE, MOVED, NOTHING, NOTHING },
};

static const char *const kinds[] = { "regular", "irregular", "degenerate" };

enum { COLLECTIVES = sizeof collectives / sizeof *collectives, KINDS = sizeof kinds / sizeof *kinds };

/* ---- what is in the ints ---- */

static int moved(long place) { return (int)(((unsigned long)place * 2246822519UL + 374761393UL) >> 5 & 0x7fffffff); }
static int summand(int rank, long place) { return (rank + 1) * (int)(place % 4093 + 1); }
static int sum(long place) { return ranks * (ranks + 1) / 2 * (int)(place % 4093 + 1); }

static int given(const struct collective *c, const struct job *j, long i)
{
    if (c->content == SUMMED) return summand(me, i);
    if (c->content == EXCHANGED) return moved((long)me * j->n + i);
    return moved(c->input == OWN ? j->place[me] + i : i);
}

static int expected(const struct collective *c, const struct job *j, long i)
{
    int block = *j->share;
    if (c->content == EXCHANGED) return moved(i / block * j->n + j->place[me] + i % block);
    if (c->result == OWN) i += j->place[me];
    return c->content == SUMMED ? sum(i) : moved(i);
}

static int result_size(const struct collective *c, const struct job *j)
{
    switch (c->result) {
    case OWN: return j->share[me];
    case ALL: return j->n;
    case AT_ROOT: return me == ROOT ? j->n : 0;
    case NOT_AT_ROOT: return me == ROOT ? 0 : j->n;
    default: return 0;
    }
}

static void fill(const struct collective *c, struct job *j)
{
    for (int i = 0; i < j->n; i++) j->in[i] = given(c, j, i);
    for (int i = 0; i < j->n; i++) j->out[i] = ~expected(c, j, i);
}

/* ---- who has how many ---- */

static int parts(const char *kind, int rank)
{
    switch (*kind) {
    case 'i': return rank % 3;
    case 'd': return rank == ROOT;
    default: return 1;
    }
}

static void divide(struct job *j, const char *kind)
{
    int all = 0, left = j->n, last = ROOT;
    for (int r = 0; r < ranks; r++) all += parts(kind, r);
    for (int r = 0; r < ranks; r++) {
        j->share[r] = all ? (int)((long)j->n * parts(kind, r) / all) : 0;
        left -= j->share[r];
        if (parts(kind, r)) last = r;
    }
    j->share[last] += left;
    j->place[0] = 0;
    for (int r = 1; r < ranks; r++) j->place[r] = j->place[r - 1] + j->share[r - 1];
}

static int *room(size_t ints)
{
    int *memory = aligned_alloc(PAGE, (ints * sizeof(int) / PAGE + 1) * PAGE);
    if (!memory) MPI_Abort(world, 3);
    memset(memory, 0, ints * sizeof(int));
    return memory;
}

static struct job set_up(const struct collective *c, const char *kind, long size)
{
    int n = c->data == NONE ? 0 : (int)(size / sizeof(int));
    if (c->data == EQUAL) n = (n < ranks ? 1 : n / ranks) * ranks;
    struct job j = { n, room(ranks), room(ranks), room(n), room(n) };
    divide(&j, kind);
    fill(c, &j);
    return j;
}

static void take_down(struct job *j) { free(j->share), free(j->place), free(j->in), free(j->out); }

/* ---- how long it takes ---- */

static int input_size(const struct collective *c, const struct job *j)
{
    if (c->content == MOVED && c->input == ALL && me != ROOT) return 0;
    return c->input == OWN ? j->share[me] : c->input == ALL ? j->n : 0;
}

/* By vectors, as the compiler does it for circulant. */
__attribute__((optimize("O3"))) static void renew(int *in, int n)
{
    static int value;
    value++;
    for (int i = 0; i < n; i++) in[i] = value;
}

__attribute__((optimize("O3"))) static unsigned look(const int *out, int n)
{
    unsigned sum = 0;
    for (int i = 0; i < n; i++) sum += (unsigned)out[i];
    return sum;
}

/* Else the compiler would not read at all. */
static volatile unsigned seen;

static void use(const struct collective *c, struct job *j)
{
    renew(j->in, input_size(c, j));
    c->run(j);
    seen = look(j->out, result_size(c, j));
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static long nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* The root names the time; all read one clock. Who hears of it when it has passed starts late by no fault of the
 * operation. */
static long start_by_the_clock(void)
{
    long start = nanoseconds() + (long)(1e9 * rest);
    MPI_Bcast(&start, 1, MPI_LONG, ROOT, world);
    long now = nanoseconds();
    if (start < now) start = now;
    struct timespec time = { start / 1000000000L, start % 1000000000L };
    if (rest >= SLEPT) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
    while (nanoseconds() < start) {}
    return start;
}

/* From when all were to start: a rank that the system wakes late has not done less. */
static double once(const struct collective *c, struct job *j)
{
    MPI_Barrier(world);
    long start = rest > 0 ? start_by_the_clock() : nanoseconds();
    fresh ? use(c, j) : c->run(j);
    return 1e-3 * (nanoseconds() - start);
}

/* What an iteration takes, by twice as many untimed ones as before until they took about half of WARM_UP, as
 * memory is slow for some time after a machine idled. All ranks take the root's word. */
static double warm_up(const struct collective *c, struct job *j, double seconds)
{
    once(c, j);
    for (int count = 1;; count *= 2) {
        MPI_Barrier(world);
        double start = MPI_Wtime();
        for (int i = 0; i < count; i++) once(c, j);
        MPI_Barrier(world);
        double took = MPI_Wtime() - start;
        MPI_Bcast(&took, 1, MPI_DOUBLE, ROOT, world);
        if (2 * took >= (seconds < WARM_UP ? seconds : WARM_UP)) return took / count;
    }
}

static int iterations(const struct collective *c, struct job *j, double seconds)
{
    double fit = seconds / warm_up(c, j, seconds);
    return fit < FEWEST ? FEWEST : fit > MOST ? MOST : (int)fit;
}

static long wrong_elements(const struct collective *c, struct job *j)
{
    long wrong = 0, all = 0;
    fill(c, j);
    MPI_Barrier(world);
    c->run(j);
    for (int i = 0; i < result_size(c, j); i++) wrong += j->out[i] != expected(c, j, i);
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, world);
    return all;
}

static void print(const char *label, const struct collective *c, const char *kind, int n, double *us, int count)
{
    const char *algorithm = strchr(label, '/');
    qsort(us, count, sizeof *us, by_value);
    printf("%.*s,%s,%s,%s,%d,%d,%ld,0,%.3f,%.3f,%.3f,-,,%g,-,%s\n", (int)(algorithm - label), label, c->name,
           c->data == COUNTED ? kind : "-", algorithm + 1, ranks, ranks, (long)n * (long)sizeof(int), us[0],
           (us[count / 2] + us[(count - 1) / 2]) / 2, us[count - 1], rest, fresh ? "true" : "false");
    fflush(stdout);
}

static int measure(const char *label, double seconds, const struct collective *c, const char *kind, long size)
{
    double own[MOST], slowest[MOST];
    struct job j = set_up(c, kind, size);
    int count = iterations(c, &j, seconds);
    for (int i = 0; i < count; i++) own[i] = once(c, &j);
    MPI_Reduce(own, slowest, count, MPI_DOUBLE, MPI_MAX, ROOT, world);
    long wrong = wrong_elements(c, &j);
    if (me == ROOT && wrong)
        fprintf(stderr, "%s: %s %s of %ld bytes: %ld elements wrong\n", label, c->name, kind, size, wrong);
    else if (me == ROOT)
        print(label, c, kind, j.n, slowest, count);
    take_down(&j);
    return wrong != 0;
}

/* ---- the command line ---- */

/* All ranks come here, as all have the same arguments; the root speaks before anyone ends the job. */
static void refuse(const char *what, const char *word)
{
    if (me == ROOT) fprintf(stderr, "collectives: %s '%s'; the head of collectives.c says what there is\n", what, word);
    MPI_Barrier(world);
    MPI_Abort(world, 2);
}

static int listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *word = list; word; word = strchr(word, ','), word = word ? word + 1 : NULL)
        if (strcspn(word, ",") == length && !strncmp(word, name, length)) return 1;
    return 0;
}

static int words(const char *list)
{
    int count = 1;
    for (; *list; list++) count += *list == ',';
    return count;
}

static void check_arguments(int argc, char **argv)
{
    int known = 0;
    if (argc != 7) refuse("wrong number of arguments after", argv[0]);
    if (!strchr(argv[1], '/')) refuse("no LIBRARY/ALGORITHM", argv[1]);
    if (!(atof(argv[2]) > 0)) refuse("no number of seconds", argv[2]);
    char *end;
    fresh = getenv("FRESH") != NULL;
    rest = strtod(argv[3], &end);
    if (*end || !(rest >= 0)) refuse("no number of seconds", argv[3]);
    for (int i = 0; i < COLLECTIVES; i++) known += listed(argv[4], collectives[i].name);
    if (known != words(argv[4])) refuse("an unknown collective in", argv[4]);
    known = 0;
    for (int i = 0; i < KINDS; i++) known += listed(argv[5], kinds[i]);
    if (known != words(argv[5])) refuse("an unknown kind in", argv[5]);
}

static int measure_sizes(char **argv, const struct collective *c, const char *kind)
{
    int failed = 0;
    for (char *word = argv[6], *end; *word; word = *end ? end + 1 : end) {
        long size = strtol(word, &end, 10);
        if (size < (long)sizeof(int) || size > 1L << 30 || (*end && *end != ',')) refuse("no list of sizes", argv[6]);
        failed |= measure(argv[1], atof(argv[2]), c, kind, size);
        if (c->data == NONE) break;
    }
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(world, &ranks);
    MPI_Comm_rank(world, &me);
    check_arguments(argc, argv);
    for (const struct collective *c = collectives; c < collectives + COLLECTIVES; c++) {
        if (!listed(argv[4], c->name)) continue;
        for (int k = 0; k < (c->data == COUNTED ? KINDS : 1); k++)
            if (c->data != COUNTED || listed(argv[5], kinds[k])) failed |= measure_sizes(argv, c, kinds[k]);
    }
    MPI_Finalize();
    return failed;
}
