/* Every collective, taken over, beside the library's own: same results, bit for bit.
 *
 *   verify [LEVEL [few]]    thread level to ask for: 0 single (default) to 3 multiple, where two threads run it;
 *                           few: requests only
 *
 * Of each: types, operators, in place, lengths, roots, communicators (all, halves, reversed, a duplicate),
 * tenses (at once, started, prepared), types with gaps, types that differ from rank to rank. PMPI_ functions are
 * the library's own. Values are small whole numbers, so that sums do not depend on the order.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BCAST, REDUCE, ALLREDUCE, REDSCAT, REDSCATB, ALLGATHER, ALLGATHERV, SCATTER, SCATTERV, GATHER,
       GATHERV, ALLTOALL, ALLTOALLV, BARRIER, COLLECTIVES };
static const char *names[] = { "bcast", "reduce", "allreduce", "reduce_scatter", "reduce_scatter_block",
    "allgather", "allgatherv", "scatter", "scatterv", "gather", "gatherv", "alltoall", "alltoallv", "barrier" };
enum tense { AT_ONCE, STARTED, PREPARED, TENSES, OWN };

typedef struct {
    MPI_Comm comm;
    int p, me, root, n, in_place;
    MPI_Datatype send_type, recv_type;
    MPI_Op op;
    void *send, *recv;
    int *counts, *places; /* for each rank, in values */
} args;

/* One call by NAME, started by I ## LOWER, or prepared and started twice; or the library's own. */
#ifdef PERSISTENT
#define PREPARE(NAME, ...) do {                                           \
        MPI_ ## NAME ## _init(__VA_ARGS__, MPI_INFO_NULL, &request);      \
        for (int i = 0; i < 2; i++) {                                     \
            if (i) again(a);                                              \
            MPI_Start(&request);                                          \
            MPI_Wait(&request, &status);                                  \
        }                                                                 \
        MPI_Request_free(&request);                                       \
    } while (0)
#else
#define PREPARE(NAME, ...) again(a), MPI_ ## NAME(__VA_ARGS__)
#endif
#define CALL(NAME, LOWER, ...)                                                                 \
    switch (tense) {                                                                           \
    case OWN: PMPI_ ## NAME(__VA_ARGS__); break;                                               \
    case STARTED: MPI_I ## LOWER(__VA_ARGS__, &request); MPI_Wait(&request, &status); break;   \
    case PREPARED: PREPARE(NAME, __VA_ARGS__); break;                                          \
    default: MPI_ ## NAME(__VA_ARGS__);                                                        \
    }                                                                                          \
    break

static _Thread_local size_t room;
static _Thread_local void *fresh_send, *fresh_recv;

/* Before a prepared call is started once more: the buffers as they were at first. */
static void again(const args *a)
{
    memcpy(a->send, fresh_send, room);
    memcpy(a->recv, fresh_recv, room);
}

static void call(int c, enum tense tense, const args *a)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    int at_root = a->me == a->root;
    void *in = a->in_place && (a->root < 0 || at_root) ? MPI_IN_PLACE : a->send;
    void *out = a->recv;
    int n = a->n, own_n = a->counts[a->me];
    MPI_Datatype st = a->send_type, rt = a->recv_type;
    if (in == MPI_IN_PLACE && tense == OWN && c >= REDUCE && c <= REDSCATB) {
        /* MPICH 4.0 ends here by a signal: its reduction in place of some thousand bytes. */
        memcpy(a->send, a->recv, room);
        in = a->send;
    }
    if ((c == SCATTER || c == SCATTERV) && a->in_place && at_root) { in = a->send; out = MPI_IN_PLACE; }
    else if (c == SCATTER || c == SCATTERV) in = a->send;
    switch (c) {
    case BCAST: CALL(Bcast, bcast, out, n, rt, a->root, a->comm);
    case REDUCE: CALL(Reduce, reduce, in, out, n, rt, a->op, a->root, a->comm);
    case ALLREDUCE: CALL(Allreduce, allreduce, in, out, n, rt, a->op, a->comm);
    case REDSCAT: CALL(Reduce_scatter, reduce_scatter, in, out, a->counts, rt, a->op, a->comm);
    case REDSCATB: CALL(Reduce_scatter_block, reduce_scatter_block, in, out, n, rt, a->op, a->comm);
    case ALLGATHER: CALL(Allgather, allgather, in, n, st, out, n, rt, a->comm);
    case ALLGATHERV: CALL(Allgatherv, allgatherv, in, own_n, st, out, a->counts, a->places, rt, a->comm);
    case SCATTER: CALL(Scatter, scatter, in, n, st, out, n, rt, a->root, a->comm);
    case SCATTERV: CALL(Scatterv, scatterv, in, a->counts, a->places, st, out, own_n, rt, a->root, a->comm);
    case GATHER: CALL(Gather, gather, in, n, st, out, n, rt, a->root, a->comm);
    case GATHERV: CALL(Gatherv, gatherv, in, own_n, st, out, a->counts, a->places, rt, a->root, a->comm);
    case ALLTOALL: CALL(Alltoall, alltoall, in, n, st, out, n, rt, a->comm);
    case ALLTOALLV: CALL(Alltoallv, alltoallv, in, a->counts, a->places, st, out, a->counts, a->places, rt, a->comm);
    case BARRIER: CALL(Barrier, barrier, a->comm);
    }
}

