!> Communicators that are divided, operators of the program's own, windows, and prepared calls that start again.
module own_operators
    use, intrinsic :: iso_c_binding
    use circulant
    implicit none

contains

    function larger(left, right) result(both)
        complex, intent(in) :: left, right
        complex :: both

        both = merge(left, right, abs(left) >= abs(right))
    end function

    !> The digits of one number after those of another, which does not commute.
    function joined(left, right) result(both)
        integer, intent(in) :: left, right
        integer :: both

        both = left*10**size_of(right) + right
    end function

    pure integer function size_of(number)
        integer, intent(in) :: number

        size_of = merge(0, int(log10(real(max(number, 1)))) + 1, number == 0)
    end function

    function same(left, right) result(both)
        logical, intent(in) :: left, right
        logical :: both

        both = left .eqv. right
    end function

    !> The largest, but not less than the context says; fails where there is none.
    function bounded(left, right, result, count, kind, context) bind(c) result(code)
        type(c_ptr), value :: left, right, result
        integer(c_size_t), value :: count
        integer(c_int64_t), value :: kind
        type(c_ptr), value :: context
        integer(c_int) :: code
        integer(c_int64_t), pointer :: one(:), other(:), both(:), least

        code = 3
        if (.not. c_associated(context) .or. kind /= circulant_int64) return
        call c_f_pointer(context, least)
        call c_f_pointer(left, one, [count])
        call c_f_pointer(right, other, [count])
        call c_f_pointer(result, both, [count])
        both = max(one, other, least)
        code = 0
    end function
end module own_operators

program groups
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int64, real32, real64
    use circulant
    use check
    use own_operators
    implicit none

    call begin()
    call divided()
    call told()
    call algorithms()
    call operators()
    call any_type()
    call windows()
    call again()
    call circulant_finalize(world)
    call expect(world%is_null() .and. world%size() == 0 .and. world%rank() == -1, 'a world that is given up is null')

