/* Communicators out of communicators, what they tell of themselves, windows, and algorithms by name. */
#include "check.h"

static circulant_comm world;
static int rank, size;

static int sum_over(circulant_comm comm)
{
    int sum = 0;
    OK(circulant_allreduce(&rank, &sum, 1, CIRCULANT_INT, CIRCULANT_SUM, comm));
    return sum;
}

static void split(void)
{
    circulant_comm parity, reversed, none, twice;
    int new_rank, new_size, expected = 0;
    OK(circulant_comm_split(world, rank % 2, 0, &parity));
    OK(circulant_comm_rank(parity, &new_rank));
    OK(circulant_comm_size(parity, &new_size));
    CHECK(new_rank == rank / 2 && new_size == (size + 1 - rank % 2) / 2);
    for (int r = rank % 2; r < size; r += 2)
        expected += r;
    CHECK(sum_over(parity) == expected);

    OK(circulant_comm_split(world, 0, -rank, &reversed));
    OK(circulant_comm_rank(reversed, &new_rank));
    CHECK(new_rank == size - 1 - rank);

    OK(circulant_comm_split(world, rank == 0 ? 5 : CIRCULANT_NO_COLOUR, 0, &none));
    CHECK(!none == (rank != 0));
    if (none)
        OK(circulant_comm_free(&none));

    OK(circulant_comm_duplicate(parity, &twice));
    CHECK(sum_over(twice) == expected);
    OK(circulant_comm_free(&parity));
    CHECK(!parity);
    CHECK(sum_over(twice) == expected);
    OK(circulant_comm_free(&twice));
    /* What is left is given up with the world: `reversed`. */
}

static void tells(void)
{
    char text[200], tight[5];
    int nodes, node, expected = 0;
    OK(circulant_comm_transport(world, text, sizeof text));
    CHECK(strlen(text) > 0);
    OK(circulant_comm_transport(world, tight, sizeof tight));
    CHECK(strlen(tight) <= 4 && strncmp(tight, text, strlen(tight)) == 0);
    OK(circulant_comm_boot(world, text, sizeof text));
    CHECK(strlen(text) > 0);
    OK(circulant_comm_nodes(world, &nodes));
    OK(circulant_comm_node(world, rank, &node));
    CHECK(nodes == 1 && node == expected);
    CHECK(strchr(circulant_version(), '.'));
}

static void windows(void)
{
    enum { COUNT = 100000 };
    circulant_window one, none;
    void *address, *same;
    size_t bytes;
    double *data;
    OK(circulant_window_alloc(world, COUNT * sizeof *data, &address, &one));
    OK(circulant_window_address(one, &same, &bytes));
    CHECK(same == address && bytes == COUNT * sizeof *data);
    OK(circulant_window_address(one, NULL, NULL));
    data = (double *)address;
    for (int i = 0; i < COUNT; i++) {
        CHECK(data[i] == 0);
        data[i] = rank == 0 ? i : 0;
    }
    OK(circulant_broadcast(data, COUNT, CIRCULANT_DOUBLE, 0, world));
    for (int i = 0; i < COUNT; i++)
        CHECK(data[i] == i);
    OK(circulant_window_free(&one));
    CHECK(!one);
    OK(circulant_window_alloc(world, 0, &address, &none));
    OK(circulant_window_free(&none));
}

static void by_name(void)
{
    static const char *const names[] = {"ring", "circulant", NULL};
    circulant_comm other;
    OK(circulant_comm_duplicate(world, &other));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        OK(circulant_comm_set_algorithm(other, CIRCULANT_ALLREDUCE, names[i], 0));
        CHECK(sum_over(other) == size * (size - 1) / 2);
    }
    OK(circulant_comm_set_algorithm(other, CIRCULANT_BROADCAST, "circulant", 3));
    OK(circulant_broadcast(&size, 1, CIRCULANT_INT, 0, other));
    FAILS(CIRCULANT_ERR_ARGUMENT, "take one of: ", circulant_comm_set_algorithm(other, CIRCULANT_REDUCE, "best", 0));
    FAILS(CIRCULANT_ERR_ARGUMENT, "-1 blocks", circulant_comm_set_algorithm(other, CIRCULANT_REDUCE, NULL, -1));
    FAILS(CIRCULANT_ERR_ARGUMENT, "3 is no collective", circulant_comm_set_algorithm(other, 3, "ring", 0));
    OK(circulant_comm_free(&other));
}

int main(void)
{
    OK(circulant_init(&world));
    OK(circulant_comm_rank(world, &rank));
    OK(circulant_comm_size(world, &size));
    split();
    tells();
    windows();
    by_name();
    OK(circulant_finalize(&world));
    return 0;
}
