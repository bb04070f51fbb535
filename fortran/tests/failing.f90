!> An operator that fails is an error of the call on all ranks, and of each later call.
module for_integers
    implicit none

contains

    function least(left, right) result(both)
        integer, intent(in) :: left, right
        integer :: both

        both = min(left, right)
    end function
end module for_integers

program failing
    use circulant
    use check
    use for_integers
    implicit none

    type(circulant_op) :: op
    real :: total
    integer :: stat
    character(300) :: errmsg

    call begin()
    ! Nobody fails while another still begins; who is slow hears of it here.
    call circulant_barrier(world, stat, errmsg)
    if (stat /= circulant_ok) call failed()
    call circulant_op_create_int32(op, least)
    ! Not made for reals, which its handle does not tell.
    call circulant_allreduce(real(r), total, circulant_op(op%handle), world, stat, errmsg)
    if (p == 1) then
        call expect(stat == circulant_ok, 'alone there is nothing to combine')
    else
        call failed()
        call circulant_barrier(world, stat, errmsg)
        call failed()
    end if
    call circulant_finalize(world, stat)
    call expect(world%is_null(), 'the world is given up all the same')

contains

    !> Those that it did not fail on hear of it from others.
    subroutine failed()
        call expect(any(stat == [circulant_err_operator, circulant_err_aborted]), 'its code')
        call fails(stat, 'the operator failed', stat, errmsg)
    end subroutine
end program failing