contains

    subroutine divided()
        type(circulant_comm) :: parity, backwards, twin, none
        integer :: sum_of_ranks, s

        call circulant_comm_split(world, mod(r, 2), parity)
        call expect(parity%size() == (p + 1 - mod(r, 2))/2 .and. parity%rank() == r/2, 'ranks of one parity')
        call circulant_allreduce(r, sum_of_ranks, circulant_sum, parity)
        call expect(sum_of_ranks == sum([(s, s=mod(r, 2), p - 1, 2)]), 'their sum')
        call circulant_comm_split(world, 0, backwards, key=-r)
        call expect(backwards%rank() == p - 1 - r, 'in the order of their keys')
        call circulant_comm_split(world, merge(0, circulant_no_colour, r == 0), none)
        call expect(none%is_null() .neqv. r == 0, 'without a colour there is none')
        call circulant_comm_duplicate(world, twin)
        call circulant_barrier(twin)
        call circulant_comm_free(twin)
        call circulant_comm_free(backwards)
        call circulant_comm_free(parity)
        if (r == 0) call circulant_comm_free(none)
        call expect(parity%is_null() .and. parity%size() == 0, 'what is given up is null')
    end subroutine

    subroutine told()
        character(100) :: text
        character(2) :: short
        integer :: nodes, node

        call circulant_comm_nodes(world, nodes)
        call circulant_comm_node(world, p - 1, node)
        call expect(nodes == 1 .and. node == 0, 'one node')
        call circulant_comm_transport(world, text)
        call expect(len_trim(text) > 2, 'what carries puts')
        call circulant_comm_transport(world, short)
        call expect(short == text(:2), 'the same, cut')
        call circulant_comm_boot(world, text)
        call expect(len_trim(text) > 2, 'how ranks found each other')
    end subroutine

    subroutine algorithms()
        type(circulant_comm) :: twin
        integer :: total, stat
        character(200) :: errmsg

        call circulant_comm_duplicate(world, twin)
        call circulant_comm_set_algorithm(twin, circulant_call_allreduce, 'ring')
        call circulant_allreduce(1, total, circulant_sum, twin)
        call expect(total == p, 'an algorithm by name')
        call circulant_comm_set_algorithm(twin, circulant_call_allreduce)
        call circulant_comm_set_algorithm(twin, circulant_call_allreduce, 'wings', stat=stat, errmsg=errmsg)
        call fails(circulant_err_argument, 'wings', stat, errmsg)
        call circulant_comm_free(twin)
    end subroutine

    subroutine operators()
        type(circulant_op) :: op, other
        complex :: point
        integer :: number, wanted, s, stat
        logical :: all_same
        character(200) :: errmsg

        call circulant_op_create_complex_real32(op, larger)
        call circulant_allreduce(cmplx(0, mod(r + 1, p)), point, op, world)
        call expect(point == cmplx(0, p - 1), 'the larger by modulus')
        call circulant_op_free(op)

        call circulant_op_create_int32(op, joined, commutes=.false.)
        wanted = 0
        do s = 1, p
            wanted = 10*wanted + s
        end do
        call circulant_allreduce(r + 1, number, op, world)
        call expect(number == wanted, 'digits in the order of the ranks')
        call circulant_op_create_logical(other, same)
        call circulant_allreduce(r == 0, all_same, other, world)
        call expect(all_same .eqv. mod(p, 2) == 1, 'logicals combined')
        call circulant_op_free(other)

        call circulant_op_free(op)
        call circulant_op_free(op, stat, errmsg)
        call fails(circulant_err_null, 'circulant_op_free', stat, errmsg)
    end subroutine

    subroutine any_type()
        type(circulant_op) :: op
        integer(c_int64_t), target :: least
        integer(int64) :: all(2)

        least = 2
        call circulant_op_create(op, bounded, context=c_loc(least))
        call circulant_allreduce([int(r, int64), -1_int64], all, op, world)
        if (p > 1) call expect(all(1) == max(p - 1, 2) .and. all(2) == 2, 'an operator with a context')
        call circulant_op_free(op)
    end subroutine

    subroutine windows()
        type(circulant_window) :: window, other
        real(real64), pointer, contiguous :: grid(:, :)
        integer, pointer :: box(:, :, :, :)
        real(real32), pointer :: line(:), one, hyper(:, :, :, :, :, :, :, :, :, :, :, :, :, :, :)
        integer :: stat
        character(200) :: errmsg

        nullify (grid, one)
        call circulant_window_alloc(world, window, grid, [300, 200])
        call expect(all(shape(grid) == [300, 200]) .and. all(grid == 0), 'a window is an array of zeros')
        grid = r
        call circulant_allreduce(circulant_in_place, grid, circulant_sum, world)
        call expect(all(grid == p*(p - 1)/2), 'a call on a window')
        call circulant_window_free(window)

        call circulant_window_alloc(world, window, box, [2_int64, 3_int64, 1_int64, int(p, int64)])
        call circulant_allgather([1, 2, 3, 4, 5, 6]*(r + 1), box, world)
        call expect(all(box(2, 3, 1, :)/6 == box(1, 1, 1, :)) .and. box(1, 1, 1, p) == p, 'a window of four dimensions')
        call circulant_window_alloc(world, other, line, [0])
        call expect(size(line) == 0, 'a window of nothing')
        call circulant_window_free(other)
        call circulant_window_free(window)
        call circulant_window_alloc(world, window, one, [integer ::])
        call circulant_window_alloc(world, other, hyper, [2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3])
        one = 1
        hyper = 1
        call circulant_allreduce(circulant_in_place, one, circulant_sum, world)
        call circulant_allreduce(circulant_in_place, hyper, circulant_sum, world)
        call expect(one == p .and. size(hyper) == 6 .and. all(hyper == p), 'windows of no dimension, and of fifteen')
        call circulant_window_free(other)
        call circulant_window_free(window)

        call circulant_window_alloc(world, window, line, [3, 3], stat, errmsg)
        call fails(circulant_err_argument, '`shape` has 2 entries where 1 belong', stat, errmsg)
        call circulant_window_alloc(world, window, line, [-3], stat, errmsg)
        call fails(circulant_err_argument, 'negative', stat, errmsg)
        call circulant_window_alloc(world, window, grid, [huge(1_int64), 2_int64], stat, errmsg)
        call fails(circulant_err_overflow, '`shape` exceeds all memory', stat, errmsg)
        call circulant_window_free(window, stat, errmsg)
        call fails(circulant_err_null, 'circulant_window_free', stat, errmsg)
    end subroutine

    subroutine again()
        type(circulant_request) :: sums, heads, both(3)
        integer, asynchronous :: own(1000), total(1000), head
        integer :: step, stat
        logical :: done
        character(200) :: errmsg

        call circulant_allreduce_prepare(own, total, circulant_sum, world, sums)
        call circulant_broadcast_prepare(head, 0, world, heads)
        do step = 1, 5
            own = step + r
            head = merge(step, 0, r == 0)
            call circulant_start(sums)
            call circulant_start(heads, stat)
            call expect(stat == circulant_ok, 'a start')
            if (step == 3) then
                done = .false.
                do while (.not. done)
                    call circulant_test(sums, done)
                end do
            end if
            both = [sums, circulant_request(), heads]
            call circulant_wait_all(both)
            call expect(all(total == step*p + p*(p - 1)/2) .and. head == step, 'a prepared call, started again')
        end do
        call circulant_allreduce_start(own, total, circulant_sum, world, sums, stat, errmsg)
        call fails(circulant_err_argument, '`request` is of another call', stat, errmsg)
        call circulant_request_free(sums)
        call circulant_request_free(heads)

        call circulant_barrier_start(world, sums)
        call circulant_wait(sums)
        call circulant_barrier_prepare(world, sums)
        call circulant_start(sums)
        call circulant_wait(sums)
        call circulant_request_free(sums)
        call circulant_start(sums, stat, errmsg)
        call fails(circulant_err_null, 'circulant_start', stat, errmsg)
    end subroutine
end program groups