/* ---- values ------------------------------------------------------------------------------ */

static long value(int rank, long i) { return (rank * 7 + i * 3) % 5 + (i % 11 == rank % 11); }

enum kind { WHOLE, REAL, COMPLEX, PAIR, BYTES };
typedef struct {
    MPI_Datatype type;
    const char *name;
    enum kind kind;
    int truth; /* logical operators only */
} element;

/* Writes values into memory of type e: by packing them from what the type is made of. */
static void put(const element *e, char *to, int rank, long i)
{
    MPI_Aint lb, extent;
    int size;
    long v = value(rank, i);
    PMPI_Type_get_extent(e->type, &lb, &extent);
    PMPI_Type_size(e->type, &size);
    to += i * extent;
    if (e->kind == WHOLE || e->kind == BYTES) {
        int64_t wide = e->truth ? v % 2 : v;
        for (int b = 0; b < size; b += 8) memset(to + b, 0, size - b < 8 ? size - b : 8);
        memcpy(to, &wide, size < 8 ? size : 8);
    } else if (e->kind == REAL || e->kind == COMPLEX) {
        int parts = e->kind == COMPLEX ? 2 : 1, width = size / parts;
        for (int k = 0; k < parts; k++) {
            float f = v + k;
            double d = v + k;
            long double l = v + k;
            memset(to + k * width, 0, width);
            if (width == 4) memcpy(to + k * width, &f, 4);
            else if (width == 8) memcpy(to + k * width, &d, 8);
            else memcpy(to + k * width, &l, 10);
        }
    } else if (e->type == MPI_FLOAT_INT) {
        struct { float v; int i; } x = { v, rank };
        memcpy(to, &x, sizeof x);
    } else if (e->type == MPI_DOUBLE_INT) {
        struct { double v; int i; } x = { v, rank };
        memcpy(to, &x, sizeof x);
    } else if (e->type == MPI_LONG_INT) {
        struct { long v; int i; } x = { v, rank };
        memcpy(to, &x, sizeof x);
    } else if (e->type == MPI_SHORT_INT) {
        struct { short v; int i; } x = { v, rank };
        memcpy(to, &x, sizeof x);
    } else if (e->type == MPI_2INT) {
        struct { int v, i; } x = { v, rank };
        memcpy(to, &x, sizeof x);
    } else {
        struct { long double v; int i; } x;
        memset(&x, 0, sizeof x);
        x.v = v;
        x.i = rank;
        memcpy(to, &x, sizeof x);
    }
}

/* ---- one case: the library's own, ours, and what differs ----------------------------------- */

