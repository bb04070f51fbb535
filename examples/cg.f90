!> Poisson's equation on the unit square by conjugate gradients, the columns of the grid divided among the ranks.
!>
!>     gfortran -O2 cg.f90 -o cg $(pkg-config --cflags --libs circulant-fortran)
!>     circulant run -n 4 -- ./cg [SIDE] [--verify]
!>
!> Each rank has a run of columns. A product with the matrix needs the neighbours' nearest columns: an alltoallv, prepared
!> once, in which nobody sends anything to others, brings them while the columns within are computed. The scalar
!> products are allreduces.
program cg
    use, intrinsic :: iso_fortran_env, only: real64
    use circulant
    implicit none

    integer, parameter :: wp = real64
    real(wp), parameter :: tolerance = 1e-10_wp
    type(circulant_comm) :: world
    type(circulant_window) :: memory, border_memory
    type(circulant_request) :: exchange
    !> The directions' columns, and those of the neighbours beside them: in windows, as they are sent and received.
    real(wp), pointer, contiguous, asynchronous :: p(:, :), border(:, :)
    real(wp), allocatable :: u(:, :), r(:, :), q(:, :)
    real(wp) :: h, squares, before, alpha
    integer :: side, first, columns, steps
    logical :: must_verify

    call circulant_init(world)
    call arguments(side, must_verify)
    h = 1/real(side + 1, wp)
    first = share(world%rank()) + 1
    columns = share(world%rank() + 1) - share(world%rank())
    call prepare()

    allocate (u(side, columns), q(side, columns))
    u = 0
    r = right_side()
    p = r
    squares = dot(r, r)
    steps = 0
    do while (sqrt(squares)*h > tolerance .and. steps < 10*side)
        call multiply()
        alpha = squares/dot(p, q)
        u = u + alpha*p
        r = r - alpha*q
        before = squares
        squares = dot(r, r)
        p = r + squares/before*p
        steps = steps + 1
    end do

    if (world%rank() == 0) print '(i0, a, i0, a, es8.1, a, i0, a)', side, ' x ', side, ' points, residual ', &
        sqrt(squares)*h, ' after ', steps, ' steps'
    if (must_verify) call verify()
    call circulant_request_free(exchange)
    call circulant_window_free(border_memory)
    call circulant_window_free(memory)
    call circulant_finalize(world)

contains

    subroutine arguments(side, must_verify)
        integer, intent(out) :: side
        logical, intent(out) :: must_verify
        character(20) :: word
        integer :: i, stat

        side = 200
        must_verify = .false.
        do i = 1, command_argument_count()
            call get_command_argument(i, word)
            stat = 0
            if (word == '--verify') then
                must_verify = .true.
            else
                read (word, *, iostat=stat) side
            end if
            if (stat /= 0) error stop 'cg [SIDE] [--verify]'
        end do
        if (side < world%size()) error stop 'cg: fewer columns than ranks; give a larger SIDE, or start fewer'
    end subroutine

    !> How many columns come before a rank's.
    integer function share(rank)
        integer, intent(in) :: rank

        share = int(int(side, selected_int_kind(18))*rank/world%size())
    end function

    !> The first and the last column go to the neighbours on either side, whose own come into the border.
    subroutine prepare()
        integer, dimension(0:world%size() - 1) :: sent, from, received, to
        integer :: left, right

        call circulant_window_alloc(world, memory, p, [side, columns])
        call circulant_window_alloc(world, border_memory, border, [side, 2])
        sent = 0; from = 0; received = 0; to = 0
        left = world%rank() - 1
        right = world%rank() + 1
        if (left >= 0) then
            sent(left) = side
            received(left) = side
        end if
        if (right < world%size()) then
            sent(right) = side
            from(right) = side*(columns - 1)
            received(right) = side
            to(right) = side
        end if
        call circulant_alltoallv_prepare(p, sent, border, received, world, exchange, from, to)
    end subroutine

    !> q = A p: the columns within first, while those of the neighbours are on their way.
    subroutine multiply()
        integer :: j

        call circulant_start(exchange)
        do j = 2, columns - 1
            q(:, j) = product_of(p(:, j - 1), p(:, j), p(:, j + 1))
        end do
        call circulant_wait(exchange)
        if (columns == 1) then
            q(:, 1) = product_of(border(:, 1), p(:, 1), border(:, 2))
        else
            q(:, 1) = product_of(border(:, 1), p(:, 1), p(:, 2))
            q(:, columns) = product_of(p(:, columns - 1), p(:, columns), border(:, 2))
        end if
    end subroutine

    !> A column of A p, of it and the columns beside it; on the square's edge there are zeros.
    pure function product_of(left, own, right) result(column)
        real(wp), intent(in) :: left(:), own(:), right(:)
        real(wp) :: column(size(own))

        column = 4*own - left - right
        column(2:) = column(2:) - own(:side - 1)
        column(:side - 1) = column(:side - 1) - own(2:)
        column = column/h**2
    end function

    !> The sum over all ranks' columns.
    function dot(a, b) result(total)
        real(wp), intent(in) :: a(:, :), b(:, :)
        real(wp) :: total

        call circulant_allreduce(sum(a*b), total, circulant_sum, world)
    end function

    !> Of -(u_xx + u_yy), where u is the known solution.
    function right_side() result(f)
        real(wp) :: f(side, columns)
        integer :: i, j

        do j = 1, columns
            do i = 1, side
                f(i, j) = 2*(bump(i) + bump(first + j - 1))
            end do
        end do
    end function

    pure real(wp) function bump(i)
        integer, intent(in) :: i

        bump = i*h*(1 - i*h)
    end function

    !> Against u = x (1 - x) y (1 - y), which differences of this order have without an error.
    subroutine verify()
        real(wp) :: off, most
        integer :: i, j

        off = 0
        do j = 1, columns
            do i = 1, side
                off = max(off, abs(u(i, j) - bump(i)*bump(first + j - 1)))
            end do
        end do
        call circulant_allreduce(off, most, circulant_max, world)
        if (world%rank() == 0) print '(a, es8.1)', 'largest error ', most
        if (most > 1e-8_wp) error stop 'cg: that is too much'
    end subroutine
end program cg
