!> What all tests share: one that fails tells what is not so, and ends the program.
module check
    use, intrinsic :: iso_c_binding, only: c_bool
    use circulant
    implicit none
    private
    public :: expect, fails, begin

    type(circulant_comm), public :: world
    !> This rank, and how many there are.
    integer, public :: r, p

    interface expect
        module procedure expect_logical, expect_c_bool
    end interface

contains

    subroutine begin()
        call circulant_init(world)
        r = world%rank()
        p = world%size()
    end subroutine

    subroutine expect_logical(is_so, what)
        logical, intent(in) :: is_so
        character(*), intent(in) :: what

        if (is_so) return
        print '(a, i0, a, i0, 2a)', 'rank ', r, ' of ', p, ': not so: ', what
        error stop 1
    end subroutine

    subroutine expect_c_bool(is_so, what)
        logical(c_bool), intent(in) :: is_so
        character(*), intent(in) :: what

        call expect(logical(is_so), what)
    end subroutine

    !> A call gave this code, and a sentence with these words.
    subroutine fails(code, words, stat, errmsg)
        integer, intent(in) :: code, stat
        character(*), intent(in) :: words, errmsg

        if (stat == code .and. index(errmsg, words) > 0) return
        print '(a, i0, 5a, i0)', 'code ', stat, ' "', trim(errmsg), '", not "', words, '" and ', code
        error stop 1
    end subroutine
end module check
