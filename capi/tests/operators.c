/* Operators of the caller's: with a context, that commute and that do not, on types and structs of any size. */
#include "check.h"

static circulant_comm world;
static int rank, size;

enum { MODULUS = 10007, COUNT = 5000 };

/* Products of 2 x 2 matrices do not commute. */
typedef struct {
    int64_t m[4];
} matrix;

typedef struct {
    int64_t modulus;
    int calls;
} context;

static void multiply_one(const matrix *a, const matrix *b, matrix *c, int64_t modulus)
{
    matrix product;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            product.m[2 * i + j] = (a->m[2 * i] * b->m[j] + a->m[2 * i + 1] * b->m[2 + j]) % modulus;
    *c = product;
}

static int multiply(const void *left, const void *right, void *result, size_t count, circulant_type type, void *ctx)
{
    context *mine = (context *)ctx;
    mine->calls++;
    if (type != CIRCULANT_STRUCT(sizeof(matrix)))
        return 1;
    for (size_t i = 0; i < count; i++)
        multiply_one((const matrix *)left + i, (const matrix *)right + i, (matrix *)result + i, mine->modulus);
    return 0;
}

static matrix of(int from, int i)
{
    matrix m = {{from + 2, i % 13 + 1, i % 7 + 3, from + i % 5}};
    return m;
}

static void check_product(const matrix *found, int i)
{
    matrix expected = of(0, i);
    for (int r = 1; r < size; r++) {
        matrix next = of(r, i);
        multiply_one(&expected, &next, &expected, MODULUS);
    }
    CHECK(memcmp(found, &expected, sizeof expected) == 0);
}

static void matrices(void)
{
    context ctx = {MODULUS, 0};
    circulant_op product;
    circulant_request request;
    circulant_type type = CIRCULANT_STRUCT(sizeof(matrix));
    matrix *in = memory(COUNT * sizeof *in), *out = memory(COUNT * sizeof *out);
    OK(circulant_op_create(multiply, 0, &ctx, &product));
    for (int i = 0; i < COUNT; i++)
        in[i] = of(rank, i);
    OK(circulant_allreduce(in, out, COUNT, type, product, world));
    for (int i = 0; i < COUNT; i++)
        check_product(&out[i], i);
    memset(out, 0, COUNT * sizeof *out);
    OK(circulant_reduce(in, out, 3, type, product, size - 1, world));
    for (int i = 0; i < 3 && rank == size - 1; i++)
        check_product(&out[i], i);

    /* Prepared, a call keeps the operator. */
    OK(circulant_allreduce_prepare(in, out, COUNT, type, product, world, &request));
    OK(circulant_op_free(&product));
    CHECK(!product);
    OK(circulant_start(request));
    OK(circulant_wait(&request));
    OK(circulant_request_free(&request));
    for (int i = 0; i < COUNT; i++)
        check_product(&out[i], i);
    OK(circulant_allreduce(CIRCULANT_IN_PLACE, &ctx.calls, 1, CIRCULANT_INT, CIRCULANT_SUM, world));
    CHECK(size == 1 || ctx.calls > 0);
    free(in);
    free(out);
}

/* Three bytes, which nothing is aligned to. */
typedef struct {
    unsigned char rgb[3];
} colour;

static int brightest(const void *left, const void *right, void *result, size_t count, circulant_type type, void *ctx)
{
    const colour *a = (const colour *)left, *b = (const colour *)right;
    colour *c = (colour *)result;
    (void)ctx;
    if (type != CIRCULANT_STRUCT(3))
        return 1;
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < 3; k++)
            c[i].rgb[k] = a[i].rgb[k] > b[i].rgb[k] ? a[i].rgb[k] : b[i].rgb[k];
    return 0;
}

static void colours(void)
{
    circulant_op op;
    colour in[100], out[100];
    OK(circulant_op_create(brightest, 1, NULL, &op));
    for (int i = 0; i < 100; i++)
        for (int k = 0; k < 3; k++)
            in[i].rgb[k] = (unsigned char)(i + k * rank);
    OK(circulant_allreduce(in, out, 100, CIRCULANT_STRUCT(3), op, world));
    for (int i = 0; i < 100; i++)
        for (int k = 0; k < 3; k++)
            CHECK(out[i].rgb[k] == (unsigned char)(i + k * (size - 1)));
    OK(circulant_op_free(&op));
}

static int alternate(const void *left, const void *right, void *result, size_t count, circulant_type type, void *ctx)
{
    const double *a = (const double *)left, *b = (const double *)right;
    (void)ctx;
    CHECK((uintptr_t)left % sizeof(double) == 0 && (uintptr_t)right % sizeof(double) == 0);
    FAILS(CIRCULANT_ERR_ARGUMENT, "from within an operator", circulant_barrier(world));
    for (size_t i = 0; i < count; i++)
        ((double *)result)[i] = a[i] * 2 + b[i] * 2 - a[i] - b[i];
    return type != CIRCULANT_DOUBLE;
}

/* The library's types too; memory that is not aligned comes aligned. */
static void doubles(void)
{
    enum { MANY = 9000 };
    circulant_op op;
    size_t counts[64];
    char *memory_of_all = memory(MANY * sizeof(double) + 1), *unaligned = memory_of_all + 1;
    double own[MANY];
    OK(circulant_op_create(alternate, 1, NULL, &op));
    for (int i = 0; i < MANY; i++) {
        double one = rank + i;
        memcpy(unaligned + (size_t)i * sizeof one, &one, sizeof one);
    }
    for (int r = 0; r < size; r++)
        counts[r] = (size_t)(MANY / size);
    OK(circulant_reduce_scatter(unaligned, own, counts, CIRCULANT_DOUBLE, op, world));
    for (int i = 0; i < MANY / size; i++)
        CHECK(own[i] == size * (size - 1) / 2 + (double)size * (rank * (MANY / size) + i));
    OK(circulant_allreduce(CIRCULANT_IN_PLACE, unaligned, MANY, CIRCULANT_DOUBLE, op, world));
    for (int i = 0; i < MANY; i++) {
        double one;
        memcpy(&one, unaligned + (size_t)i * sizeof one, sizeof one);
        CHECK(one == size * (size - 1) / 2 + (double)size * i);
    }
    OK(circulant_op_free(&op));
    free(memory_of_all);
}

int main(void)
{
    OK(circulant_init(&world));
    OK(circulant_comm_rank(world, &rank));
    OK(circulant_comm_size(world, &size));
    matrices();
    colours();
    doubles();
    OK(circulant_finalize(&world));
    return 0;
}
