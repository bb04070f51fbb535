"""The largest eigenvalue of a symmetric matrix whose rows are spread over the ranks, by power iteration.

An ordinary mpi4py program: it knows nothing of circulant, which takes its collectives over when it is preloaded.

    mpiexec -n 4 python examples/power.py
    LD_PRELOAD=~/opt/circulant/lib/libcirculant_mpi.so CIRCULANT_MPI=report mpiexec -n 4 python examples/power.py --verify

An iteration is an allgatherv, of parts whose sizes differ by one where rows do not divide evenly, and an allreduce of
one number.
"""

import argparse
import sys

import numpy as np
from mpi4py import MPI


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500, help="rows and columns of the matrix (default: 500)")
    parser.add_argument("--tolerance", type=float, default=1e-10, help="relative change at which it ends (default: 1e-10)")
    parser.add_argument("--verify", action="store_true", help="compare with numpy's eigenvalues, on rank 0")
    return parser.parse_args()


def matrix(rows, own):
    """Rows `own` of a matrix of positive numbers, the same whoever makes them, so that one eigenvalue is largest."""
    i, j = np.arange(own.start, own.stop)[:, None], np.arange(rows)[None, :]
    return 1.0 / (1.0 + np.abs(i - j)) + (i == j) * np.cos(i) ** 2


def power_iteration(comm, part, counts, tolerance):
    """The eigenvalue and the number of iterations."""
    x = np.ones(counts.sum())
    x /= np.linalg.norm(x)
    value, steps = 0.0, 0
    while True:
        y = part @ x
        # x has norm 1, so this is Rayleigh's quotient.
        begin = counts[: comm.rank].sum()
        sums = np.array([x[begin : begin + len(y)] @ y, y @ y])
        comm.Allreduce(MPI.IN_PLACE, sums, MPI.SUM)
        comm.Allgatherv(y / np.sqrt(sums[1]), [x, counts])
        steps += 1
        if abs(sums[0] - value) <= tolerance * abs(sums[0]):
            return sums[0], steps
        value = sums[0]


def main():
    options, comm = arguments(), MPI.COMM_WORLD
    counts = np.array([options.rows // comm.size + (rank < options.rows % comm.size) for rank in range(comm.size)])
    begin = counts[: comm.rank].sum()
    part = matrix(options.rows, range(begin, begin + counts[comm.rank]))
    value, steps = power_iteration(comm, part, counts, options.tolerance)
    if comm.rank > 0:
        return 0
    print(f"largest eigenvalue {value:.9f} after {steps} iterations on {comm.size} ranks")
    if options.verify:
        wanted = np.linalg.eigvalsh(matrix(options.rows, range(options.rows)))[-1]
        if abs(value - wanted) > 1e-6 * wanted:
            print(f"wrong: it is {wanted:.9f}", file=sys.stderr)
            return 1
    return 0


sys.exit(main())