static long cases, wrong;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static void check(int c, enum tense tense, args *a, const element *e, const char *what, size_t bytes, int gaps)
{
    char *buffers[4];
    for (int k = 0; k < 4; k++) {
        buffers[k] = malloc(2 * bytes);
        memset(buffers[k], 0x5a, 2 * bytes);
    }
    MPI_Aint least, extent;
    PMPI_Type_get_extent(e->type, &least, &extent);
    for (long i = 0; i < (long)(2 * bytes / extent); i++) {
        put(e, buffers[0], a->me, i);
        put(e, buffers[1], a->me + 1, i);
    }
    memcpy(buffers[2], buffers[0], 2 * bytes);
    memcpy(buffers[3], buffers[1], 2 * bytes);
    fresh_send = malloc(2 * bytes);
    fresh_recv = malloc(2 * bytes);
    memcpy(fresh_send, buffers[0], 2 * bytes);
    memcpy(fresh_recv, buffers[1], 2 * bytes);
    room = 2 * bytes;

    a->send = buffers[2];
    a->recv = buffers[3];
    call(c, OWN, a);
    a->send = buffers[0];
    a->recv = buffers[1];
    call(c, tense, a);

    int significant = c == REDUCE || c == GATHER || c == GATHERV ? a->me == a->root : 1;
    int bad = 0;
    if (significant && gaps) {
        int size = 0, at0 = 0, at1 = 0;
        int count = c == GATHER || c == ALLGATHER || c == ALLTOALL ? a->n * a->p : a->n;
        if (c == REDSCAT) count = a->counts[a->me];
        PMPI_Pack_size(count, a->recv_type, a->comm, &size);
        char *packed = calloc(2, size + 1);
        PMPI_Pack(buffers[1], count, a->recv_type, packed, size, &at0, a->comm);
        PMPI_Pack(buffers[3], count, a->recv_type, packed + size, size, &at1, a->comm);
        bad = memcmp(packed, packed + size, at0) != 0;
        free(packed);
    } else if (significant) {
        /* What lies behind a result stays as it was, also of a reduce-scatter in place. */
        bad = memcmp(buffers[1], buffers[3], 2 * bytes) != 0;
    }
    pthread_mutex_lock(&counting);
    cases++;
    if (bad && wrong++ < 10)
        fprintf(stderr, "verify: rank %d of %d: %s%s of %s, n %d, root %d, tense %d differs\n", a->me, a->p, names[c],
                a->in_place ? " in place" : "", what, a->n, a->root, tense);
    pthread_mutex_unlock(&counting);
    for (int k = 0; k < 4; k++) free(buffers[k]);
    free(fresh_send);
    free(fresh_recv);
}

static int has_root(int c) { return c == BCAST || c == REDUCE || (c >= SCATTER && c <= GATHERV); }
static int reduces(int c) { return c >= REDUCE && c <= REDSCATB; }
static int places_of(int c) { return c == BCAST || c == BARRIER ? 0 : 1; }

/* Counts of each rank up to n, some of them 0; of an all-to-all of each pair. */
static void layout(args *a, int c, int n)
{
    int at = 1;
    for (int r = 0; r < a->p; r++) {
        a->counts[r] = n * ((c == ALLTOALLV ? r + a->me : r) % 3) / 2;
        a->places[r] = at;
        at += a->counts[r];
    }
}

static args begin(MPI_Comm comm)
{
    args a = { .comm = comm, .root = -1, .op = MPI_SUM };
    PMPI_Comm_size(comm, &a.p);
    PMPI_Comm_rank(comm, &a.me);
    a.counts = calloc(a.p, sizeof(int));
    a.places = calloc(a.p, sizeof(int));
    return a;
}

static void end(args *a)
{
    free(a->counts);
    free(a->places);
}

