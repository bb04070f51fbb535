!> Sections that are not contiguous: as good as others in calls at once, refused by those that go on after they return;
!> components of arrays; what is optional, handed on by a subroutine; and arrays of every rank.
module handing_on
    use circulant
    use check
    implicit none

contains

    subroutine gather_shaped(own, all)
        integer, intent(in) :: own(:)
        integer, intent(inout), optional :: all(:)

        call circulant_gather(own, all, 0, world)
    end subroutine

    subroutine reduce_allocated(own, all)
        integer, intent(in) :: own(:)
        integer, allocatable, intent(inout) :: all(:)

        call circulant_reduce(own, all, circulant_sum, 0, world)
    end subroutine

    subroutine gatherv_pointed(own, all)
        integer, intent(in) :: own(:)
        integer, pointer, intent(in) :: all(:)
        integer :: s

        ! Only the root's places are looked at, and only the root has some.
        call circulant_gatherv(own, all, spread(size(own), 1, p), 0, world, pack([(s*size(own), s=0, p - 1)], r == 0))
    end subroutine

    subroutine scatter_shaped(all, own)
        integer, intent(in), optional :: all(:, :)
        integer, intent(inout) :: own(:)

        call circulant_scatter(all, own, 0, world)
    end subroutine

    subroutine scatterv_later(all, own)
        integer, intent(in), optional, asynchronous :: all(:)
        integer, intent(inout), asynchronous :: own(:)
        type(circulant_request) :: request
        integer :: s

        call circulant_scatterv_start(all, spread(size(own), 1, p), own, 0, world, request, &
            pack([(s*size(own), s=0, p - 1)], r == 0))
        call circulant_wait(request)
    end subroutine

    subroutine of_assumed_size(own)
        integer, intent(inout) :: own(*)
        integer :: stat
        character(200) :: errmsg

        call circulant_broadcast(own, 0, world, stat, errmsg)
        call fails(circulant_err_argument, 'circulant_broadcast: `buffer` is of assumed size', stat, errmsg)
        call circulant_reduce(own(:2), own, circulant_sum, r, world, stat, errmsg)
        call fails(circulant_err_argument, 'circulant_reduce: `output` is of assumed size', stat, errmsg)
        call circulant_broadcast(own(:2), 0, world)
    end subroutine
end module handing_on

