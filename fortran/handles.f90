!> What programs hold: communicators, operators, requests and windows; and the constants of circulant.h.
!>
!> Each is a handle of the C library, checked there at every use: one that was freed is an error, never somebody else's.
!> So a copy is the same object once more, and nothing is given up at the end of a scope: that would be a collective
!> call which nobody sees.
module circulant_handles
    use, intrinsic :: iso_c_binding, only: c_intptr_t, c_int64_t
    implicit none
    private

    !> A communicator: ranks that make calls together. Made by circulant_init, circulant_comm_split and
    !> circulant_comm_duplicate.
    type, public :: circulant_comm
        !> The circulant_comm of C, for what is written in C.
        integer(c_intptr_t) :: handle = 0
        !> This process's rank and how many there are, which never change: see rank() and size().
        integer, private :: place = -1, ranks = 0
    contains
        procedure :: rank => comm_rank
        procedure :: size => comm_size
        procedure :: is_null => comm_is_null
    end type

    interface circulant_comm
        procedure comm_of
    end interface

    !> An operator: circulant_sum or its like, or one of circulant_op_create.
    type, public :: circulant_op
        !> The circulant_op of C.
        integer(c_intptr_t) :: handle = 0
        !> Of circulant_op_create_TYPE that TYPE, such as real64; blank where the operator knows types itself.
        character(14) :: made_for = ''
    end type

    !> A call in the background, started or prepared.
    type, public :: circulant_request
        !> The circulant_request of C.
        integer(c_intptr_t) :: handle = 0
    contains
        procedure :: is_null => request_is_null
    end type

    !> Memory of the library's.
    type, public :: circulant_window
        !> The circulant_window of C.
        integer(c_intptr_t) :: handle = 0
    end type

    !> The type of circulant_in_place.
    type, public :: circulant_in_place_type
        !> CIRCULANT_IN_PLACE of C.
        integer(c_intptr_t) :: address = 1
    end type

    !> In the place of an array: what belongs there is in the other one, as each call says.
    type(circulant_in_place_type), parameter, public :: circulant_in_place = circulant_in_place_type()

    {constants}

contains

    elemental function comm_of(handle, rank, size) result(comm)
        integer(c_intptr_t), intent(in) :: handle
        integer, intent(in) :: rank, size
        type(circulant_comm) :: comm

        comm%handle = handle
        comm%place = rank
        comm%ranks = size
    end function

    !> This process's rank, from 0 on; -1 of a null communicator.
    elemental function comm_rank(self) result(rank)
        class(circulant_comm), intent(in) :: self
        integer :: rank

        rank = self%place
    end function

    !> How many ranks there are; 0 of a null communicator.
    elemental function comm_size(self) result(size)
        class(circulant_comm), intent(in) :: self
        integer :: size

        size = self%ranks
    end function

    !> Whether this is none: never made, given up, or of a rank without a colour.
    elemental function comm_is_null(self) result(is_null)
        class(circulant_comm), intent(in) :: self
        logical :: is_null

        is_null = self%handle == 0
    end function

    !> Whether this is none: never started, done, or given up.
    elemental function request_is_null(self) result(is_null)
        class(circulant_request), intent(in) :: self
        logical :: is_null

        is_null = self%handle == 0
    end function
end module circulant_handles