static void reductions(MPI_Comm comm, int lengths)
{
    args a = begin(comm);
    const element elements[] = {
        { MPI_SIGNED_CHAR, "signed char", WHOLE, 0 }, { MPI_SHORT, "short", WHOLE, 0 }, { MPI_INT, "int", WHOLE, 0 },
        { MPI_LONG, "long", WHOLE, 0 }, { MPI_LONG_LONG, "long long", WHOLE, 0 },
        { MPI_UNSIGNED_CHAR, "unsigned char", WHOLE, 0 }, { MPI_UNSIGNED_SHORT, "unsigned short", WHOLE, 0 },
        { MPI_UNSIGNED, "unsigned", WHOLE, 0 }, { MPI_UNSIGNED_LONG, "unsigned long", WHOLE, 0 },
        { MPI_UNSIGNED_LONG_LONG, "unsigned long long", WHOLE, 0 },
        { MPI_INT8_T, "int8", WHOLE, 0 }, { MPI_INT16_T, "int16", WHOLE, 0 }, { MPI_INT32_T, "int32", WHOLE, 0 },
        { MPI_INT64_T, "int64", WHOLE, 0 }, { MPI_UINT8_T, "uint8", WHOLE, 0 }, { MPI_UINT16_T, "uint16", WHOLE, 0 },
        { MPI_UINT32_T, "uint32", WHOLE, 0 }, { MPI_UINT64_T, "uint64", WHOLE, 0 },
        { MPI_AINT, "aint", WHOLE, 0 }, { MPI_COUNT, "count", WHOLE, 0 }, { MPI_OFFSET, "offset", WHOLE, 0 },
        { MPI_FLOAT, "float", REAL, 0 }, { MPI_DOUBLE, "double", REAL, 0 },
        { MPI_LONG_DOUBLE, "long double", REAL, 0 },
        { MPI_C_FLOAT_COMPLEX, "float complex", COMPLEX, 0 }, { MPI_C_DOUBLE_COMPLEX, "double complex", COMPLEX, 0 },
        { MPI_C_BOOL, "bool", WHOLE, 1 }, { MPI_BYTE, "byte", BYTES, 0 },
        { MPI_FLOAT_INT, "float and int", PAIR, 0 }, { MPI_DOUBLE_INT, "double and int", PAIR, 0 },
        { MPI_LONG_INT, "long and int", PAIR, 0 }, { MPI_SHORT_INT, "short and int", PAIR, 0 },
        { MPI_2INT, "two ints", PAIR, 0 }, { MPI_LONG_DOUBLE_INT, "long double and int", PAIR, 0 },
    };
    const struct { MPI_Op op; const char *name; int on; } ops[] = {
        /* bits: 1 whole, 2 real, 4 complex, 8 pair, 16 bytes, 32 truth */
        { MPI_SUM, "sum", 7 }, { MPI_PROD, "product", 7 }, { MPI_MIN, "min", 3 }, { MPI_MAX, "max", 3 },
        { MPI_LAND, "land", 33 }, { MPI_LOR, "lor", 33 }, { MPI_LXOR, "lxor", 33 },
        { MPI_BAND, "band", 17 }, { MPI_BOR, "bor", 17 }, { MPI_BXOR, "bxor", 17 },
        { MPI_MINLOC, "minloc", 8 }, { MPI_MAXLOC, "maxloc", 8 },
    };
    static const int sizes[] = { 1, 13, 5000 };
    for (unsigned e = 0; e < sizeof elements / sizeof *elements; e++)
        for (unsigned o = 0; o < sizeof ops / sizeof *ops; o++) {
            const int kinds[] = { 1, 2, 4, 8, 16 };
            int kind = elements[e].truth ? 32 : kinds[elements[e].kind];
            if (!(ops[o].on & kind)) continue;
            for (int c = REDUCE; c <= REDSCATB; c++)
                for (int l = 0; l < lengths; l++) {
                    MPI_Aint lb, extent;
                    char what[80];
                    snprintf(what, sizeof what, "%s, %s", elements[e].name, ops[o].name);
                    PMPI_Type_get_extent(elements[e].type, &lb, &extent);
                    a.n = sizes[l];
                    a.op = ops[o].op;
                    a.send_type = a.recv_type = elements[e].type;
                    /* Types that are passed on, and what libraries make of them in place or in the background is theirs. */
                    int passed_on = elements[e].type == MPI_LONG_DOUBLE || elements[e].type == MPI_LONG_DOUBLE_INT;
                    a.in_place = !passed_on && (e + o + c + l) % 3 == 0;
                    a.root = has_root(c) ? (int)(e + o + l) % a.p : -1;
                    layout(&a, c, a.n);
                    enum tense tense = passed_on || a.p == 1 ? AT_ONCE : (e + o + c) % TENSES;
                    check(c, tense, &a, &elements[e], what, (size_t)extent * (a.n * a.p + a.p + 1),
                          elements[e].kind == PAIR || elements[e].type == MPI_LONG_DOUBLE);
                }
        }
    end(&a);
}

