!> Memory of the library's: registered once, and quicker in long calls than other memory.
module circulant_windows
    use, intrinsic :: iso_c_binding
    use circulant_handles
    use circulant_outcome
    implicit none
    private
    public :: allocate_window, circulant_window_free

    interface
        function c_window_alloc(comm, bytes, address, window) bind(c, name='circulant_window_alloc') result(code)
            import
            integer(c_intptr_t), value :: comm
            integer(c_size_t), value :: bytes
            type(c_ptr), intent(inout) :: address
            integer(c_intptr_t), intent(inout) :: window
            integer(c_int) :: code
        end function

        function c_window_free(window) bind(c, name='circulant_window_free') result(code)
            import
            integer(c_intptr_t), intent(inout) :: window
            integer(c_int) :: code
        end function
    end interface

contains

    !> Memory for as many elements as there are in these extents, of so many bytes each.
    subroutine allocate_window(result, comm, window, start, extents, element)
        type(outcome), intent(inout) :: result
        type(circulant_comm), intent(in) :: comm
        type(circulant_window), intent(inout) :: window
        type(c_ptr), intent(out) :: start
        integer(c_size_t), intent(in) :: extents(:), element
        integer(c_size_t) :: bytes
        integer :: i

        start = c_null_ptr
        bytes = element
        do i = 1, size(extents)
            if (extents(i) > 0 .and. bytes > huge(bytes)/max(extents(i), 1_c_size_t)) call result%complain( &
                circulant_err_overflow, '`shape` exceeds all memory; give a smaller one')
            if (.not. result%good()) return
            bytes = bytes*extents(i)
        end do
        if (result%good()) call result%give(c_window_alloc(comm%handle, bytes, start, window%handle))
    end subroutine

    !> Gives a window's memory back: pointers to it are good for nothing after. Where requests use it, it stays until
    !> they are done or freed. Local.
    subroutine circulant_window_free(window, stat, errmsg)
        type(circulant_window), intent(inout) :: window
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(outcome) :: result

        call result%give(c_window_free(window%handle))
        call result%finish('circulant_window_free', stat, errmsg)
    end subroutine
end module circulant_windows
