/* Every type with every operator that fits it, against a serial fold; and those that do not fit are refused. */
#include "check.h"

#include <complex.h>
#include <stdbool.h>

enum { COUNT = 37 };

static circulant_comm world;
static int rank, size;

static const circulant_op operators[] = {
    CIRCULANT_SUM,        CIRCULANT_PRODUCT,     CIRCULANT_MIN,     CIRCULANT_MAX,    CIRCULANT_LOGICAL_AND,
    CIRCULANT_LOGICAL_OR, CIRCULANT_LOGICAL_XOR, CIRCULANT_BIT_AND, CIRCULANT_BIT_OR, CIRCULANT_BIT_XOR,
    CIRCULANT_MIN_PLACE,  CIRCULANT_MAX_PLACE};
enum { SUM, PRODUCT, MIN, MAX, LAND, LOR, LXOR, BAND, BOR, BXOR, MINP, MAXP, OPERATORS };

/* A small number that differs by rank and index, at times 0, at times negative. */
static int number(int from, int i) { return (from * 5 + i * 3) % 11 - 4; }

static void check_size(circulant_type type, size_t size_in_c)
{
    size_t bytes = 0;
    OK(circulant_type_size(type, &bytes));
    CHECK(bytes == size_in_c);
}

static void refused(circulant_type type, int op)
{
    char in[COUNT * 32] = {0}, out[COUNT * 32];
    FAILS(CIRCULANT_ERR_TYPE, "does not fit", circulant_allreduce(in, out, COUNT, type, operators[op], world));
}

/* Calls with FILL for `from`'s element i, and compares with EACH of `mine` and `theirs`, rank by rank. */
#define CASE(T, TYPE, OP, FILL, EACH)                                                     \
    do {                                                                                  \
        T in[COUNT], out[COUNT];                                                          \
        for (int i = 0, from = rank; i < COUNT; i++)                                      \
            in[i] = FILL;                                                                 \
        OK(circulant_allreduce(in, out, COUNT, TYPE, operators[OP], world));              \
        for (int i = 0; i < COUNT; i++) {                                                 \
            int from = 0;                                                                 \
            T mine = FILL;                                                                \
            for (from = 1; from < size; from++) {                                         \
                T theirs = FILL;                                                          \
                mine = EACH;                                                              \
            }                                                                             \
            CHECK(memcmp(&out[i], &mine, sizeof mine) == 0);                              \
        }                                                                                 \
    } while (0)

#define NUMBERS(T, TYPE)                                                                  \
    check_size(TYPE, sizeof(T));                                                          \
    CASE(T, TYPE, SUM, (T)number(from, i), (T)(mine + theirs));                           \
    CASE(T, TYPE, PRODUCT, (T)number(from, i), (T)(mine * theirs))
#define ORDERED(T, TYPE)                                                                  \
    CASE(T, TYPE, MIN, (T)number(from, i), mine < theirs ? mine : theirs);                \
    CASE(T, TYPE, MAX, (T)number(from, i), mine > theirs ? mine : theirs)
#define TRUTHS(T, TYPE)                                                                   \
    CASE(T, TYPE, LAND, (T)number(from, i), (T)(mine && theirs));                         \
    CASE(T, TYPE, LOR, (T)number(from, i), (T)(mine || theirs));                          \
    CASE(T, TYPE, LXOR, (T)number(from, i), (T)(!mine != !theirs))
#define BITS(T, TYPE)                                                                     \
    CASE(T, TYPE, BAND, (T)number(from, i), (T)(mine & theirs));                          \
    CASE(T, TYPE, BOR, (T)number(from, i), (T)(mine | theirs));                           \
    CASE(T, TYPE, BXOR, (T)number(from, i), (T)(mine ^ theirs))

/* A logical operator's result is 0 or 1, also of one rank's number alone. */
#define INTEGERS(T, TYPE)                                                                 \
    NUMBERS(T, TYPE);                                                                     \
    ORDERED(T, TYPE);                                                                     \
    BITS(T, TYPE);                                                                        \
    if (size > 1) {                                                                       \
        TRUTHS(T, TYPE);                                                                  \
    }                                                                                     \
    refused(TYPE, MINP)

#define PAIRS(V, I, TYPE)                                                                                   \
    do {                                                                                                    \
        typedef struct {                                                                                    \
            V value;                                                                                        \
            I place;                                                                                        \
        } T;                                                                                                \
        T in[COUNT], out[COUNT];                                                                            \
        check_size(TYPE, sizeof(T));                                                                        \
        for (int least = 0; least < 2; least++) {                                                           \
            for (int i = 0; i < COUNT; i++)                                                                 \
                in[i].value = (V)(number(rank, i) + 4), in[i].place = (I)rank;                              \
            OK(circulant_allreduce(in, out, COUNT, TYPE, operators[least ? MINP : MAXP], world));           \
            for (int i = 0; i < COUNT; i++) {                                                               \
                int found = 0;                                                                              \
                for (int r = 1; r < size; r++)                                                              \
                    if (least ? number(r, i) < number(found, i) : number(r, i) > number(found, i))          \
                        found = r;                                                                          \
                CHECK(out[i].value == (V)(number(found, i) + 4) && out[i].place == (I)found);               \
            }                                                                                               \
        }                                                                                                   \
        refused(TYPE, SUM);                                                                                 \
    } while (0)