static void user_sum(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *n; i++) ((int *)inout)[i] += ((int *)in)[i];
}

static void users_operators(MPI_Comm comm)
{
    args a = begin(comm);
    const element ints = { MPI_INT, "int", WHOLE, 0 };
    MPI_Op op;
    a.send_type = a.recv_type = MPI_INT;
    for (int commutes = 0; commutes < 2; commutes++) {
        MPI_Op_create(user_sum, commutes, &op);
        for (int c = REDUCE; c <= REDSCATB; c++) {
            a.n = 100;
            a.op = op;
            a.root = has_root(c) ? 0 : -1;
            layout(&a, c, a.n);
            check(c, AT_ONCE, &a, &ints, "int, a user's operator", sizeof(int) * (a.n * a.p + a.p + 1), 0);
        }
        MPI_Op_free(&op);
    }
    end(&a);
}

/* Its ring (4.0 and 5.0: of long vectors, and here of more than three ranks) cuts by the extent of each rank's own type,
 * and aborts where they differ. */
static int is_mpich(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    return strncmp(text, "MPICH", 5) == 0;
}

/* Types of what is only moved: plain ones, with gaps, out of order, and others at odd ranks than at even ones. */
static void moves(MPI_Comm comm)
{
    args a = begin(comm);
    const element ints = { MPI_INT, "int", WHOLE, 0 };
    MPI_Datatype strided, twisted, resized, four;
    int ones[] = { 1, 3 }, back[] = { 4, 0 };
    MPI_Type_vector(2, 2, 3, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    MPI_Type_indexed(2, ones, back, MPI_INT, &twisted);
    MPI_Type_commit(&twisted);
    MPI_Type_create_resized(twisted, 0, 28, &resized);
    MPI_Type_commit(&resized);
    MPI_Type_contiguous(4, MPI_INT, &four);
    MPI_Type_commit(&four);
    const struct { MPI_Datatype type; const char *name; int ints; } types[] = {
        { MPI_INT, "int", 1 }, { strided, "every third left out", 4 }, { resized, "backwards, with gaps", 4 },
        { four, "four ints", 4 },
    };
    static const int lengths[] = { 0, 1, 7, 3000 };
    for (int c = 0; c < COLLECTIVES; c++)
        for (int t = 0; t < 5; t++)
            for (int l = 0; l < 4; l++)
                for (int tense = AT_ONCE; tense < TENSES; tense++) {
                    if (reduces(c)) continue;
                    if (c == BARRIER && (t || l)) continue;
                    /* What is passed on in the background is the library's, and not tested here. */
                    if ((lengths[l] == 0 || a.p == 1) && tense != AT_ONCE) continue;
                    if (t == 4 && c == ALLGATHERV && lengths[l] == 3000 && a.p > 3 && is_mpich()) continue;
                    /* The fifth: one that differs from rank to rank, of the same bytes. */
                    int here = t < 4 ? t : 1 + a.me % 3;
                    a.n = lengths[l];
                    a.in_place = places_of(c) && (t + l + tense) % 3 == 0;
                    a.root = has_root(c) ? (t + l) % a.p : -1;
                    a.send_type = a.recv_type = types[here].type;
                    layout(&a, c, a.n);
                    check(c, tense, &a, &ints, t < 4 ? types[here].name : "what differs",
                          (size_t)28 * (a.n * a.p + 2 * a.p + 2), 0);
                }
    MPI_Type_free(&strided);
    MPI_Type_free(&twisted);
    MPI_Type_free(&resized);
    MPI_Type_free(&four);
    end(&a);
}

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION > 0)
enum { WAYS = 9 };

/* Asks, with functions of MPI 4.1, until all of some requests are done, any, or some; the requests stay. */
static void ask(int way, int n, MPI_Request *request)
{
    int index, done = 0, indices[4];
    while (!done)
        switch (way) {
        case 6: MPI_Request_get_status_all(n, request, &done, MPI_STATUSES_IGNORE); break;
        case 7: MPI_Request_get_status_any(n, request, &index, &done, MPI_STATUS_IGNORE); break;
        default: MPI_Request_get_status_some(n, request, &done, indices, MPI_STATUSES_IGNORE);
        }
}
#else
enum { WAYS = 6 };

