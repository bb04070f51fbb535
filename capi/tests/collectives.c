/* Every collective, in every tense, with input apart and in place, of no, few and many elements, against what it
 * must give. */
#include "check.h"

static circulant_comm world;
static int rank, size;

/* Element i of what a rank has for another (or for nobody in particular). */
static int64_t value(int from, int to, size_t i) { return (int64_t)from * 1000003 + (int64_t)to * 10007 + (int64_t)i; }

/* How many elements a rank's part has, where parts differ; some have none. */
static size_t part(int from, int to, size_t count) { return (size_t)(from * 7 + to * 3 + 5) * 31 % (count + 1); }

enum { APART, IN_PLACE };

/* What a case needs: memory, counts and places. */
static struct {
    size_t count;
    int way, root;
    int64_t *input, *output;
    size_t *counts, *places, *others, *other_places;
} c;

static size_t sum_of(const size_t *counts)
{
    size_t sum = 0;
    for (int r = 0; r < size; r++)
        sum += counts[r];
    return sum;
}

/* Parts in reversed order, with room between them. */
static void place(const size_t *counts, size_t *places)
{
    size_t next = 2;
    for (int r = size - 1; r >= 0; r--) {
        places[r] = next;
        next += counts[r] + 3;
    }
}

static void clear(void)
{
    size_t all = (size_t)size * (c.count + 4) + 4;
    memset(c.input, 0x55, all * sizeof *c.input);
    memset(c.output, 0x55, all * sizeof *c.output);
}

static void write_part(int64_t *to, size_t count, int other)
{
    for (size_t i = 0; i < count; i++)
        to[i] = value(rank, other, i);
}

static void check_part(const int64_t *found, size_t count, int from, int to)
{
    for (size_t i = 0; i < count; i++)
        CHECK(found[i] == value(from, to, i));
}

/* The sum over all ranks of their elements for one. */
static void check_sums(const int64_t *found, size_t count, size_t skipped)
{
    for (size_t i = 0; i < count; i++) {
        int64_t sum = 0;
        for (int r = 0; r < size; r++)
            sum += value(r, 0, skipped + i);
        CHECK(found[i] == sum);
    }
}

