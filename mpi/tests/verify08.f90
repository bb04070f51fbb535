! The same from the module mpi_f08, whose functions have names of their own, and the last argument left out.
program verify08
    use mpi_f08
    implicit none
    integer :: me, p, wrong, n
    double precision :: x(1000), y(1000)
    type(MPI_Request) :: request

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
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (me == 0) print '(a,i0,a,i0,a)', 'verify08.f90: ', p, ' ranks: ', wrong, ' wrong'
    call MPI_Finalize()
    if (wrong /= 0) stop 1
end program
