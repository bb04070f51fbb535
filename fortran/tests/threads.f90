!> Threads that hear of errors at the same time: each hears of its own.
program threads
    use circulant
    use check
    implicit none

    integer, parameter :: rounds = 20000
    integer :: i

    call begin()
    !$omp parallel do schedule(dynamic)
    do i = 1, rounds
        call hears_of(i)
    end do
    call circulant_finalize(world)

contains

    subroutine hears_of(i)
        integer, intent(in) :: i
        integer :: one(1), many(1000), stat
        character(200) :: errmsg

        one = i
        many = i
        select case (mod(i, 3))
        case (0)
            call circulant_allreduce(one, many, circulant_sum, world, stat, errmsg)
            call fails(circulant_err_argument, '`output` has 1000 elements where 1 belong;', stat, errmsg)
        case (1)
            call circulant_allreduce(many, one, circulant_sum, world, stat, errmsg)
            call fails(circulant_err_argument, '`output` has 1 elements where 1000 belong;', stat, errmsg)
        case default
            call circulant_broadcast(many, 100000 + i, world, stat, errmsg)
            call fails(circulant_err_argument, 'root', stat, errmsg)
        end select
        call expect(circulant_error_name(stat) == 'CIRCULANT_ERR_ARGUMENT', 'the name of its code')
    end subroutine
end program threads