static void ask(int way, int n, MPI_Request *request) { (void)way, (void)n, (void)request; }
#endif

/* Requests of ours and of MPI's, in one array. */
static void requests(MPI_Comm comm)
{
    int p, me, done, index, count, indices[4];
    PMPI_Comm_size(comm, &p);
    PMPI_Comm_rank(comm, &me);
    int next = (me + 1) % p, before = (me + p - 1) % p;
    for (int way = 0; way < WAYS; way++) {
        int sum = 0, one = me + 1, came = -1, word = me == 0 ? 42 : 0;
        MPI_Request request[4];
        MPI_Status statuses[4];
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request[0]);
        MPI_Irecv(&came, 1, MPI_INT, before, way, comm, &request[1]);
        MPI_Ibcast(&word, 1, MPI_INT, 0, comm, &request[2]);
        MPI_Isend(&me, 1, MPI_INT, next, way, comm, &request[3]);
        switch (way) {
        case 0: MPI_Waitall(4, request, statuses); break;
        case 1: MPI_Waitall(4, request, MPI_STATUSES_IGNORE); break;
        case 2: for (int i = 0; i < 4; i++) MPI_Waitany(4, request, &index, statuses); break;
        case 3: for (int left = 4; left > 0; left -= count) MPI_Waitsome(4, request, &count, indices, statuses); break;
        case 4: do MPI_Testall(4, request, &done, statuses); while (!done); break;
        case 5:
            for (int left = 4; left > 0;) {
                MPI_Testany(4, request, &index, &done, statuses);
                if (done && index != MPI_UNDEFINED) left--;
            }
            break;
        default:
            for (int i = 0; i < 4; i += way == 6 ? 4 : 1) ask(way, way == 6 ? 4 : 1, request + i);
            MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
        }
        int bad = sum != p * (p + 1) / 2 || came != before || word != 42;
        for (int i = 0; i < 4; i++) bad |= request[i] != MPI_REQUEST_NULL;
        if (way == 0) bad |= statuses[1].MPI_SOURCE != before || statuses[1].MPI_TAG != 0;
        pthread_mutex_lock(&counting);
        cases++;
        if (bad && wrong++ < 10)
            fprintf(stderr, "verify: rank %d: requests, way %d: sum %d, came %d, word %d\n", me, way, sum, came, word);
        pthread_mutex_unlock(&counting);
    }
}

