! The same from the module mpi_f08, whose functions have names of their own, and the last argument left out.
program verify08
    use mpi_f08
    implicit none
    integer :: me, p, wrong, n
    double precision :: x(1000), y(1000)
    type(MPI_Request) :: request
    integer :: way

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, me)
    call MPI_Comm_size(MPI_COMM_WORLD, p)
    n = p*(p + 1)/2
    wrong = 0
    if (me == 0) call MPI_Type_set_name(MPI_DOUBLE_PRECISION, 'mine')
    x = me + 1
    call MPI_Allreduce(x, y, 1000, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
    if (any(y /= n)) wrong = wrong + 1
    call MPI_Allreduce(MPI_IN_PLACE, x, 1000, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
    if (any(x /= n)) wrong = wrong + 1
    x = me
    call MPI_Bcast(x, 1000, MPI_DOUBLE_PRECISION, 1, MPI_COMM_WORLD)
    if (any(x /= 1)) wrong = wrong + 1
    x = me
    call MPI_Ibcast(x, 1000, MPI_DOUBLE_PRECISION, p - 1, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (any(x /= p - 1)) wrong = wrong + 1
    do way = 1, 4
        call mixed(way)
    end do
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (me == 0) print '(a,i0,a,i0,a)', 'verify08.f90: ', p, ' ranks: ', wrong, ' wrong'
    call MPI_Finalize()
    if (wrong /= 0) stop 1
contains
    ! A collective and messages round the ring, in one array of requests.
    subroutine mixed(way)
        integer, intent(in) :: way
        type(MPI_Request) :: requests(4)
        integer :: sum, mine, left, there, index, indices(4), done, i
        logical :: all
        mine = me + way
        sum = -1
        left = -1
        call MPI_Irecv(left, 1, MPI_INTEGER, mod(me + p - 1, p), way, MPI_COMM_WORLD, requests(1))
        call MPI_Iallreduce(mine, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(2))
        requests(3) = MPI_REQUEST_NULL
        there = me
        call MPI_Isend(there, 1, MPI_INTEGER, mod(me + 1, p), way, MPI_COMM_WORLD, requests(4))
        select case (way)
        case (1)
            call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE)
        case (2)
            do i = 1, 3
                call MPI_Waitany(4, requests, index, MPI_STATUS_IGNORE)
            end do
        case (3)
            i = 0
            do while (i < 3)
                call MPI_Testsome(4, requests, done, indices, MPI_STATUSES_IGNORE)
                i = i + done
            end do
        case (4)
            all = .false.
            do while (.not. all)
                call MPI_Testall(4, requests, all, MPI_STATUSES_IGNORE)
            end do
        end select
        do i = 1, 4
            if (requests(i) /= MPI_REQUEST_NULL) wrong = wrong + 1
        end do
        if (sum /= p*(p - 1)/2 + way*p .or. left /= mod(me + p - 1, p)) wrong = wrong + 1
    end subroutine
end program
