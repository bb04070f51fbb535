!> Collectives by one-sided puts, from Fortran.
!>
!>     program hello
!>         use circulant
!>         type(circulant_comm) :: world
!>         real :: mine, total
!>         call circulant_init(world)
!>         mine = world%rank()
!>         call circulant_allreduce(mine, total, circulant_sum, world)
!>         if (world%rank() == 0) print *, total
!>         call circulant_finalize(world)
!>     end program
!>
!> Errors. Each call has the optional arguments `stat` and `errmsg`, as `allocate` does: `stat` is circulant_ok or another
!> code of circulant.h, and `errmsg` then a sentence (what, who, cure). Without `stat` an error stops the program with it.
!> circulant_error_name(stat) is a code's name, and circulant_version() the library's version.
!>
!> Arrays are integer(int8 to int64), real(real32, real64), complex of these kinds, logical and logical(c_bool), of any
!> rank, scalars too; input and output are of one type, and of ranks that you like. Their sizes say how many elements a
!> call is about, and each call tells where they do not fit. In a call at once they may be sections: the compiler copies
!> those that are not contiguous. In one that is started or prepared they must be contiguous, should be `asynchronous`,
!> and are in use until circulant_wait or circulant_request_free; expressions, a(indices), and components of arrays, such
!> as points%x, are copied all the same, which nobody sees: do not give them.
!>
!> Ranks and roots count from 0 on, in default integers. `counts`, `places` and `shape` are arrays of integer(int32) or of
!> integer(int64), all of a call of one kind; places are in elements, from 0 on. circulant_in_place as input (or as output,
!> for scatters) is as in circulant.h.
!> What is only looked at on the root is optional: other ranks may leave it out, or give what is not allocated.
!>
!>     circulant_broadcast(buffer, root, comm)
!>     circulant_reduce(input, output, op, root, comm)
!>     circulant_allreduce(input, output, op, comm)
!>     circulant_reduce_scatter_block(input, output, op, comm)
!>     circulant_reduce_scatter(input, output, counts, op, comm)
!>     circulant_allgather(input, output, comm)
!>     circulant_allgatherv(input, output, counts, comm, places)
!>     circulant_gather(input, output, root, comm)
!>     circulant_gatherv(input, output, counts, root, comm, places)
!>     circulant_scatter(input, output, root, comm)
!>     circulant_scatterv(input, counts, output, root, comm, places)
!>     circulant_alltoall(input, output, comm)
!>     circulant_alltoallv(input, sent, output, received, comm, sent_places, received_places)
!>     circulant_alltoallv(circulant_in_place, output, received, comm, received_places)
!>     circulant_barrier(comm)
!>
!> Each of them is there with _start and with _prepare at its name's end too, and with an argument `request` after `comm`.
!>
!>     circulant_start(request)
!>     circulant_test(request, done)
!>     circulant_wait(request), circulant_wait_all(requests), circulant_request_free(request)
!>
!>     circulant_init(world), circulant_init(world, rank, size, id), circulant_init(world, rank, size, allgather, context)
!>     circulant_comm_split(comm, colour, new_comm, key), circulant_comm_duplicate(comm, new_comm)
!>     circulant_comm_free(comm), circulant_finalize(world)
!>
!>     circulant_window_alloc(comm, window, array, shape)     a pointer of any rank
!>     circulant_window_free(window)
!>
!>     circulant_op_create_real64(op, combine, commutes)      and so for each type: int8, complex_real32, logical_c_bool
!>     circulant_op_create(op, function, commutes, context), circulant_op_free(op)
!>
!> Threads are as circulant.h has it: any call on any thread, and on one communicator one order of calls.
module circulant
    use circulant_handles
    use circulant_outcome, only: circulant_error_name, circulant_version
    use circulant_communicators
    use circulant_operators
    use circulant_requests
    use circulant_windows, only: circulant_window_free
    use circulant_calls
    implicit none
    public
end module circulant
