"""Collectives called from mpi4py, taken over, verified by what they must give."""
from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
me, p = world.Get_rank(), world.Get_size()
wrong = 0


def expect(what, got, wanted):
    global wrong
    if list(got) != list(wanted):
        wrong += 1
        print(f"verify.py: rank {me}: {what}: {list(got)[:5]} instead of {list(wanted)[:5]}")


def zeros(n):
    return array("d", [0.0] * n)


for comm in (world, world.Split(me % 2, me), world.Dup()):
    rank, size = comm.Get_rank(), comm.Get_size()
    total = size * (size + 1) / 2
    for n in (1, 1000, 100000):
        x, y = array("d", [rank + 1.0] * n), zeros(n)
        comm.Allreduce(x, y)
        expect("Allreduce", y, [total] * n)
        comm.Allreduce(MPI.IN_PLACE, x, MPI.MAX)
        expect("Allreduce in place", x, [size] * n)
        x = array("d", [rank] * n)
        comm.Bcast(x, root=size - 1)
        expect("Bcast", x, [size - 1] * n)
        x, y = array("d", [rank] * n), zeros(n * size)
        comm.Allgather(x, y)
        expect("Allgather", y, [r for r in range(size) for _ in range(n)])
        request = comm.Iallreduce(array("d", [1.0] * n), z := zeros(n))
        request.Wait()
        expect("Iallreduce", z, [size] * n)
    counts = [r + 1 for r in range(size)]
    y = zeros(sum(counts))
    comm.Allgatherv(array("d", [rank] * counts[rank]), [y, counts])
    expect("Allgatherv", y, [r for r in range(size) for _ in range(counts[r])])
    requests = [comm.Iallgatherv(array("d", [rank] * counts[rank]), [z := zeros(sum(counts)), counts])]
    MPI.Request.Waitall(requests)
    expect("Iallgatherv", z, y)
    # Objects travel by gatherv and broadcasts of bytes of any length.
    expect("allgather of objects", comm.allgather("x" * rank), ["x" * r for r in range(size)])
    expect("bcast of an object", comm.bcast({"of": rank}, root=0).values(), [0])
    expect("alltoall of objects", comm.alltoall([(rank, r) for r in range(size)]), [(r, rank) for r in range(size)])
    comm.Barrier()

# Between two groups nothing is taken over; counts are of the ranks of the other one.
half = world.Split(min(me, 1), me)
between = half.Create_intercomm(0, world, 1 if me == 0 else 0)
others = range(1, p) if me == 0 else [0]
y = zeros(2 * len(others))
between.Allgatherv(array("d", [me] * 2), [y, [2] * len(others)])
expect("Allgatherv between groups", y, [r for r in others for _ in range(2)])
y = zeros(p - 1 if me == 0 else 1)
between.Reduce_scatter(array("d", [1.0] * (p - 1)), y, [p - 1] if me == 0 else [1] * (p - 1))
expect("Reduce_scatter between groups", y, [p - 1] * (p - 1) if me == 0 else [1])

wrong = world.allreduce(wrong)
if me == 0:
    print(f"verify.py: {p} ranks: {wrong} wrong")
MPI.Finalize()
raise SystemExit(wrong != 0)