program sections
    use, intrinsic :: iso_fortran_env, only: real64, int64
    use circulant
    use check
    use handing_on
    implicit none

    call begin()
    call at_once()
    call pointers()
    call later()
    call pieces()
    call components()
    call handed_on()
    call assumed_size()
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

    !> Sections that are in one piece whatever their strides: nothing is copied, so what comes is in the array itself.
    subroutine pieces()
        integer, asynchronous :: grid(6, 5), cube(3, 4, 2)
        integer :: n
        type(circulant_request) :: request

        do n = 0, 1
            grid = r
            call circulant_broadcast_start(grid(3, 1:n), p - 1, world, request)
            call circulant_wait(request)
            call expect(all(grid(3, 1:n) == p - 1) .and. count(grid /= r) == merge(n, 0, r < p - 1), 'a row of one')
        end do
        grid = r
        call circulant_broadcast_start(grid(3:3:2, 2), p - 1, world, request)
        call circulant_wait(request)
        call expect(grid(3, 2) == p - 1 .and. count(grid /= r) == merge(1, 0, r < p - 1), 'one element by a stride')
        call circulant_broadcast_start(grid(1:0:2, 2), p - 1, world, request)
        call circulant_wait(request)

        grid = r
        call circulant_allreduce_prepare(circulant_in_place, grid(1:4, 2:2), circulant_max, world, request)
        call circulant_start(request)
        call circulant_wait(request)
        call circulant_request_free(request)
        call expect(all(grid(1:4, 2) == p - 1) .and. count(grid /= r) == merge(4, 0, r < p - 1), 'a part of a column')
        cube = r
        call circulant_broadcast_start(cube(:2, 3:3, 2:2), p - 1, world, request)
        call circulant_wait(request)
        call expect(all(cube(:2, 3, 2) == p - 1) .and. count(cube /= r) == merge(2, 0, r < p - 1), 'a part of a cube')
        call circulant_broadcast_start(cube(:2, 3:3, :), p - 1, world, request, n)
        call expect(n == circulant_err_argument, 'two pieces of a cube')
    end subroutine

    !> Of an array of parts, as counts of either kind, and as buffers.
    subroutine components()
        type part
            integer :: length, ignored
            integer(int64) :: elements, start
            real(real64) :: load
        end type
        type(part) :: parts(p)
        integer :: own(r + 1), all(p*(p + 1)/2), backwards(p*(p + 1)/2), s

        parts = [(part(s, -1, s, s*(s - 1)/2, s + r), s=1, p)]
        own = r
        call circulant_allgatherv(own, all, parts%length, world)
        call expect(all(1) == 0 .and. sum(all) == sum([(s*(s + 1), s=0, p - 1)]), 'counts that are components')
        parts%start = size(all) - parts%start - parts%elements
        call circulant_allgatherv(own, backwards, parts%elements, world, parts%start)
        call expect(sum(abs(backwards - all(size(all):1:-1))) == 0, 'places that are components')
        call circulant_broadcast(parts%load, p - 1, world)
        call expect(all_same(parts%load, [(real(s + p - 1, real64), s=1, p)]), 'a buffer of components')
        call circulant_reduce(parts%elements, parts%start, circulant_sum, 0, world)
        if (r == 0) call expect(sum(abs(parts%start - p*parts%elements)) == 0, 'an output of components')
        call expect(sum(parts%ignored) == -p, 'what is beside them stays')
    end subroutine

    pure logical function all_same(one, other)
        real(real64), intent(in) :: one(:), other(:)

        all_same = size(one) == size(other) .and. all(one == other)
    end function

    !> What is only looked at on the root is there, is not, is not allocated, or points nowhere; it may be a section.
    subroutine handed_on()
        integer :: rows(3, 2*p), own(2), s
        integer, allocatable :: everybodys(:)
        integer, pointer :: nowhere(:)

        own = [r, -r]
        nullify (nowhere)
        if (r == 0) then
            rows = 77
            allocate (everybodys(2), nowhere(2*p))
            call gather_shaped(own, rows(2, :))
            call expect(all(rows(2, :) == [(s, -s, s=0, p - 1)]) .and. all(rows(::2, :) == 77), 'gathered into a row')
            call reduce_allocated(own, everybodys)
            call expect(all(everybodys == [1, -1]*p*(p - 1)/2), 'reduced')
            call gatherv_pointed(own, nowhere)
            call expect(all(nowhere == [(s, -s, s=0, p - 1)]), 'gathered where it points')
            call circulant_gather(own, rows(3:1:-2, 2*p:1:-2), 0, world)
            call expect(all(rows(3, 2::2) == [(s, s=p - 1, 0, -1)]) .and. all(rows(1, 2::2) == -rows(3, 2::2)), &
                'gathered into a section')
            call expect(all(rows(2, ::2) == [(s, s=0, p - 1)]), 'what is between stays')
            call scatter_shaped(rows(1:3:2, 2::2), own)
            call expect(all(own == rows(1:3:2, 2)), 'scattered from a section')
            call scatterv_later(nowhere, own)
            deallocate (nowhere)
        else
            call gather_shaped(own)
            call reduce_allocated(own, everybodys)
            call gatherv_pointed(own, nowhere)
            call circulant_gather(own, nowhere, 0, world)
            call scatter_shaped(own=own)
            call expect(all(own == [-1, 1]*(p - 1 - r)), 'scattered')
            call scatterv_later(own=own)
        end if
        call expect(all(own == [r, -r]), 'scattered later')
    end subroutine

    subroutine assumed_size()
        integer :: own(2)

        own = r
        call of_assumed_size(own)
        call expect(all(own == 0), 'a section of it')
    end subroutine

    subroutine ranks()
        integer :: r0
        integer :: r1(2), r2(2, 1), r3(1, 2, 1), r4(1, 1, 2, 1), r5(2, 1, 1, 1, 1), r6(1, 1, 1, 1, 1, 2)
        integer :: r7(1, 1, 1, 2, 1, 1, 1), r15(1, 2, 1, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1, 2), expected

        expected = p*(p + 1)/2
        r0 = r + 1; r1 = r0; r2 = r0; r3 = r0; r4 = r0; r5 = r0; r6 = r0; r7 = r0; r15 = r0
        call circulant_allreduce(circulant_in_place, r0, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, r1, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, r2, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, r3, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, r4, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, r5, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, r6, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, r7, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, r15, circulant_sum, world)
        call expect(all(r15 == expected), 'an array of rank 15')
        r15 = r
        r15(1, 2, 1, 1, 1, 1, 1, ::2, 1, 1, 1, 1, 1, 1, :) = r + 1
        call circulant_reduce(r15(1, 2, 1, 1, 1, 1, 1, ::2, 1, 1, 1, 1, 1, 1, :), &
            r15(1, 1, 1, 1, 1, 1, 1, ::2, 1, 1, 1, 1, 1, 1, :), circulant_sum, 0, world)
        if (r == 0) call expect(all(r15(1, 1, 1, 1, 1, 1, 1, ::2, 1, 1, 1, 1, 1, 1, :) == expected), 'a section of it')
        call expect(r0 == expected .and. all(r1 == expected) .and. all(r2 == expected) .and. all(r3 == expected) .and. &
            all(r4 == expected) .and. all(r5 == expected) .and. all(r6 == expected) .and. all(r7 == expected), &
            'arrays of every rank')
    end subroutine
end program sections