/* One at every rank adds up to the number of ranks: what that is in 16 bits. */
static void sixteen_bits(circulant_type type, uint16_t one, const uint16_t *sums)
{
    uint16_t in = one, out = 0;
    check_size(type, sizeof in);
    OK(circulant_allreduce(&in, &out, 1, type, CIRCULANT_SUM, world));
    CHECK(size > 5 || out == sums[size - 1]);
    OK(circulant_allreduce(&in, &out, 1, type, CIRCULANT_MAX, world));
    CHECK(out == one);
}

/* 2^64 - 1 at every rank, in two halves, the lower first. */
static void wide_integers(circulant_type type)
{
    uint64_t in[2] = {UINT64_MAX, 0}, out[2];
    check_size(type, sizeof in);
    OK(circulant_allreduce(in, out, 1, type, CIRCULANT_SUM, world));
    CHECK(out[0] == (uint64_t)0 - (uint64_t)size && out[1] == (uint64_t)size - 1);
}

int main(void)
{
    static const uint16_t half[] = {0x3C00, 0x4000, 0x4200, 0x4400, 0x4500};
    static const uint16_t brain[] = {0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0};
    OK(circulant_init(&world));
    OK(circulant_comm_rank(world, &rank));
    OK(circulant_comm_size(world, &size));

    INTEGERS(int8_t, CIRCULANT_INT8);
    INTEGERS(int16_t, CIRCULANT_INT16);
    INTEGERS(int32_t, CIRCULANT_INT32);
    INTEGERS(int64_t, CIRCULANT_INT64);
    INTEGERS(ptrdiff_t, CIRCULANT_PTRDIFF);
    INTEGERS(uint8_t, CIRCULANT_UINT8);
    INTEGERS(uint16_t, CIRCULANT_UINT16);
    INTEGERS(uint32_t, CIRCULANT_UINT32);
    INTEGERS(uint64_t, CIRCULANT_UINT64);
    INTEGERS(size_t, CIRCULANT_SIZE);
    INTEGERS(int, CIRCULANT_INT);
    INTEGERS(long, CIRCULANT_LONG);
    INTEGERS(unsigned, CIRCULANT_UNSIGNED);
    INTEGERS(unsigned long, CIRCULANT_UNSIGNED_LONG);
    wide_integers(CIRCULANT_INT128);
    wide_integers(CIRCULANT_UINT128);


    check_size(CIRCULANT_FLOAT, sizeof(float));
    check_size(CIRCULANT_DOUBLE, sizeof(double));
    CASE(float, CIRCULANT_FLOAT, SUM, (float)number(from, i), mine + theirs);
    CASE(float, CIRCULANT_FLOAT, PRODUCT, (float)(1 << (number(from, i) + 4)), mine * theirs);
    ORDERED(float, CIRCULANT_FLOAT);
    CASE(double, CIRCULANT_DOUBLE, SUM, number(from, i), mine + theirs);
    CASE(double, CIRCULANT_DOUBLE, PRODUCT, (double)(1 << (number(from, i) + 4)), mine * theirs);
    ORDERED(double, CIRCULANT_DOUBLE);
    refused(CIRCULANT_DOUBLE, BXOR);
    refused(CIRCULANT_FLOAT, LAND);
    sixteen_bits(CIRCULANT_FLOAT16, half[0], half);
    sixteen_bits(CIRCULANT_BFLOAT16, brain[0], brain);

    check_size(CIRCULANT_COMPLEX_FLOAT, sizeof(float _Complex));
    check_size(CIRCULANT_COMPLEX_DOUBLE, sizeof(double _Complex));
    CASE(float _Complex, CIRCULANT_COMPLEX_FLOAT, SUM, (float)number(from, i) + 2.0f * I, mine + theirs);
    CASE(double _Complex, CIRCULANT_COMPLEX_DOUBLE, SUM, number(from, i) + 2.0 * I, mine + theirs);
    refused(CIRCULANT_COMPLEX_DOUBLE, MIN);

    check_size(CIRCULANT_BOOL, sizeof(bool));
    TRUTHS(bool, CIRCULANT_BOOL);
    BITS(bool, CIRCULANT_BOOL);
    refused(CIRCULANT_BOOL, SUM);

    PAIRS(float, int32_t, CIRCULANT_FLOAT_INT32);
    PAIRS(float, uint32_t, CIRCULANT_FLOAT_UINT32);
    PAIRS(double, int64_t, CIRCULANT_DOUBLE_INT64);
    PAIRS(double, uint64_t, CIRCULANT_DOUBLE_UINT64);
    PAIRS(int32_t, int32_t, CIRCULANT_INT32_INT32);
    PAIRS(int64_t, int64_t, CIRCULANT_INT64_INT64);
    PAIRS(uint32_t, uint32_t, CIRCULANT_UINT32_UINT32);
    PAIRS(uint64_t, uint64_t, CIRCULANT_UINT64_UINT64);

    for (int op = 0; op < OPERATORS; op++)
        refused(CIRCULANT_STRUCT(24), op);
    OK(circulant_finalize(&world));
    return 0;
}
