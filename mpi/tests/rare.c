/* What programs seldom do and MPI allows, taken over: each was a hang, or an error of a call that is right.
 *
 *   rare [large | partly]    large: values of more than an int counts bytes of, which take 6 GiB of memory
 *                            partly: what MPICH itself cannot, so without a look at how long it takes
 *
 * Functions of large counts are looked up: where the library has none there are those of the library preloaded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int me, p, cases, wrong;

static void check(int well, const char *what)
{
    cases++;
    if (!well) {
        wrong++;
        fprintf(stderr, "rare: rank %d: %s\n", me, what);
    }
}

static void *function(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    check(found != NULL, name);
    return found;
}

/* A name is a rank's own affair; before a type's first use it has been another. */
static void renamed(void)
{
    double one = 1, sum = 0;
    if (me == 0) MPI_Type_set_name(MPI_DOUBLE, "mine");
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check(sum == p, "a reduction of a type that one rank calls otherwise");
}

typedef struct { double value; int place; } located;

/* Whatever is kept, all ranks keep the same. On a communicator of its own, whose first call is never the library's. */
static located kept_of(double value, int place, MPI_Op op)
{
    located mine = { value, place }, kept = { 0, -1 };
    located *everybodys = calloc(p, sizeof *everybodys);
    MPI_Comm comm;
    int bad = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Allreduce(&mine, &kept, 1, MPI_DOUBLE_INT, op, comm);
    MPI_Comm_free(&comm);
    MPI_Allgather(&kept, 1, MPI_DOUBLE_INT, everybodys, 1, MPI_DOUBLE_INT, MPI_COMM_WORLD);
    for (int r = 0; r < p; r++)
        bad |= everybodys[r].place != kept.place || memcmp(&everybodys[r].value, &kept.value, sizeof kept.value) != 0;
    check(!bad, "ranks keep different extremes");
    free(everybodys);
    return kept;
}

/* A NaN comes before all numbers, and zeros are equal whatever their signs. */
static void extremes(void)
{
    const MPI_Op ops[] = { MPI_MINLOC, MPI_MAXLOC };
    for (int i = 0; i < 2; i++)
        for (int odd = 0; odd < p; odd++) {
            located kept = kept_of(me == odd ? NAN : me, me, ops[i]);
            check(isnan(kept.value) && kept.place == odd, "a NaN among extremes");
            kept = kept_of(me == odd ? -0.0 : 0.0, p - me, ops[i]);
            check(kept.value == 0 && kept.place == 1, "zeros of both signs");
            kept_of(me == odd ? -0.0 : 0.0, 5, ops[i]);
        }
}

static MPI_Datatype of_bytes(int gigabytes)
{
    MPI_Datatype one, all;
    MPI_Type_contiguous(1 << 27, MPI_DOUBLE, &one);
    MPI_Type_contiguous(gigabytes, one, &all);
    MPI_Type_commit(&all);
    MPI_Type_free(&one);
    return all;
}

/* One rank's type has more bytes than an int counts, of which it sends none; the others send to each other. */
static void large_type(void)
{
    MPI_Datatype large = of_bytes(3), type = me == 0 ? large : MPI_INT;
    int *counts = calloc(p, sizeof *counts), *places = calloc(p, sizeof *places);
    int *from = calloc(p, sizeof *from), *to = calloc(p, sizeof *to), bad = 0;
    for (int r = 0; r < p; r++) {
        counts[r] = me != 0 && r != 0;
        places[r] = r;
        from[r] = 10 * me + r;
    }
    MPI_Alltoallv(from, counts, places, type, to, counts, places, type, MPI_COMM_WORLD);
    for (int r = 1; r < p; r++) bad |= me != 0 && to[r] != 10 * r + me;
    check(!bad, "an all-to-all with a type of 3 GiB");
    MPI_Type_free(&large);
    free(counts), free(places), free(from), free(to);
}

