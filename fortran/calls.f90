!> The collectives, each for every type of arrays in three tenses, as module circulant says at its head.
module circulant_calls
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
    use circulant_handles
    use circulant_operators
    use circulant_outcome
    use circulant_windows, only: allocate_window
    implicit none
    private
    public :: circulant_barrier, circulant_barrier_start, circulant_barrier_prepare
    public :: circulant_window_alloc

    interface
{bindings}
    end interface

{generics}
contains

{procedures}
    !> What stands for a buffer that is in place.
    pure function marked(mark) result(place)
        type(circulant_in_place_type), intent(in) :: mark
        type(c_ptr) :: place

        place = transfer(mark%address, c_null_ptr)
    end function

    !> Where places are, or null where there are none: parts lie one after the other then.
    function address(places) result(start)
        integer(c_size_t), intent(in), target, contiguous :: places(:)
        type(c_ptr) :: start

        start = c_null_ptr
        if (size(places) > 0) start = c_loc(places)
    end function
end module circulant_calls
