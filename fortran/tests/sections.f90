!> Sections that are not contiguous: as good as others in calls at once, refused by those that go on after they return;
!> and arrays of every rank.
program sections
    use, intrinsic :: iso_fortran_env, only: real64, int64
    use circulant
    use check
    implicit none

    call begin()
    call at_once()
    call pointers()
    call later()
    call ranks()
    call circulant_finalize(world)

contains

    subroutine at_once()
        real(real64) :: grid(6, 5), sums(4, 6), columns(3, 2, 0:p - 1)
        integer(int64) :: line(100), parts(0:p)
        integer :: i, s

        grid = reshape([(real(i + r, real64), i=1, 30)], [6, 5])
        sums = -1
        call circulant_allreduce(grid(1:6:2, ::2), sums(::2, 1:6), circulant_sum, world, stat=i)
        call expect(i == circulant_err_argument, '9 elements for 12')
        call circulant_allreduce(grid(1:6:2, ::2), sums(2:4, ::2), circulant_sum, world)
        call expect(all(sums(2:4, ::2) == p*grid(1:6:2, ::2) + p*(p - 1)/2 - p*r), 'sums of sections')
        call expect(all(sums(1, :) == -1) .and. all(sums(:, 2::2) == -1), 'what is between stays')

        line = 7
        if (r == p - 1) line(100:1:-3) = [(i, i=1, 34)]
        call circulant_broadcast(line(100:1:-3), p - 1, world)
        call expect(all(line(100:1:-3) == [(i, i=1, 34)]), 'broadcast of a section backwards')
        call expect(all(line(2::3) == 7) .and. all(line(3::3) == 7), 'what is between stays')

        call circulant_allgather(grid(6, 1:2), columns(2, :, :), world)
        do s = 0, p - 1
            call expect(all(columns(2, :, s) == grid(6, 1:2) - r + s), 'allgather into a section')
        end do

        line = 7
        parts = r
        call circulant_allgatherv(parts(:r), line(1:p*(p + 1):2), [(s + 1, s=0, p - 1)], world)
        call expect(all(line(2::2) == 7), 'what is between stays')
        call expect(sum(line(1:p*(p + 1):2)) == sum([(s*(s + 1), s=0, p - 1)]), 'allgatherv into a section')
    end subroutine

    subroutine pointers()
        real(real64), target :: field(8, 8)
        real(real64), pointer :: edge(:)

        field = r
        edge => field(3, :)
        call circulant_allreduce(circulant_in_place, edge, circulant_max, world)
        call expect(all(field(3, :) == p - 1) .and. all(field(4, :) == r), 'a pointer to a row')
    end subroutine

    subroutine later()
        real(real64), asynchronous :: grid(4, 4), sums(4, 2)
        type(circulant_request) :: request
        integer :: stat
        character(200) :: errmsg

        grid = r
        call circulant_allreduce_start(grid(:, ::2), sums, circulant_sum, world, request, stat, errmsg)
        call fails(circulant_err_argument, 'circulant_allreduce_start: `input` is not contiguous', stat, errmsg)
        call circulant_allreduce_prepare(sums, grid(:, ::2), circulant_sum, world, request, stat, errmsg)
        call fails(circulant_err_argument, 'circulant_allreduce_prepare: `output` is not contiguous', stat, errmsg)
        call circulant_broadcast_start(grid(1, :), 0, world, request, stat, errmsg)
        call fails(circulant_err_argument, '`buffer` is not contiguous', stat, errmsg)
        call expect(request%is_null(), 'what was refused has no request')

        call circulant_allreduce_start(grid(:, 2:3), sums, circulant_sum, world, request)
        call circulant_wait(request)
        call expect(all(sums == p*(p - 1)/2), 'contiguous sections are started')
    end subroutine

    subroutine ranks()
        integer :: r0
        integer :: r1(2), r2(2, 1), r3(1, 2, 1), r4(1, 1, 2, 1), r5(2, 1, 1, 1, 1), r6(1, 1, 1, 1, 1, 2)
        integer :: r7(1, 1, 1, 2, 1, 1, 1), expected

        expected = p*(p + 1)/2
        r0 = r + 1; r1 = r0; r2 = r0; r3 = r0; r4 = r0; r5 = r0; r6 = r0; r7 = r0
        call circulant_allreduce(circulant_in_place, r0, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, r1, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, r2, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, r3, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, r4, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, r5, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, r6, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, r7, circulant_sum, world)
        call expect(r0 == expected .and. all(r1 == expected) .and. all(r2 == expected) .and. all(r3 == expected) .and. &
            all(r4 == expected) .and. all(r5 == expected) .and. all(r6 == expected) .and. all(r7 == expected), &
            'arrays of every rank')
    end subroutine
end program sections