/* A value of such a type on one rank, and the same in many on the other. */
static void large_value(void)
{
    MPI_Comm pair;
    MPI_Comm_split(MPI_COMM_WORLD, me < 2 ? 0 : MPI_UNDEFINED, me, &pair);
    if (pair == MPI_COMM_NULL) return;
    const long n = 1L << 28, probes[] = { 0, 1, n / 2 - 1, n / 2, n - 2, n - 1 };
    MPI_Datatype large = of_bytes(2);
    for (int root = 0; root < 2; root++) {
        double *data = mmap(NULL, n * sizeof *data, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        int bad = 0;
        for (int i = 0; me == root && i < 6; i++) data[probes[i]] = i + 1;
        MPI_Bcast(data, me == 0 ? 1 : (int)n, me == 0 ? large : MPI_DOUBLE, root, pair);
        for (int i = 0; i < 6; i++) bad |= data[probes[i]] != i + 1;
        check(!bad, root == 0 ? "a value of 2 GiB is sent" : "a value of 2 GiB is received");
        munmap(data, n * sizeof *data);
    }
    MPI_Type_free(&large);
    MPI_Comm_free(&pair);
}

/* Absolute places, and a part without values, which is nowhere. */
static void from_bottom(void)
{
    int (*allgatherv)(const void *, MPI_Count, MPI_Datatype, void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype,
                      MPI_Comm) = function("MPI_Allgatherv_c");
    MPI_Count *counts = calloc(p, sizeof *counts);
    MPI_Aint *places = calloc(p, sizeof *places);
    double *all = calloc(p, sizeof *all), mine = me + 1;
    int bad = 0;
    for (int r = 0; r < p; r++) {
        counts[r] = r != 1;
        MPI_Get_address(all + r, &places[r]);
        counts[r] *= sizeof *all;
    }
    allgatherv(&mine, counts[me], MPI_BYTE, MPI_BOTTOM, counts, places, MPI_BYTE, MPI_COMM_WORLD);
    for (int r = 0; r < p; r++) bad |= all[r] != (r == 1 ? 0 : r + 1);
    check(!bad, "an allgatherv from the bottom of memory");
    free(counts), free(places), free(all);
}

/* Parts of which each is memory of its own, with nothing between them that could be read, in an all-to-all in place. */
static void apart(void)
{
    int (*alltoallv)(const void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype, void *, const MPI_Count *,
                     const MPI_Aint *, MPI_Datatype, MPI_Comm) = function("MPI_Alltoallv_c");
    enum { PAGE = 4096, STEP = 1 << 24 };
    MPI_Count *counts = calloc(p, sizeof *counts);
    MPI_Aint *places = calloc(p, sizeof *places);
    char *all = mmap(NULL, (size_t)p * STEP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int bad = 0;
    for (int r = 0; r < p; r++) {
        int *part = (int *)(all + (size_t)r * STEP);
        mprotect(part, PAGE, PROT_READ | PROT_WRITE);
        part[0] = 10 * me + r;
        counts[r] = sizeof *part;
        MPI_Get_address(part, &places[r]);
    }
    alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, MPI_BOTTOM, counts, places, MPI_BYTE, MPI_COMM_WORLD);
    for (int r = 0; r < p; r++) bad |= *(int *)(all + (size_t)r * STEP) != 10 * r + me;
    check(!bad, "an all-to-all in place with nothing between its parts");
    munmap(all, (size_t)p * STEP);
    free(counts), free(places);
}

/* Types of addresses: what lies there is packed. */
static void types_of_addresses(void)
{
    struct { double x; int n; } here = {me + 0.5, me}, *all = calloc(p, sizeof *all);
    int lengths[] = {1, 1}, bad = 0;
    MPI_Aint places[2];
    MPI_Datatype kinds[] = {MPI_DOUBLE, MPI_INT}, type;
    MPI_Get_address(&here.x, &places[0]);
    MPI_Get_address(&here.n, &places[1]);
    MPI_Type_create_struct(2, lengths, places, kinds, &type);
    MPI_Type_commit(&type);
    MPI_Bcast(MPI_BOTTOM, 1, type, p - 1, MPI_COMM_WORLD);
    check(here.x == p - 0.5 && here.n == p - 1, "a broadcast of a struct at its address");
    here.x = me, here.n = -me;

    MPI_Datatype apart, each;
    MPI_Aint begin = 0;
    MPI_Get_address(&all->x, &places[0]);
    MPI_Get_address(&all->n, &places[1]);
    MPI_Type_create_struct(2, lengths, places, kinds, &apart);
    MPI_Type_create_resized(apart, begin, sizeof *all, &each);
    MPI_Type_commit(&each);
    MPI_Gather(MPI_BOTTOM, 1, type, MPI_BOTTOM, 1, each, 0, MPI_COMM_WORLD);
    for (int r = 0; r < p && me == 0; r++) bad |= all[r].x != r || all[r].n != -r;
    check(!bad, "a gather of structs at their addresses");
    MPI_Type_free(&type), MPI_Type_free(&apart), MPI_Type_free(&each), free(all);
}

/* Some ranks may leave the input where the result will be, as those have to that get nothing; here of more than is
 * copied at once. */
static void partly_in_place(void)
{
    enum { EACH = 1200000 };
    int *counts = calloc(p, sizeof *counts), total = 0, bad = 0;
    for (int r = 0; r < p; r++) total += counts[r] = EACH + 1000 * r;
    for (int odd = 0; odd < p; odd++) {
        int *mine = malloc(total * sizeof *mine), *sums = malloc((counts[me] + 1) * sizeof *sums), *out, at = 0;
        for (int i = 0; i < total; i++) mine[i] = i + me;
        for (int r = 0; r < me; r++) at += counts[r];
        out = me == odd ? mine : sums;
        MPI_Reduce_scatter(me == odd ? MPI_IN_PLACE : mine, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < counts[me]; i++) bad |= out[i] != p * (at + i) + p * (p - 1) / 2;
        free(mine), free(sums);
    }
    check(!bad, "a long reduce_scatter in place at one rank");
    free(counts);
}

/* Arrays that have no meaning at a rank, in calls that are passed on. */
static void without_meaning(void)
{
    int (*igatherv)(const void *, MPI_Count, MPI_Datatype, void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype,
                    int, MPI_Comm, MPI_Request *) = function("MPI_Igatherv_c");
    int (*gatherv)(const void *, MPI_Count, MPI_Datatype, void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype,
                   int, MPI_Comm) = function("MPI_Gatherv_c");
    int (*iscatterv)(const void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype, void *, MPI_Count, MPI_Datatype,
                     int, MPI_Comm, MPI_Request *) = function("MPI_Iscatterv_c");
    int (*alltoallv)(const void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype, void *, const MPI_Count *,
                     const MPI_Aint *, MPI_Datatype, MPI_Comm) = function("MPI_Alltoallv_c");
    MPI_Count *counts = calloc(p, sizeof *counts), *no_counts = (MPI_Count *)16;
    MPI_Aint *places = calloc(p, sizeof *places), *no_places = (MPI_Aint *)16;
    int *all = calloc(p, sizeof *all), mine = me + 1, root = p - 1, bad = 0;
    MPI_Request request;
    for (int r = 0; r < p; r++) counts[r] = 1, places[r] = r;
    MPI_Count *roots_counts = me == root ? counts : no_counts;
    MPI_Aint *roots_places = me == root ? places : no_places;
    igatherv(&mine, 1, MPI_INT, all, roots_counts, roots_places, MPI_INT, root, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; me == root && r < p; r++) bad |= all[r] != r + 1;
    check(!bad, "a gatherv with arrays of the root alone");
    mine = 0;
    iscatterv(all, roots_counts, roots_places, MPI_INT, &mine, 1, MPI_INT, root, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(mine == me + 1, "a scatterv with arrays of the root alone");
    alltoallv(MPI_IN_PLACE, no_counts, no_places, MPI_DATATYPE_NULL, &mine, counts, places, MPI_INT, MPI_COMM_SELF);
    check(mine == me + 1, "an all-to-all in place, with no arrays of what is sent");

    /* Between two groups: rank 0, which is the root, and all others. */
    MPI_Comm group, between;
    MPI_Comm_split(MPI_COMM_WORLD, me == 0, me, &group);
    MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, me == 0 ? 1 : 0, 0, &between);
    for (int r = 0; r < p; r++) all[r] = 0;
    gatherv(&mine, 1, MPI_INT, all, me == 0 ? counts : no_counts, me == 0 ? places : no_places, MPI_INT,
            me == 0 ? MPI_ROOT : 0, between);
    for (int r = 1; me == 0 && r < p; r++) bad |= all[r - 1] != r + 1;
    check(!bad, "a gatherv between groups with arrays of the root alone");
    MPI_Comm_free(&between);
    MPI_Comm_free(&group);
    free(counts), free(places), free(all);
}

static int heard;

static void hear(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    heard++;
}

static MPI_Comm with_handler(void)
{
    MPI_Comm comm;
    MPI_Errhandler handler;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(hear, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
    return comm;
}

/* The communicator's handler hears of functions that the library lacks, and of numbers that do not fit others. */
static void lacking(void)
{
    int (*prepare)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request *) =
        function("MPI_Allreduce_init");
    int (*iscatterv)(const void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype, void *, MPI_Count, MPI_Datatype,
                     int, MPI_Comm, MPI_Request *) = function("MPI_Iscatterv_c");
    MPI_Comm comm = with_handler();
    MPI_Request request;
    long double one = 1, sum;
    heard = 0;
    if (!dlsym(RTLD_DEFAULT, "PMPI_Allreduce_init")) {
        int code = prepare(&one, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &request);
        check(code != MPI_SUCCESS && heard == 1, "of a function that is lacking the handler has not heard");
    }
    heard = 0;
    if (!dlsym(RTLD_DEFAULT, "PMPI_Iscatterv_c")) {
        int code = iscatterv(NULL, NULL, NULL, MPI_BYTE, NULL, (MPI_Count)1 << 40, MPI_BYTE, p, comm, &request);
        check(code != MPI_SUCCESS && heard == 1, "of a count that does not fit the handler has not heard");
    }
    MPI_Comm_free(&comm);
}

#ifdef PERSISTENT
/* Calls that are prepared while as many are under way as are carried on leave room, too. */
static void prepared_late(void)
{
    enum { STARTED = 960, PREPARED = 100 };
    static MPI_Request requests[STARTED + PREPARED];
    static int from[STARTED + PREPARED], to[STARTED + PREPARED];
    MPI_Comm comm = with_handler();
    int bad = 0;
    heard = 0;
    for (int i = 0; i < STARTED + PREPARED; i++) from[i] = i;
    MPI_Barrier(comm);
    for (int i = 0; i < STARTED; i++) MPI_Iallreduce(from + i, to + i, 1, MPI_INT, MPI_SUM, comm, requests + i);
    for (int i = STARTED; i < STARTED + PREPARED; i++)
        MPI_Allreduce_init(from + i, to + i, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, requests + i);
    MPI_Barrier(comm);
    MPI_Startall(PREPARED, requests + STARTED);
    MPI_Waitall(STARTED + PREPARED, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < STARTED + PREPARED; i++) bad |= to[i] != i * p;
    for (int i = STARTED; i < STARTED + PREPARED; i++) MPI_Request_free(&requests[i]);
    check(!bad && heard == 0, "calls prepared beside as many as are carried on");
    MPI_Comm_free(&comm);
}

/* However many calls are prepared, others find room. */
static void prepared(void)
{
    enum { MANY = 1100 };
    static MPI_Request requests[MANY];
    static int from[MANY], to[MANY];
    MPI_Comm comm = with_handler();
    int n = 0, one = 1, sum = 0, later = 0;
    heard = 0;
    for (; n < MANY; n++) {
        MPI_Allreduce_init(from + n, to + n, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, requests + n);
        if (heard) break;
    }
    check(n == 896 && heard == 1, "another number of calls can be prepared than the manual says");
    for (int i = 0; i < n; i++) from[i] = i;
    MPI_Startall(n, requests);
    MPI_Request started[100];
    for (int i = 1; i < 100; i++) MPI_Ibarrier(comm, &started[i]);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Iallreduce(&one, &later, 1, MPI_INT, MPI_SUM, comm, &started[0]);
    MPI_Waitall(100, started, MPI_STATUSES_IGNORE);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    int bad = sum != p || later != p;
    for (int i = 0; i < n; i++) {
        bad |= to[i] != i * p;
        MPI_Request_free(&requests[i]);
    }
    check(!bad, "calls beside as many as can be prepared");
    MPI_Comm_free(&comm);
}
#endif

static MPI_Request last, last_prepared = MPI_REQUEST_NULL;
static int data[8], sums[2];

/* Waits for the last calls, as late as in MPI_Finalize. */
static int at_the_end(MPI_Comm comm, int key, void *value, void *extra)
{
    int bad = 0;
    (void)comm, (void)key, (void)value, (void)extra;
    MPI_Wait(&last, MPI_STATUS_IGNORE);
    for (int i = 0; i < 8; i++) bad |= data[i] != (i % 2 == 0 || me == 0 ? i : -1);
    check(!bad && last == MPI_REQUEST_NULL, "a broadcast that is waited for in MPI_Finalize");
    if (last_prepared == MPI_REQUEST_NULL) return MPI_SUCCESS;
    MPI_Wait(&last_prepared, MPI_STATUS_IGNORE);
#ifndef HANDLERS_END
    check(MPI_Start(&last_prepared) != MPI_SUCCESS, "a prepared reduction can be started in MPI_Finalize");
#endif
    MPI_Request_free(&last_prepared);
    check(sums[0] == p && sums[1] == p, "a prepared reduction that is waited for in MPI_Finalize");
    return MPI_SUCCESS;
}

static void start_the_last(void)
{
    int key;
    MPI_Datatype strided;
    for (int i = 0; i < 8; i++) data[i] = me == 0 ? i : -1;
    MPI_Type_vector(4, 1, 2, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_the_end, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Ibcast(data, 1, strided, 0, MPI_COMM_WORLD, &last);
    MPI_Type_free(&strided);
#ifdef PERSISTENT
    static int ones[] = { 1, 1 };
    MPI_Allreduce_init(ones, sums, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &last_prepared);
    MPI_Start(&last_prepared);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
#endif
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &p);
    if (argc > 1 && argv[1][0] == 'p') {
        partly_in_place();
    } else if (argc > 1) {
        large_value();
    } else {
        renamed();
        extremes();
        large_type();
        from_bottom();
        apart();
        types_of_addresses();
        without_meaning();
        lacking();
#ifdef PERSISTENT
        prepared_late();
        prepared();
#endif
        start_the_last();
    }
    MPI_Finalize();
    if (me == 0 || wrong) printf("rare: rank %d of %d: %d cases, %d wrong\n", me, p, cases, wrong);
    return wrong != 0;
}
