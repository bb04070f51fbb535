! Collectives called from Fortran (use mpi), taken over, verified by what they must give; with requests, in place, and
! a communicator of half the ranks.
program verify
    use mpi
    implicit none
    integer :: error, me, p, half, r, wrong, request, requests(2), n, i, idx
    integer :: status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2)
    logical :: done, truth, all_true
    double precision :: x(1000), y(1000), pair(2), best(2)
    integer, allocatable :: own(:), every(:), counts(:), places(:)

    call MPI_INIT(error)
    call MPI_COMM_RANK(MPI_COMM_WORLD, me, error)
    call MPI_COMM_SIZE(MPI_COMM_WORLD, p, error)
    wrong = 0
    n = p*(p + 1)/2
    allocate (own(p), every(p*p), counts(p), places(p))

    ! A name is a rank's own affair; before a type's first use it has been another.
    if (me == 0) call MPI_TYPE_SET_NAME(MPI_DOUBLE_PRECISION, 'mine', error)

    x = 0
    if (me == 0) x = 7.5d0
    call MPI_BCAST(x, 1000, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, error)
    if (any(x /= 7.5d0)) wrong = wrong + 1

    x = me + 1
    call MPI_ALLREDUCE(x, y, 1000, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
    if (any(y /= n)) wrong = wrong + 1
    call MPI_ALLREDUCE(MPI_IN_PLACE, x, 1000, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, error)
    if (any(x /= p)) wrong = wrong + 1

    x = me + 1
    if (me == 1) then
        call MPI_REDUCE(MPI_IN_PLACE, x, 10, MPI_DOUBLE_PRECISION, MPI_SUM, 1, MPI_COMM_WORLD, error)
        if (any(x(1:10) /= n)) wrong = wrong + 1
    else
        call MPI_REDUCE(x, y, 10, MPI_DOUBLE_PRECISION, MPI_SUM, 1, MPI_COMM_WORLD, error)
    end if

    pair = [dble(mod(me*7, p)), dble(me)]
    call MPI_ALLREDUCE(pair, best, 1, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, MPI_COMM_WORLD, error)
    do r = 0, p - 1
        if (mod(r*7, p) > best(1)) wrong = wrong + 1
    end do
    truth = me /= 1
    call MPI_ALLREDUCE(truth, all_true, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, error)
    if (all_true) wrong = wrong + 1

    own = [(me*p + r, r=0, p - 1)]
    call MPI_ALLGATHER(own, p, MPI_INTEGER, every, p, MPI_INTEGER, MPI_COMM_WORLD, error)
    if (any(every /= [(r, r=0, p*p - 1)])) wrong = wrong + 1
    every = -1
    every(me*p + 1:me*p + p) = own
    call MPI_ALLGATHER(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, every, p, MPI_INTEGER, MPI_COMM_WORLD, error)
    if (any(every /= [(r, r=0, p*p - 1)])) wrong = wrong + 1
    call MPI_ALLTOALL(own, 1, MPI_INTEGER, every, 1, MPI_INTEGER, MPI_COMM_WORLD, error)
    if (any(every(1:p) /= [(r*p + me, r=0, p - 1)])) wrong = wrong + 1
    counts = [(r, r=1, p)]
    places = [(r*(r - 1)/2, r=1, p)]
    every = -1
    call MPI_GATHERV(own, me + 1, MPI_INTEGER, every, counts, places, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
    if (me == 0) then
        do r = 0, p - 1
            if (any(every(places(r + 1) + 1:places(r + 1) + r + 1) /= [(r*p + i, i=0, r)])) wrong = wrong + 1
        end do
    end if

    ! Requests: one of a collective, one of a message to oneself; then a collective alone.
    x = me + 1
    call MPI_IALLREDUCE(x, y, 1000, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, requests(1), error)
    call MPI_IRECV(r, 1, MPI_INTEGER, me, 5, MPI_COMM_WORLD, requests(2), error)
    call MPI_SEND(me, 1, MPI_INTEGER, me, 5, MPI_COMM_WORLD, error)
    call MPI_WAITALL(2, requests, statuses, error)
    if (any(y /= n) .or. r /= me) wrong = wrong + 1
    if (statuses(MPI_SOURCE, 2) /= me .or. any(requests /= MPI_REQUEST_NULL)) wrong = wrong + 1
    call MPI_IBCAST(x, 1000, MPI_DOUBLE_PRECISION, p - 1, MPI_COMM_WORLD, request, error)
    done = .false.
    do while (.not. done)
        call MPI_TEST(request, done, status, error)
    end do
    if (any(x /= p) .or. request /= MPI_REQUEST_NULL) wrong = wrong + 1
    call MPI_IBARRIER(MPI_COMM_WORLD, requests(1), error)
    requests(2) = MPI_REQUEST_NULL
    call MPI_WAITANY(2, requests, idx, MPI_STATUS_IGNORE, error)
    if (idx /= 1) wrong = wrong + 1

    call MPI_COMM_SPLIT(MPI_COMM_WORLD, mod(me, 2), me, half, error)
    call MPI_ALLREDUCE(me, r, 1, MPI_INTEGER, MPI_SUM, half, error)
    do i = mod(me, 2), p - 1, 2
        r = r - i
    end do
    if (r /= 0) wrong = wrong + 1
    call MPI_COMM_FREE(half, error)

    call MPI_ALLREDUCE(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    call MPI_BARRIER(MPI_COMM_WORLD, error)
    if (me == 0) print '(a,i0,a,i0,a)', 'verify.f90: ', p, ' ranks: ', wrong, ' wrong'
    call MPI_FINALIZE(error)
    if (wrong /= 0) stop 1
end program
