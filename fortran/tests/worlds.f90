!> Worlds by an id, and by an allgather of the program's own, beside that of the launcher.
module carried
    use, intrinsic :: iso_c_binding
    use circulant
    use check
    implicit none

contains

    !> By the first world.
    function carry(own, all, bytes, context) bind(c) result(code)
        type(c_ptr), value :: own, all
        integer(c_size_t), value :: bytes
        type(c_ptr), value :: context
        integer(c_int) :: code
        integer(c_int8_t), pointer :: part(:), whole(:)
        integer, pointer :: times

        call c_f_pointer(context, times)
        times = times + 1
        call c_f_pointer(own, part, [bytes])
        call c_f_pointer(all, whole, [bytes*p])
        call circulant_allgather(part, whole, world, code)
    end function
end module carried

program worlds
    use, intrinsic :: iso_c_binding
    use circulant
    use check
    use carried
    implicit none

    type(circulant_comm) :: by_id, by_allgather
    type(circulant_id) :: id
    integer, target :: times
    integer :: stat
    character(300) :: errmsg

    call begin()
    if (r == 0) call circulant_id_create(id)
    call circulant_broadcast(id%bytes, 0, world)
    call circulant_init(by_id, p - 1 - r, p, id)
    call tried(by_id, p - 1 - r)

    times = 0
    call circulant_init(by_allgather, r, p, carry, c_loc(times))
    call expect(times > 0, 'the allgather was called')
    call tried(by_allgather, r)

    call circulant_init(by_id, p, p, id, stat, errmsg)
    call fails(circulant_err_argument, 'circulant_init', stat, errmsg)
    call circulant_finalize(world)

contains

    subroutine tried(own, rank)
        type(circulant_comm), intent(inout) :: own
        integer, intent(in) :: rank
        integer :: total

        call expect(own%rank() == rank .and. own%size() == p, 'its place')
        call circulant_allreduce(rank, total, circulant_sum, own)
        call expect(total == p*(p - 1)/2, 'a call')
        call circulant_finalize(own)
    end subroutine
end program worlds
