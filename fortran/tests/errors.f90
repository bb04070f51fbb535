!> What is wrong with a call is told by `stat` and `errmsg`, and nothing is sent then: the communicator is as good as
!> before.
module for_one_type
    use, intrinsic :: iso_fortran_env, only: real64
    implicit none

contains

    function larger(left, right) result(both)
        real(real64), intent(in) :: left, right
        real(real64) :: both

        both = max(left, right)
    end function

    function least(left, right) result(both)
        integer, intent(in) :: left, right
        integer :: both

        both = min(left, right)
    end function

    function same(left, right) result(both)
        logical, intent(in) :: left, right
        logical :: both

        both = left .eqv. right
    end function
end module for_one_type

program errors
    use, intrinsic :: iso_c_binding, only: c_bool
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use circulant
    use for_one_type
    use check
    implicit none

    integer :: stat
    character(300) :: errmsg

    call begin()
    call sizes()
    call counts()
    call handles()
    call operators()
    call operators_of_types()
    call after()
    call circulant_finalize(world)

contains

    subroutine sizes()
        real :: one(2), other(3), wide(2*p + 1), turned(2*p + 1)

        one = 0
        call circulant_allreduce(one, other, circulant_sum, world, stat, errmsg)
        call fails(circulant_err_argument, &
            'circulant_allreduce: `output` has 3 elements where 2 belong; give an array, or a section, of that size', &
            stat, errmsg)
        call circulant_allgather(one, wide, world, stat, errmsg)
        call fails(circulant_err_argument, 'circulant_allgather: `output` has', stat, errmsg)
        call circulant_scatter(wide, one, r, world, stat, errmsg)
        call fails(circulant_err_argument, 'circulant_scatter: `input` has', stat, errmsg)
        call circulant_reduce_scatter_block(wide, one, circulant_sum, world, stat, errmsg)
        call fails(circulant_err_argument, 'circulant_reduce_scatter_block: `input` has', stat, errmsg)
        call circulant_gather(one, wide, r, world, stat, errmsg)
        call fails(circulant_err_argument, 'circulant_gather: `output` has', stat, errmsg)
        call circulant_gather(one, root=r, comm=world, stat=stat, errmsg=errmsg)
        call fails(circulant_err_null, '`output` is null', stat, errmsg)
        if (p > 1) then
            call circulant_alltoall(wide, turned, world, stat, errmsg)
            call fails(circulant_err_argument, 'give as many for each of them', stat, errmsg)
            call circulant_allgather(circulant_in_place, wide, world, stat, errmsg)
            call fails(circulant_err_argument, 'give as many for each of them', stat, errmsg)
        end if
        call circulant_broadcast(one, p, world, stat, errmsg)
        call fails(circulant_err_argument, 'root', stat, errmsg)
        call circulant_broadcast(one, -1, world, stat, errmsg)
        call fails(circulant_err_argument, 'root', stat, errmsg)
    end subroutine

    subroutine counts()
        integer :: own(2), all(2*p), none(0)

        own = r
        call circulant_allgatherv(own, all, none, world, stat=stat, errmsg=errmsg)
        call fails(circulant_err_argument, 'circulant_allgatherv: `counts` has 0 entries where', stat, errmsg)
        call circulant_allgatherv(own, all, spread(-2, 1, p), world, stat=stat, errmsg=errmsg)
        call fails(circulant_err_argument, '`counts` has a negative number', stat, errmsg)
        call circulant_allgatherv(own, all, spread(3, 1, p), world, stat=stat, errmsg=errmsg)
        call fails(circulant_err_argument, '`output` has', stat, errmsg)
        call circulant_allgatherv(own, all, spread(1, 1, p), world, stat=stat, errmsg=errmsg)
        call fails(circulant_err_argument, '`input` has 2 elements where 1 belong', stat, errmsg)
        call circulant_allgatherv(own, all, spread(2, 1, p), world, spread(2*p - 1, 1, p), stat, errmsg)
        call fails(circulant_err_argument, 'the part of rank 0 is 2 from', stat, errmsg)
        call circulant_allgatherv(own, all, spread(huge(1_int64), 1, p), world, spread(1_int64, 1, p), stat, errmsg)
        call fails(circulant_err_argument, '`output` has', stat, errmsg)
        call circulant_alltoallv(all, spread(2, 1, p), all(2:), spread(2, 1, p), world, stat=stat, errmsg=errmsg)
        call fails(circulant_err_argument, '`output` has', stat, errmsg)
        call circulant_reduce_scatter(all, own, spread(1, 1, p), circulant_sum, world, stat, errmsg)
        call fails(circulant_err_argument, '`input` has', stat, errmsg)
    end subroutine

    subroutine handles()
        type(circulant_comm) :: none, twin, copy
        type(circulant_request) :: request

        call circulant_barrier(none, stat, errmsg)
        call fails(circulant_err_null, 'circulant_barrier: null where a communicator belongs', stat, errmsg)
        call circulant_comm_duplicate(world, twin)
        copy = twin
        call circulant_comm_free(twin)
        call circulant_barrier(copy, stat, errmsg)
        call fails(circulant_err_handle, 'circulant_barrier: a communicator that was freed', stat, errmsg)
        call circulant_comm_free(world, stat, errmsg)
        call fails(circulant_err_argument, 'circulant_finalize', stat, errmsg)
        call circulant_comm_split(world, -5, twin, stat=stat, errmsg=errmsg)
        call fails(circulant_err_argument, 'colour', stat, errmsg)
        call circulant_wait(request, stat, errmsg)
        call fails(circulant_err_null, 'circulant_wait', stat, errmsg)
        request%handle = world%handle
        call circulant_wait(request, stat, errmsg)
        call fails(circulant_err_handle, 'a communicator where a request belongs', stat, errmsg)
    end subroutine

    subroutine operators()
        type(circulant_op), parameter :: on_numbers(*) = [circulant_sum, circulant_product, circulant_min, circulant_max, &
            circulant_bit_and, circulant_bit_or, circulant_bit_xor, circulant_min_place, circulant_max_place]
        logical :: yes
        logical(c_bool) :: of_c
        complex :: number
        integer :: i

        yes = .true.
        of_c = .true.
        do i = 1, size(on_numbers)
            call circulant_allreduce(circulant_in_place, yes, on_numbers(i), world, stat, errmsg)
            call fails(circulant_err_type, 'circulant_allreduce: an operator that does not fit logicals', stat, errmsg)
            call circulant_allreduce(circulant_in_place, of_c, on_numbers(i), world, stat, errmsg)
            call fails(circulant_err_type, 'an operator that does not fit logicals', stat, errmsg)
        end do
        call circulant_allreduce(circulant_in_place, yes, circulant_logical_and, world)
        number = 1
        call circulant_allreduce(circulant_in_place, number, circulant_max, world, stat, errmsg)
        call fails(circulant_err_type, 'circulant_allreduce: CIRCULANT_MAX does not fit CIRCULANT_COMPLEX_FLOAT', &
            stat, errmsg)
        call circulant_allreduce(circulant_in_place, number, circulant_op(), world, stat, errmsg)
        call fails(circulant_err_null, 'circulant_allreduce', stat, errmsg)
    end subroutine

    !> Of functions for one type, on others.
    subroutine operators_of_types()
        type(circulant_op) :: op
        type(circulant_request) :: request
        real :: narrow, total
        real(real64) :: wide
        logical, asynchronous :: yes
        integer :: number, shares(2*p), own(2)

        narrow = 1
        yes = .true.
        number = r
        shares = r
        call circulant_op_create_real64(op, larger)
        call circulant_allreduce(narrow, total, op, world, stat, errmsg)
        call fails(circulant_err_type, 'circulant_allreduce: an operator of circulant_op_create_real64 where elements '// &
            'are real32; give one of circulant_op_create_real32', stat, errmsg)
        call circulant_reduce_scatter(shares, own, spread(2, 1, p), op, world, stat, errmsg)
        call fails(circulant_err_type, 'where elements are int32', stat, errmsg)
        wide = r
        call circulant_allreduce(circulant_in_place, wide, op, world)
        call expect(nint(wide) == p - 1, 'its own type')
        call circulant_op_free(op)

        call circulant_op_create_int32(op, least)
        call circulant_allreduce_start(circulant_in_place, yes, op, world, request, stat, errmsg)
        call fails(circulant_err_type, 'circulant_op_create_int32 where elements are logical', stat, errmsg)
        call circulant_op_free(op)
        call circulant_op_create_logical(op, same)
        call circulant_reduce(circulant_in_place, number, op, r, world, stat, errmsg)
        call fails(circulant_err_type, 'circulant_op_create_logical where elements are int32', stat, errmsg)
        call circulant_op_free(op)
    end subroutine

    !> Nothing of all that was sent.
    subroutine after()
        integer :: total

        call expect(circulant_error_name(circulant_err_lost) == 'CIRCULANT_ERR_LOST', 'a code has a name')
        call expect(index(circulant_version(), '.') > 0, 'the library has a version')
        errmsg = 'untouched'
        call circulant_allreduce(1, total, circulant_sum, world, stat, errmsg)
        call expect(stat == circulant_ok .and. errmsg == 'untouched' .and. total == p, 'a call after errors')
    end subroutine
end program errors
