// The header in C++11: containers, functions without a name, and an error as an exception.
#include <circulant.h>

#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <vector>

static void ok(int code)
{
    if (code != CIRCULANT_OK)
        throw std::runtime_error(circulant_error_message());
}

// A world as long as its scope.
class World {
public:
    World() { ok(circulant_init(&comm)); }
    ~World() { circulant_finalize(&comm); }
    World(const World &) = delete;
    World &operator=(const World &) = delete;
    circulant_comm comm = nullptr;
};

static void sums(circulant_comm comm, int rank, int size)
{
    std::vector<double> data(5000);
    std::iota(data.begin(), data.end(), rank);
    ok(circulant_allreduce(CIRCULANT_IN_PLACE, data.data(), data.size(), CIRCULANT_DOUBLE, CIRCULANT_SUM, comm));
    for (std::size_t i = 0; i < data.size(); i++)
        if (data[i] != size * (size - 1) / 2 + static_cast<double>(size) * static_cast<double>(i))
            throw std::logic_error("a sum is wrong");
}

struct Interval {
    double low, high;
};

static void unions(circulant_comm comm, int rank, int size)
{
    circulant_op hull = nullptr;
    ok(circulant_op_create(
        [](const void *left, const void *right, void *result, std::size_t count, circulant_type, void *) {
            auto a = static_cast<const Interval *>(left), b = static_cast<const Interval *>(right);
            for (std::size_t i = 0; i < count; i++) {
                Interval both = {a[i].low < b[i].low ? a[i].low : b[i].low, a[i].high > b[i].high ? a[i].high : b[i].high};
                static_cast<Interval *>(result)[i] = both;
            }
            return 0;
        },
        1, nullptr, &hull));
    Interval mine = {-1.0 * rank, 2.0 * rank}, all;
    circulant_request request = nullptr;
    ok(circulant_allreduce_start(&mine, &all, 1, CIRCULANT_STRUCT(sizeof mine), hull, comm, &request));
    ok(circulant_wait(&request));
    ok(circulant_op_free(&hull));
    if (all.low != -1.0 * (size - 1) || all.high != 2.0 * (size - 1))
        throw std::logic_error("a hull is wrong");
}

int main()
{
    try {
        World world;
        int rank = 0, size = 0;
        ok(circulant_comm_rank(world.comm, &rank));
        ok(circulant_comm_size(world.comm, &size));
        sums(world.comm, rank, size);
        unions(world.comm, rank, size);
        if (circulant_barrier(nullptr) != CIRCULANT_ERR_NULL)
            throw std::logic_error("null is no communicator");
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