/* Makes a call in a tense; `fill` comes before each time, `verify` after. */
#define MAKE(tense, fill, verify, name, ...)                              \
    do {                                                                  \
        circulant_request request = NULL;                                 \
        if (tense == 0) {                                                 \
            fill();                                                       \
            OK(circulant_##name(__VA_ARGS__));                            \
            verify();                                                     \
        } else if (tense == 1) {                                          \
            int done = 0;                                                 \
            fill();                                                       \
            OK(circulant_##name##_start(__VA_ARGS__, &request));          \
            while (!done)                                                 \
                OK(circulant_test(&request, &done));                      \
            CHECK(!request);                                              \
            verify();                                                     \
        } else {                                                          \
            OK(circulant_##name##_prepare(__VA_ARGS__, &request));        \
            for (int times = 0; times < 3; times++) {                     \
                fill();                                                   \
                OK(circulant_start(request));                             \
                OK(circulant_wait(&request));                             \
                CHECK(request);                                           \
                verify();                                                 \
            }                                                             \
            OK(circulant_request_free(&request));                         \
            CHECK(!request);                                              \
        }                                                                 \
    } while (0)

#define INT64 CIRCULANT_INT64
static int is_root(void) { return rank == c.root; }
static const void *input_or(int in_place) { return in_place ? CIRCULANT_IN_PLACE : (const void *)c.input; }

static void fill_root(void)
{
    clear();
    if (is_root())
        write_part(c.output, c.count, 0);
}
static void verify_root(void) { check_part(c.output, c.count, c.root, 0); }
static void broadcast(int tense) { MAKE(tense, fill_root, verify_root, broadcast, c.output, c.count, INT64, c.root, world); }

static void fill_vector(void)
{
    clear();
    write_part(c.way == IN_PLACE ? c.output : c.input, c.count, 0);
}
static void verify_vector(void) { check_sums(c.output, c.count, 0); }
static void allreduce(int tense)
{
    MAKE(tense, fill_vector, verify_vector, allreduce, input_or(c.way), c.output, c.count, INT64, CIRCULANT_SUM, world);
}

static void fill_reduce(void)
{
    clear();
    write_part(c.way == IN_PLACE && is_root() ? c.output : c.input, c.count, 0);
}
static void verify_reduce(void)
{
    if (is_root())
        check_sums(c.output, c.count, 0);
}
static void reduce(int tense)
{
    MAKE(tense, fill_reduce, verify_reduce, reduce, input_or(c.way && is_root()), is_root() ? c.output : NULL, c.count,
         INT64, CIRCULANT_SUM, c.root, world);
}

static void fill_gather(void)
{
    clear();
    write_part(c.way == IN_PLACE ? c.output + c.count * (size_t)rank : c.input, c.count, 0);
}
static void verify_gather(void)
{
    for (int r = 0; r < size; r++)
        check_part(c.output + c.count * (size_t)r, c.count, r, 0);
}
static void allgather(int tense)
{
    MAKE(tense, fill_gather, verify_gather, allgather, input_or(c.way), c.output, c.count, INT64, world);
}

static void fill_gather_root(void)
{
    clear();
    write_part(c.way == IN_PLACE && is_root() ? c.output + c.count * (size_t)rank : c.input, c.count, 0);
}
static void verify_gather_root(void)
{
    if (is_root())
        verify_gather();
}
static void gather(int tense)
{
    MAKE(tense, fill_gather_root, verify_gather_root, gather, input_or(c.way && is_root()), is_root() ? c.output : NULL,
         c.count, INT64, c.root, world);
}

/* Parts of the ranks' own sizes, with and without places. */
static void own_counts(void)
{
    for (int r = 0; r < size; r++)
        c.counts[r] = part(r, 0, c.count);
    place(c.counts, c.places);
}
static int64_t *at(int64_t *all, const size_t *counts, const size_t *places, int other)
{
    size_t begin = 0;
    for (int r = 0; r < other; r++)
        begin += counts[r];
    return all + (places ? places[other] : begin);
}
static size_t *placed; /* c.places, or null */

static void fill_gatherv(void)
{
    int there = c.way == IN_PLACE && (is_root() || c.root < 0);
    clear();
    write_part(there ? at(c.output, c.counts, placed, rank) : c.input, c.counts[rank], 0);
}
static void verify_gatherv(void)
{
    for (int r = 0; r < size && (is_root() || c.root < 0); r++)
        check_part(at(c.output, c.counts, placed, r), c.counts[r], r, 0);
}
static void allgatherv(int tense)
{
    int root = c.root;
    own_counts();
    c.root = -1;
    for (int i = 0; i < 2; i++) {
        placed = i ? c.places : NULL;
        MAKE(tense, fill_gatherv, verify_gatherv, allgatherv, input_or(c.way), c.output, c.counts, placed, INT64, world);
    }
    c.root = root;
}
static void gatherv(int tense)
{
    own_counts();
    for (int i = 0; i < 2; i++) {
        placed = i ? c.places : NULL;
        MAKE(tense, fill_gatherv, verify_gatherv, gatherv, input_or(c.way && is_root()), is_root() ? c.output : NULL,
             c.counts, is_root() ? placed : NULL, INT64, c.root, world);
    }
}

static void fill_scatter(void)
{
    clear();
    for (int r = 0; r < size && is_root(); r++)
        write_part(c.input + c.count * (size_t)r, c.count, r);
}
static void verify_scatter(void)
{
    int stays = c.way == IN_PLACE && is_root();
    check_part(stays ? c.input + c.count * (size_t)rank : c.output, c.count, c.root, rank);
}
static void scatter(int tense)
{
    MAKE(tense, fill_scatter, verify_scatter, scatter, is_root() ? c.input : NULL,
         c.way && is_root() ? CIRCULANT_IN_PLACE : c.output, c.count, INT64, c.root, world);
}
static void fill_scatterv(void)
{
    clear();
    for (int r = 0; r < size && is_root(); r++)
        write_part(at(c.input, c.counts, placed, r), c.counts[r], r);
}
static void verify_scatterv(void)
{
    int stays = c.way == IN_PLACE && is_root();
    check_part(stays ? at(c.input, c.counts, placed, rank) : c.output, c.counts[rank], c.root, rank);
}
static void scatterv(int tense)
{
    own_counts();
    for (int i = 0; i < 2; i++) {
        placed = i ? c.places : NULL;
        MAKE(tense, fill_scatterv, verify_scatterv, scatterv, is_root() ? c.input : NULL, c.counts,
             is_root() ? placed : NULL, c.way && is_root() ? CIRCULANT_IN_PLACE : c.output, INT64, c.root, world);
    }
}

static void fill_parts(void)
{
    clear();
    write_part(c.way == IN_PLACE ? c.output : c.input, sum_of(c.counts), 0);
}
static void verify_parts(void)
{
    size_t before = 0;
    for (int r = 0; r < rank; r++)
        before += c.counts[r];
    check_sums(c.output, c.counts[rank], before);
}
static void reduce_scatter(int tense)
{
    own_counts();
    MAKE(tense, fill_parts, verify_parts, reduce_scatter, input_or(c.way), c.output, c.counts, INT64, CIRCULANT_SUM, world);
}
static void reduce_scatter_block(int tense)
{
    for (int r = 0; r < size; r++)
        c.counts[r] = c.count;
    MAKE(tense, fill_parts, verify_parts, reduce_scatter_block, input_or(c.way), c.output, c.count, INT64, CIRCULANT_SUM,
         world);
}

static void fill_pairs(void)
{
    clear();
    for (int r = 0; r < size; r++)
        write_part((c.way == IN_PLACE ? c.output : c.input) + c.count * (size_t)r, c.count, r);
}
static void verify_pairs(void)
{
    for (int r = 0; r < size; r++)
        check_part(c.output + c.count * (size_t)r, c.count, r, rank);
}
static void alltoall(int tense)
{
    MAKE(tense, fill_pairs, verify_pairs, alltoall, input_or(c.way), c.output, c.count, INT64, world);
}
static void fill_pairsv(void)
{
    clear();
    for (int r = 0; r < size; r++)
        write_part(at(c.way == IN_PLACE ? c.output : c.input, c.others, placed ? c.other_places : NULL, r), c.others[r], r);
}
static void verify_pairsv(void)
{
    for (int r = 0; r < size; r++)
        check_part(at(c.output, c.counts, placed, r), c.counts[r], r, rank);
}
static void alltoallv(int tense)
{
    for (int r = 0; r < size; r++) {
        /* In place both are as long. */
        c.others[r] = c.way == IN_PLACE ? part(rank + r, rank + r, c.count) : part(rank, r, c.count);
        c.counts[r] = c.way == IN_PLACE ? c.others[r] : part(r, rank, c.count);
    }
    place(c.counts, c.places);
    place(c.others, c.other_places);
    for (int i = 0; i < 2; i++) {
        placed = i ? c.places : NULL;
        MAKE(tense, fill_pairsv, verify_pairsv, alltoallv, input_or(c.way), c.way ? NULL : c.others,
             placed && !c.way ? c.other_places : NULL, c.output, c.counts, placed, INT64, world);
    }
}

static void nothing(void) {}
static void barrier(int tense) { MAKE(tense, nothing, nothing, barrier, world); }

static void (*const all[])(int) = {broadcast, reduce,  allreduce, allgather,      allgatherv,           gather,   gatherv,
                                   scatter,   scatterv, barrier,   reduce_scatter, reduce_scatter_block, alltoall, alltoallv};

/* Several at one time, waited for together; the memory is a window's. */
static void many_at_once(void)
{
    enum { MANY = 6, COUNT = 3000 };
    circulant_window window;
    circulant_request requests[MANY];
    void *address;
    double *data;
    OK(circulant_window_alloc(world, MANY * COUNT * sizeof *data, &address, &window));
    data = (double *)address;
    for (int m = 0; m < MANY; m++) {
        for (int i = 0; i < COUNT; i++)
            data[m * COUNT + i] = rank + m;
        requests[m] = NULL;
        if (m != 2)
            OK(circulant_allreduce_start(CIRCULANT_IN_PLACE, data + m * COUNT, COUNT, CIRCULANT_DOUBLE, CIRCULANT_SUM,
                                         world, &requests[m]));
    }
    OK(circulant_wait_all(MANY, requests));
    for (int m = 0; m < MANY; m++) {
        CHECK(!requests[m]);
        for (int i = 0; i < COUNT && m != 2; i++)
            CHECK(data[m * COUNT + i] == size * (size - 1) / 2 + m * size);
    }
    OK(circulant_window_free(&window));
    CHECK(!window);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {0, 1, 5, 700, 20000};
    /* Under a slow checker few elements must do. */
    size_t how_many = argc > 1 && strcmp(argv[1], "few") == 0 ? 4 : sizeof counts / sizeof *counts;
    OK(circulant_init(&world));
    OK(circulant_comm_rank(world, &rank));
    OK(circulant_comm_size(world, &size));
    for (size_t n = 0; n < how_many; n++) {
        c.count = counts[n];
        size_t bytes = ((size_t)size * (c.count + 4) + 4) * sizeof(int64_t), words = (size_t)size * sizeof(size_t);
        c.input = memory(bytes), c.output = memory(bytes);
        c.counts = memory(words), c.places = memory(words), c.others = memory(words), c.other_places = memory(words);
        for (c.way = APART; c.way <= IN_PLACE; c.way++)
            for (c.root = 0; c.root < size; c.root += size > 2 ? size - 1 : 1)
                for (size_t one = 0; one < sizeof all / sizeof *all; one++)
                    for (int tense = 0; tense < 3; tense++)
                        all[one](tense);
        free(c.input), free(c.output), free(c.counts), free(c.places), free(c.others), free(c.other_places);
    }
    many_at_once();
    OK(circulant_finalize(&world));
    CHECK(!world);
    return 0;
}
