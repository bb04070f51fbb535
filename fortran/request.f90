!> Calls in the background: from their start to their end.
module circulant_requests
    use, intrinsic :: iso_c_binding
    use circulant_handles
    use circulant_outcome
    implicit none
    private
    public :: circulant_start, circulant_test, circulant_wait, circulant_wait_all, circulant_request_free

    interface
        function c_start(request) bind(c, name='circulant_start') result(code)
            import
            integer(c_intptr_t), value :: request
            integer(c_int) :: code
        end function

        function c_test(request, done) bind(c, name='circulant_test') result(code)
            import
            integer(c_intptr_t), intent(inout) :: request
            integer(c_int), intent(inout) :: done
            integer(c_int) :: code
        end function

        function c_wait(request) bind(c, name='circulant_wait') result(code)
            import
            integer(c_intptr_t), intent(inout) :: request
            integer(c_int) :: code
        end function

        function c_request_free(request) bind(c, name='circulant_request_free') result(code)
            import
            integer(c_intptr_t), intent(inout) :: request
            integer(c_int) :: code
        end function
    end interface

contains

    !> Starts a prepared call (again). Every rank of its communicator does, equally often.
    subroutine circulant_start(request, stat, errmsg)
        type(circulant_request), intent(in) :: request
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(outcome) :: result

        call result%give(c_start(request%handle))
        call result%finish('circulant_start', stat, errmsg)
    end subroutine

    !> Makes progress, and says whether a call is done; never waits. A started call that is done is given up, and its
    !> request null; a prepared one is kept.
    subroutine circulant_test(request, done, stat, errmsg)
        type(circulant_request), intent(inout) :: request
        logical, intent(out) :: done
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_int) :: is_done
        type(outcome) :: result

        is_done = 0
        call result%give(c_test(request%handle, is_done))
        done = is_done /= 0
        call result%finish('circulant_test', stat, errmsg)
    end subroutine

    !> Waits until a call is done. A started call is then given up, and its request null; a prepared one is kept.
    subroutine circulant_wait(request, stat, errmsg)
        type(circulant_request), intent(inout) :: request
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(outcome) :: result

        call result%give(c_wait(request%handle))
        call result%finish('circulant_wait', stat, errmsg)
    end subroutine

    !> Waits for all of these that are not null; the error is that of the first that has one.
    subroutine circulant_wait_all(requests, stat, errmsg)
        type(circulant_request), intent(inout) :: requests(:)
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer :: i
        type(outcome) :: result

        do i = 1, size(requests)
            if (.not. requests(i)%is_null()) call result%give(c_wait(requests(i)%handle))
        end do
        call result%finish('circulant_wait_all', stat, errmsg)
    end subroutine

    !> Gives a request up, so that its memory is free again. Waits for a call that runs.
    subroutine circulant_request_free(request, stat, errmsg)
        type(circulant_request), intent(inout) :: request
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(outcome) :: result

        call result%give(c_request_free(request%handle))
        call result%finish('circulant_request_free', stat, errmsg)
    end subroutine
end module circulant_requests
