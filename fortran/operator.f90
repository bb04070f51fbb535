!> Operators of the program's own.
module circulant_operators
    use, intrinsic :: iso_c_binding
    use circulant_handles
    use circulant_outcome
    implicit none
    private
    public :: circulant_op_function, circulant_op_create, circulant_op_free

    abstract interface
        !> Combines `count` elements, which are of any type: result(i) = left(i) o right(i). As circulant_op_function of
        !> circulant.h, which says what it may do. 0, or another number for an error.
        function circulant_op_function(left, right, result, count, kind, context) bind(c) result(code)
            import
            type(c_ptr), value :: left, right, result
            integer(c_size_t), value :: count
            integer(c_int64_t), value :: kind
            type(c_ptr), value :: context
            integer(c_int) :: code
        end function
    end interface

    interface
        function c_op_create(function, commutes, context, op) bind(c, name='circulant_op_create') result(code)
            import
            type(c_funptr), value :: function
            integer(c_int), value :: commutes
            type(c_ptr), value :: context
            integer(c_intptr_t), intent(inout) :: op
            integer(c_int) :: code
        end function

        function c_op_free(op) bind(c, name='circulant_op_free') result(code)
            import
            integer(c_intptr_t), intent(inout) :: op
            integer(c_int) :: code
        end function
    end interface

contains

    !> Makes an operator of a function, for elements of any type. `context` is handed to it; `commutes` is true unless
    !> given: with false, elements are combined in the order of the ranks, by slower algorithms. Local.
    subroutine circulant_op_create(op, function, commutes, context, stat, errmsg)
        type(circulant_op), intent(inout) :: op
        procedure(circulant_op_function) :: function
        logical, intent(in), optional :: commutes
        type(c_ptr), intent(in), optional :: context
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(c_ptr) :: handed
        integer(c_int) :: order_is_free
        type(outcome) :: result

        handed = c_null_ptr
        if (present(context)) handed = context
        order_is_free = 1
        if (present(commutes)) order_is_free = merge(1, 0, commutes)
        call result%give(c_op_create(c_funloc(function), order_is_free, handed, op%handle))
        op%made_for = ''
        call result%finish('circulant_op_create', stat, errmsg)
    end subroutine

    !> Gives an operator up. Calls that it was given to go on.
    subroutine circulant_op_free(op, stat, errmsg)
        type(circulant_op), intent(inout) :: op
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(outcome) :: result

        call result%give(c_op_free(op%handle))
        op%made_for = ''
        call result%finish('circulant_op_free', stat, errmsg)
    end subroutine
end module circulant_operators