/* A call in the background outlasts the communicator that it was made on, and its type with gaps. */
static void outlasts(MPI_Comm comm)
{
    int me, data[8];
    MPI_Comm twin;
    MPI_Datatype strided;
    MPI_Request request;
    PMPI_Comm_rank(comm, &me);
    for (int i = 0; i < 8; i++) data[i] = me == 0 ? i : -1;
    MPI_Comm_dup(comm, &twin);
    MPI_Barrier(twin);
    MPI_Type_vector(4, 1, 2, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    MPI_Ibcast(data, 1, strided, 0, twin, &request);
    MPI_Type_free(&strided);
    MPI_Comm_free(&twin);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    int bad = 0;
    for (int i = 0; i < 8; i++) bad |= data[i] != (i % 2 == 0 || me == 0 ? i : -1);
    pthread_mutex_lock(&counting);
    cases++;
    if (bad && wrong++ < 10) fprintf(stderr, "verify: rank %d: a broadcast on a communicator that is freed\n", me);
    pthread_mutex_unlock(&counting);
}

/* More calls in the background than circulant carries on at a time. */
static void many(MPI_Comm comm)
{
    enum { MANY = 1500 };
    static int data[MANY];
    static MPI_Request request[MANY];
    int me, bad = 0;
    PMPI_Comm_rank(comm, &me);
    for (int i = 0; i < MANY; i++) {
        data[i] = me == 0 ? i : -1;
        MPI_Ibcast(&data[i], 1, MPI_INT, 0, comm, &request[i]);
    }
    MPI_Waitall(MANY, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++) bad |= data[i] != i;
    cases++;
    if (bad && wrong++ < 10) fprintf(stderr, "verify: rank %d: of %d broadcasts at once some differ\n", me, MANY);
}

/* A rank that waits in a call of MPI's must not hold up those that wait in ours, nor the other way round. */
static void waits(MPI_Comm comm)
{
    int p, me;
    PMPI_Comm_size(comm, &p);
    PMPI_Comm_rank(comm, &me);
    if (p < 3) return;
    /* Rank 0 starts a broadcast that only its successors forward, and then waits for a word of the last rank, who
     * sends it only when it has the broadcast. */
    enum { LONG = 1 << 20 };
    int *data = malloc(LONG * sizeof(int)), word = 0;
    MPI_Request request;
    memset(data, me == 0 ? 7 : 0, LONG * sizeof(int));
    MPI_Ibcast(data, LONG, MPI_INT, 0, comm, &request);
    if (me == 0) MPI_Recv(&word, 1, MPI_INT, p - 1, 9, comm, MPI_STATUS_IGNORE);
    if (me == 1) MPI_Recv(&word, 1, MPI_INT, p - 1, 9, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int to = 0; me == p - 1 && to < 2; to++) MPI_Send(&me, 1, MPI_INT, to, 9, comm);
    int bad = data[LONG - 1] != 0x07070707;
    /* Rank 0 sends a long message in the background and waits in a barrier; rank 1 comes to it once it has that. */
    MPI_Barrier(comm);
    if (me == 0) MPI_Isend(data, LONG, MPI_INT, 1, 10, comm, &request);
    if (me == 1) MPI_Recv(data, LONG, MPI_INT, 0, 10, comm, MPI_STATUS_IGNORE);
    MPI_Barrier(comm);
    if (me == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
    pthread_mutex_lock(&counting);
    cases++;
    if (bad && wrong++ < 10) fprintf(stderr, "verify: rank %d: a broadcast beside messages differs\n", me);
    pthread_mutex_unlock(&counting);
    free(data);
}

static void all(MPI_Comm comm, int lengths)
{
    reductions(comm, lengths);
    users_operators(comm);
    moves(comm);
    requests(comm);
    outlasts(comm);
}

static void *in_thread(void *comm)
{
    all(*(MPI_Comm *)comm, 2);
    return NULL;
}

int main(int argc, char **argv)
{
    int level = argc > 1 ? atoi(argv[1]) : 0, provided, me, p;
    const int levels[] = { MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE };
    if (level) MPI_Init_thread(&argc, &argv, levels[level & 3], &provided);
    else { MPI_Init(&argc, &argv); provided = MPI_THREAD_SINGLE; }
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &p);
    MPI_Comm half, reversed, twin;
    MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &reversed);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    if (argc > 2) {
        requests(MPI_COMM_WORLD);
    } else if (level == 3 && provided == MPI_THREAD_MULTIPLE) {
        pthread_t thread;
        pthread_create(&thread, NULL, in_thread, &twin);
        all(reversed, 2);
        pthread_join(thread, NULL);
    } else {
        all(MPI_COMM_WORLD, 3);
        all(half, 2);
        moves(reversed);
        waits(twin);
        many(twin);
        /* Handles are used again after they are freed. */
        for (int i = 0; i < 20; i++) {
            MPI_Comm one;
            int sum, mine = me;
            MPI_Comm_split(MPI_COMM_WORLD, (me + i) % 2, i % 3 ? me : -me, &one);
            MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, one);
            int expected = 0;
            for (int r = 0; r < p; r++) expected += (r + i) % 2 == (me + i) % 2 ? r : 0;
            wrong += sum != expected;
            MPI_Comm_free(&one);
        }
    }
    MPI_Comm_free(&half);
    MPI_Comm_free(&reversed);
    MPI_Comm_free(&twin);
    long mine[2] = { cases, wrong }, sums[2];
    MPI_Reduce(mine, sums, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (me == 0) printf("verify: level %d, %d ranks: %ld cases, %ld wrong\n", provided == levels[level & 3] ? level : -1, p, sums[0], sums[1]);
    MPI_Finalize();
    return wrong != 0;
}
