/* circulant.h: collectives by one-sided puts. MIT or Apache-2.0. Made from the source; do not edit.
 *
 *     #include <circulant.h>
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         circulant_comm world;
 *         if (circulant_init(&world) != CIRCULANT_OK) {
 *             fprintf(stderr, "%s\n", circulant_error_message());
 *             return 1;
 *         }
 *         double mine = 1.5, sum;
 *         circulant_allreduce(&mine, &sum, 1, CIRCULANT_DOUBLE, CIRCULANT_SUM, world);
 *         return circulant_finalize(&world) != CIRCULANT_OK;
 *     }
 *
 *     cc program.c $(pkg-config --cflags --libs circulant)
 *     circulant run -n 4 -- ./a.out              (or mpiexec, mpirun, srun)
 *
 * Errors. Every function that can fail returns CIRCULANT_OK or another code, and leaves a sentence (what, who,
 * cure) for circulant_error_message. A handle that is null, was freed, or is of another kind is an error, as is
 * a null pointer, a number that is no type, and a count that overflows: nothing is sent then, and the communicator
 * is as good as before. What else a collective may fail with:
 *
 *     CIRCULANT_ERR_DISAGREEMENT   ranks make calls that do not go together
 *     CIRCULANT_ERR_OPERATOR       an operator of the caller's failed at this rank
 *     CIRCULANT_ERR_LOST           a rank died
 *     CIRCULANT_ERR_ABORTED        another rank found an error, such as an operator that failed there
 *     CIRCULANT_ERR_STALLED        the deadline of CIRCULANT_TIMEOUT passed
 *     CIRCULANT_ERR_TRANSPORT      what carries the data failed
 *
 * After one of these a communicator is of no more use: each later call gives it again. The library prints nothing
 * but a line about a rank that waits for long (CIRCULANT_STALL), and never ends the process.
 *
 * Memory. Counts, displacements and sizes are size_t; counts and displacements are in elements, sizes in bytes.
 * Memory need not be aligned. Input and output must be apart (parts of the one may lie between parts of the other), as
 * must the parts of an output, or one of them CIRCULANT_IN_PLACE; what overlaps is CIRCULANT_ERR_ARGUMENT. A buffer of no elements may be null. Long calls are quicker on memory of
 * circulant_window_alloc.
 *
 * Tenses. Each collective is there at once, started (..._start) and prepared (..._prepare); circulant_wait ends
 * the latter two. They make progress in calls of this library; with CIRCULANT_PROGRESS=thread also on a thread of the
 * library's, where operators are called, too, which then must not need a lock that is held in a call. In a process,
 * each world has at most 1024 operations under way or prepared at one time, on all its communicators; one more is
 * CIRCULANT_ERR_ARGUMENT.
 *
 * Threads. Any function may be called on any thread that has 32 KiB of stack left. On one communicator all ranks
 * make the same collective calls, in all three tenses, in the same order, so threads that share one must agree on an
 * order; a request is started by one thread at a time; several may wait for it, and one give it up meanwhile: all
 * return when it is done. Who comes to a started request after that finds CIRCULANT_ERR_HANDLE. Sentences belong to
 * threads.
 *
 * Not seen, so not an error: memory that is smaller than the counts say, memory given back while a request uses it,
 * strings without end, functions that throw. fork() after circulant_init leaves the library to the parent.
 */

#ifndef CIRCULANT_H
#define CIRCULANT_H

#include <stddef.h>
#include <stdint.h>

// The type of structs of n bytes, such as CIRCULANT_STRUCT(sizeof(struct particle)). Only operators of the
// caller's combine them.
#define CIRCULANT_STRUCT(n) (CIRCULANT_STRUCTS + (circulant_type)(n))

// Types by their names in C, where a long has 64 bits.
#define CIRCULANT_BYTE CIRCULANT_UINT8
#define CIRCULANT_INT CIRCULANT_INT32
#define CIRCULANT_UNSIGNED CIRCULANT_UINT32
#define CIRCULANT_LONG CIRCULANT_INT64
#define CIRCULANT_UNSIGNED_LONG CIRCULANT_UINT64

// In the place of a buffer: what belongs there is in the other buffer, as each function says.
#define CIRCULANT_IN_PLACE ((void *)1)

// The library's operators, and the types that they fit:
//
//     SUM, PRODUCT                           integers (they wrap), floating point, complex
//     MIN, MAX                               integers, floating point (a NaN wins)
//     LOGICAL_AND, _OR, _XOR                 integers (not 0 is true), bool
//     BIT_AND, _OR, _XOR                     integers, bool
//     MIN_PLACE, MAX_PLACE                   value and place: of equal values the one with the least place
#define CIRCULANT_SUM ((circulant_op)1)
#define CIRCULANT_PRODUCT ((circulant_op)2)
#define CIRCULANT_MIN ((circulant_op)3)
#define CIRCULANT_MAX ((circulant_op)4)
#define CIRCULANT_LOGICAL_AND ((circulant_op)5)
#define CIRCULANT_LOGICAL_OR ((circulant_op)6)
#define CIRCULANT_LOGICAL_XOR ((circulant_op)7)
#define CIRCULANT_BIT_AND ((circulant_op)8)
#define CIRCULANT_BIT_OR ((circulant_op)9)
#define CIRCULANT_BIT_XOR ((circulant_op)10)
#define CIRCULANT_MIN_PLACE ((circulant_op)11)
#define CIRCULANT_MAX_PLACE ((circulant_op)12)

// Makes this process a rank of the job that it was started in, by whatever launcher, or by the MPI that is in the
// process; alone without one. Gives the communicator of all ranks. Settings come from the environment (see the manual).
//
// By PMI-1 or PMIx a process joins once: a second call is CIRCULANT_ERR_BOOT then, also after circulant_finalize.
// Take further worlds by circulant_init_id or circulant_init_allgather. Alone it may be called again.
//
// Collective. int circulant_init(circulant_comm *world)
//
// Errors: CIRCULANT_ERR_VERSION where this header does not go with the library; CIRCULANT_ERR_BOOT,
// CIRCULANT_ERR_TRANSPORT, CIRCULANT_ERR_LOST, CIRCULANT_ERR_STALLED, CIRCULANT_ERR_NULL.
#define circulant_init(world) circulant_init_version(CIRCULANT_VERSION_MAJOR, CIRCULANT_VERSION_MINOR, world)

// The same by an allgather that the caller has, among the ranks 0 to size - 1 of which this process is `rank`.
// `context` is handed to it. No variable of a launcher is read.
//
// Collective. int circulant_init_allgather(int rank, int size, circulant_allgather_function allgather, void *context,
// circulant_comm *world)
//
// Errors: as circulant_init; CIRCULANT_ERR_ARGUMENT for a place that is none.
#define circulant_init_allgather(rank, size, allgather, context, world)                                         \
  circulant_init_allgather_version(CIRCULANT_VERSION_MAJOR, CIRCULANT_VERSION_MINOR, rank, size, allgather,     \
                                   context, world)

// The same by an id of circulant_id_create, among the processes that have it. No variable of a launcher is read. Waits
// for the others for CIRCULANT_BOOT_TIMEOUT seconds, 60 if it is not set.
//
// Collective. int circulant_init_id(int rank, int size, const circulant_id *id, circulant_comm *world)
//
// Errors: as circulant_init; CIRCULANT_ERR_ARGUMENT for a place that is none, and an id that is none.
#define circulant_init_id(rank, size, id, world)                                                                \
  circulant_init_id_version(CIRCULANT_VERSION_MAJOR, CIRCULANT_VERSION_MINOR, rank, size, id, world)


// Done.
#define CIRCULANT_OK 0

// Arguments that do not fit; nothing was sent, and the communicator is as good as before.
#define CIRCULANT_ERR_ARGUMENT 1

// A null pointer or null handle where there must be one; nothing was sent.
#define CIRCULANT_ERR_NULL 2

// A handle that was freed, of another kind, or never given out; nothing was sent.
#define CIRCULANT_ERR_HANDLE 3

// A number that is no type, or an operator that does not fit the type; nothing was sent.
#define CIRCULANT_ERR_TYPE 4

// Counts, sizes or displacements that exceed all memory; nothing was sent.
#define CIRCULANT_ERR_OVERFLOW 5

// The header that the program was compiled with does not go with the library that it runs with.
#define CIRCULANT_ERR_VERSION 6

// Ranks make calls that do not go together; the sentence names two of them.
#define CIRCULANT_ERR_DISAGREEMENT 7

// An operator of the caller's failed at this rank; the others get CIRCULANT_ERR_ABORTED, with its words.
#define CIRCULANT_ERR_OPERATOR 8

// A rank is lost.
#define CIRCULANT_ERR_LOST 9

// The deadline of CIRCULANT_TIMEOUT has passed.
#define CIRCULANT_ERR_STALLED 10

// Another rank found an error and told the others.
#define CIRCULANT_ERR_ABORTED 11

// The ranks did not find each other.
#define CIRCULANT_ERR_BOOT 12

// There is no transport, or it failed.
#define CIRCULANT_ERR_TRANSPORT 13

// A mistake of the library's own; please report it with the sentence.
#define CIRCULANT_ERR_INTERNAL 14

// The version that a program was compiled with, and that of the library: they must go together.
#define CIRCULANT_VERSION_MAJOR 0

// While the major number is 0, these must be the same; after, the library's must not be less.
#define CIRCULANT_VERSION_MINOR 1

// Bytes of a circulant_id.
#define CIRCULANT_ID_BYTES 128

// The colour of a rank that gets no new communicator.
#define CIRCULANT_NO_COLOUR (-1)

// The collectives, for circulant_comm_set_algorithm.
#define CIRCULANT_BROADCAST 1

#define CIRCULANT_BARRIER 2

#define CIRCULANT_REDUCE 5

#define CIRCULANT_ALLREDUCE 6

#define CIRCULANT_ALLGATHER 7

#define CIRCULANT_ALLGATHERV 8

#define CIRCULANT_REDUCE_SCATTER 9

#define CIRCULANT_REDUCE_SCATTER_BLOCK 10

#define CIRCULANT_SCATTER 11

#define CIRCULANT_SCATTERV 12

#define CIRCULANT_GATHER 13

#define CIRCULANT_GATHERV 14

#define CIRCULANT_ALLTOALL 15

#define CIRCULANT_ALLTOALLV 16

// What a communicator's handle points to: nothing that anybody can see.
typedef struct circulant_comm_object circulant_comm_object;

// What an operator's handle points to: nothing that anybody can see.
typedef struct circulant_op_object circulant_op_object;

// What a request's handle points to: nothing that anybody can see.
typedef struct circulant_request_object circulant_request_object;

// What a window's handle points to: nothing that anybody can see.
typedef struct circulant_window_object circulant_window_object;

// A communicator.
typedef struct circulant_comm_object *circulant_comm;

// An allgather of the caller's: every rank's `bytes` bytes at `own` go to everybody's `all`, in rank order.
//
// All ranks call it equally often with equal `bytes`, up to ten times, on the thread that is in
// circulant_init_allgather. Returns 0, or another number for an error.
typedef int (*circulant_allgather_function)(const void *own, void *all, size_t bytes, void *context);

// What a process makes, and all others are given, so that they find each other.
typedef struct circulant_id {
  // Not for you to look into; may be copied and sent as it is.
  unsigned char bytes[CIRCULANT_ID_BYTES];
} circulant_id;

// A type of elements: one of those below, or `CIRCULANT_STRUCT(sizeof(struct s))`.
typedef uint64_t circulant_type;

// Combines `count` elements: `result[i] = left[i] o right[i]`.
//
// `result` is `left` or `right` or apart from both, so element i may be written once both of its
// arguments have been read. Pointers are aligned as a type of that size can be, to 64 bytes at most. An
// operator must be associative, return 0, or another number for an error, which this rank
// then gets as CIRCULANT_ERR_OPERATOR, and all others as CIRCULANT_ERR_ABORTED; it must not throw, and calls of this library from it are refused
// (CIRCULANT_ERR_ARGUMENT). It may be called on any thread that is in a call of this library, at one time on
// several.
typedef int (*circulant_op_function)(const void *left,
                                     const void *right,
                                     void *result,
                                     size_t count,
                                     circulant_type type,
                                     void *context);

// An operator: one of the library's, such as CIRCULANT_SUM, or of circulant_op_create.
typedef struct circulant_op_object *circulant_op;

// A call in the background.
typedef struct circulant_request_object *circulant_request;

// Memory of the library's.
typedef struct circulant_window_object *circulant_window;

// int8_t
#define CIRCULANT_INT8 1

// int16_t
#define CIRCULANT_INT16 2

// int32_t
#define CIRCULANT_INT32 3

// int64_t
#define CIRCULANT_INT64 4

// __int128
#define CIRCULANT_INT128 5

// ptrdiff_t
#define CIRCULANT_PTRDIFF 6

// uint8_t, and bytes that nobody looks into
#define CIRCULANT_UINT8 7

// uint16_t
#define CIRCULANT_UINT16 8

// uint32_t
#define CIRCULANT_UINT32 9

// uint64_t
#define CIRCULANT_UINT64 10

// unsigned __int128
#define CIRCULANT_UINT128 11

// size_t
#define CIRCULANT_SIZE 12

// IEEE half precision: _Float16
#define CIRCULANT_FLOAT16 13

// The upper half of a float: __bf16
#define CIRCULANT_BFLOAT16 14

// float
#define CIRCULANT_FLOAT 15

// double
#define CIRCULANT_DOUBLE 16

// float _Complex
#define CIRCULANT_COMPLEX_FLOAT 17

// double _Complex
#define CIRCULANT_COMPLEX_DOUBLE 18

// _Bool
#define CIRCULANT_BOOL 19

// struct { float value; int32_t place; }
#define CIRCULANT_FLOAT_INT32 20

// struct { float value; uint32_t place; }
#define CIRCULANT_FLOAT_UINT32 21

// struct { double value; int64_t place; }
#define CIRCULANT_DOUBLE_INT64 22

// struct { double value; uint64_t place; }
#define CIRCULANT_DOUBLE_UINT64 23

// struct { int32_t value; int32_t place; }
#define CIRCULANT_INT32_INT32 24

// struct { int64_t value; int64_t place; }
#define CIRCULANT_INT64_INT64 25

// struct { uint32_t value; uint32_t place; }
#define CIRCULANT_UINT32_UINT32 26

// struct { uint64_t value; uint64_t place; }
#define CIRCULANT_UINT64_UINT64 27

// The type of structs of n bytes is this and n; `CIRCULANT_STRUCT(n)` adds them up.
#define CIRCULANT_STRUCTS 4294967296

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The sentence of the last call that failed on this thread: what went wrong, at which rank, and what to
// do about it. Empty where none has failed. Never null; good until the next call of this library on
// this thread.
const char *circulant_error_message(void);

// A code's name, such as "CIRCULANT_ERR_LOST"; never null, good for ever.
const char *circulant_error_name(int code);

// The library's version, such as "0.1.0"; never null, good for ever.
const char *circulant_version(void);

// What circulant_init calls.
int circulant_init_version(int major, int minor, circulant_comm *world);

// What circulant_init_allgather calls.
int circulant_init_allgather_version(int major,
                                     int minor,
                                     int rank,
                                     int size,
                                     circulant_allgather_function allgather,
                                     void *context,
                                     circulant_comm *world);

// Gives up a world of circulant_init and its kin, with all communicators, windows and requests that came of
// it, and sets `*world` to null. Waits for the requests, and until all ranks have called it; a process that
// ends without it is lost to the others.
//
// Collective. Errors: CIRCULANT_ERR_ARGUMENT for a communicator that is no world; CIRCULANT_ERR_HANDLE,
// CIRCULANT_ERR_NULL; and those of a collective, and CIRCULANT_ERR_BOOT where the launcher's own last word fails: the world is
// given up all the same.
int circulant_finalize(circulant_comm *world);

// Makes an id by which processes find each other: one process makes it, the program carries it to the others as it
// likes, and each gives it to circulant_init_id with a rank of its own. It is used once.
//
// The process that made it listens until all ranks have joined, by a thread and some descriptors, so it is to live until
// then; an id that is never used keeps these to the end of the process. It may be a rank of any number, or none.
//
// Errors: CIRCULANT_ERR_BOOT where there is no port to listen at; CIRCULANT_ERR_NULL.
int circulant_id_create(struct circulant_id *id);

// What circulant_init_id calls.
int circulant_init_id_version(int major,
                              int minor,
                              int rank,
                              int size,
                              const struct circulant_id *id,
                              circulant_comm *world);

// This process's rank in a communicator, from 0 on.
//
// Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
int circulant_comm_rank(circulant_comm comm, int *rank);

// How many ranks a communicator has.
//
// Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
int circulant_comm_size(circulant_comm comm, int *size);

// Divides a communicator: ranks of one colour (0 or more) make a new one, in the order of their keys, and of
// their ranks where keys are equal. A rank with CIRCULANT_NO_COLOUR gets null.
//
// Collective: all ranks of `comm` call it. An allgather of three words a rank; in worlds of more than 48
// ranks two. What circulant_comm_set_algorithm said of `comm` holds for the new one too.
//
// Errors: CIRCULANT_ERR_ARGUMENT for another negative colour; CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL; and
// those of a collective.
int circulant_comm_split(circulant_comm comm, int colour, int key, circulant_comm *new_comm);

// The same ranks once more: calls on one do not mix with calls on the other.
//
// Collective. Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL; and those of a collective.
int circulant_comm_duplicate(circulant_comm comm, circulant_comm *new_comm);

// Gives a communicator up, once all its ranks do, and sets `*comm` to null. Requests that were started on it
// go on.
//
// Collective: a barrier. Where that fails the communicator is given up all the same.
//
// Errors: CIRCULANT_ERR_ARGUMENT for a world, which circulant_finalize takes; CIRCULANT_ERR_HANDLE,
// CIRCULANT_ERR_NULL; and those of a collective.
int circulant_comm_free(circulant_comm *comm);

// Names the algorithm of a collective's calls on a communicator, and the number of blocks: for those who know
// better than the library, which chooses by sizes and what a put costs.
//
// `collective` is CIRCULANT_ALLREDUCE or its like; `algorithm` one of `circulant plan --list`, or null for the
// library's choice; `blocks` 0 for the library's choice. Holds for later calls on this communicator and those
// that are split off. Local, but all ranks must say the same. Whether the two fit a call, that call tells.
//
// Errors: CIRCULANT_ERR_ARGUMENT for no collective, no algorithm of it, negative blocks, or CIRCULANT_BARRIER in
// several blocks or by an algorithm that does not serve these ranks; CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
int circulant_comm_set_algorithm(circulant_comm comm,
                                 int collective,
                                 const char *algorithm,
                                 int blocks);

// What carries puts, such as "shm (writev) + net (libfabric 1.17)": a string of at most `bytes` bytes with its
// zero, cut where it is longer.
//
// Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
int circulant_comm_transport(circulant_comm comm,
                             char *text,
                             size_t bytes);

// How the ranks found each other, such as "PMI-1 (PMI_FD=7)"; `text` and `bytes` as for
// circulant_comm_transport.
//
// Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
int circulant_comm_boot(circulant_comm comm, char *text, size_t bytes);

// How many nodes a communicator's ranks are on.
//
// Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
int circulant_comm_nodes(circulant_comm comm, int *nodes);

// Which node one of a communicator's ranks is on: a number from 0 on, in the order of the nodes' first ranks.
// With it as a colour, circulant_comm_split gives each node a communicator of its own.
//
// Errors: CIRCULANT_ERR_ARGUMENT for a rank that there is not; CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
int circulant_comm_node(circulant_comm comm, int rank, int *node);

// How many bytes an element of a type has.
//
// Errors: CIRCULANT_ERR_TYPE, CIRCULANT_ERR_NULL.
int circulant_type_size(circulant_type type, size_t *bytes);

// Makes an operator of a function; `context` is handed to it at each call, and may be null.
//
// Local, and quick. `commutes` is 0 for an operator for which a o b may differ from b o a: elements are
// then combined in the order of the ranks, which takes slower algorithms. All ranks of a call must use
// operators that do the same. It serves every type.
//
// Errors: CIRCULANT_ERR_NULL.
int circulant_op_create(circulant_op_function function, int commutes, void *context, circulant_op *op);

// Gives an operator up, and sets `*op` to null. Calls that it was given to keep what they need of it, but
// for its context, which must last as long as they do.
//
// Errors: CIRCULANT_ERR_NULL, CIRCULANT_ERR_HANDLE (also of the library's own operators).
int circulant_op_free(circulant_op *op);

// Sends the root's `count` elements to all ranks.
//
// n - 1 + ceil(log2 p) rounds for n blocks, which is the least possible. `count`, `type` and `root` are the same on
// all ranks.
int circulant_broadcast(void *buffer,
                        size_t count,
                        circulant_type type,
                        int root,
                        circulant_comm comm);

// Starts circulant_broadcast in the background: as that, but the memory is in use until `*request` has been
// waited for.
int circulant_broadcast_start(void *buffer,
                              size_t count,
                              circulant_type type,
                              int root,
                              circulant_comm comm,
                              circulant_request *request);

// Prepares circulant_broadcast, for circulant_start any number of times: as that, but the memory must last
// until `*request` is freed, and is in use from each start until its wait.
int circulant_broadcast_prepare(void *buffer,
                                size_t count,
                                circulant_type type,
                                int root,
                                circulant_comm comm,
                                circulant_request *request);

// Combines all ranks' `input`, element by element, into the root's `output`.
//
// `output` is not looked at elsewhere. CIRCULANT_IN_PLACE as the root's `input`: it is in `output`.
int circulant_reduce(const void *input,
                     void *output,
                     size_t count,
                     circulant_type type,
                     circulant_op op,
                     int root,
                     circulant_comm comm);

// Starts circulant_reduce in the background: as that, but the memory is in use until `*request` has been
// waited for.
int circulant_reduce_start(const void *input,
                           void *output,
                           size_t count,
                           circulant_type type,
                           circulant_op op,
                           int root,
                           circulant_comm comm,
                           circulant_request *request);

// Prepares circulant_reduce, for circulant_start any number of times: as that, but the memory must last
// until `*request` is freed, and is in use from each start until its wait.
int circulant_reduce_prepare(const void *input,
                             void *output,
                             size_t count,
                             circulant_type type,
                             circulant_op op,
                             int root,
                             circulant_comm comm,
                             circulant_request *request);

// Combines all ranks' `input`, element by element, into everybody's `output`: bit for bit the same on all.
//
// CIRCULANT_IN_PLACE as `input`: it is in `output`, and each rank may choose that for itself.
int circulant_allreduce(const void *input,
                        void *output,
                        size_t count,
                        circulant_type type,
                        circulant_op op,
                        circulant_comm comm);

// Starts circulant_allreduce in the background: as that, but the memory is in use until `*request` has been
// waited for.
int circulant_allreduce_start(const void *input,
                              void *output,
                              size_t count,
                              circulant_type type,
                              circulant_op op,
                              circulant_comm comm,
                              circulant_request *request);

// Prepares circulant_allreduce, for circulant_start any number of times: as that, but the memory must last
// until `*request` is freed, and is in use from each start until its wait.
int circulant_allreduce_prepare(const void *input,
                                void *output,
                                size_t count,
                                circulant_type type,
                                circulant_op op,
                                circulant_comm comm,
                                circulant_request *request);

// Waits until all ranks have called it. ceil(log2 p) rounds; twice as many, and fewer messages, where ranks share cores.
int circulant_barrier(circulant_comm comm);

// Starts circulant_barrier in the background: `*request` is done when all ranks have started it.
int circulant_barrier_start(circulant_comm comm, circulant_request *request);

// Prepares circulant_barrier, for circulant_start any number of times.
int circulant_barrier_prepare(circulant_comm comm, circulant_request *request);

// Gathers every rank's `count` elements into everybody's `output`, in rank order: `count` times the number of ranks.
//
// CIRCULANT_IN_PLACE as `input`: it is in its place in `output`.
int circulant_allgather(const void *input,
                        void *output,
                        size_t count,
                        circulant_type type,
                        circulant_comm comm);

// Starts circulant_allgather in the background: as that, but the memory is in use until `*request` has been
// waited for.
int circulant_allgather_start(const void *input,
                              void *output,
                              size_t count,
                              circulant_type type,
                              circulant_comm comm,
                              circulant_request *request);

// Prepares circulant_allgather, for circulant_start any number of times: as that, but the memory must last
// until `*request` is freed, and is in use from each start until its wait.
int circulant_allgather_prepare(const void *input,
                                void *output,
                                size_t count,
                                circulant_type type,
                                circulant_comm comm,
                                circulant_request *request);

// Gathers every rank's part into everybody's `output`: rank r's has `counts[r]` elements, and begins at element
// `places[r]` of `output`; with `places` null they lie one after the other.
//
// `counts` are the same on all ranks. CIRCULANT_IN_PLACE as `input`: it is in its place in `output`.
int circulant_allgatherv(const void *input,
                         void *output,
                         const size_t *counts,
                         const size_t *places,
                         circulant_type type,
                         circulant_comm comm);

// Starts circulant_allgatherv in the background: as that, but the memory is in use until `*request` has been
// waited for.
int circulant_allgatherv_start(const void *input,
                               void *output,
                               const size_t *counts,
                               const size_t *places,
                               circulant_type type,
                               circulant_comm comm,
                               circulant_request *request);

// Prepares circulant_allgatherv, for circulant_start any number of times: as that, but the memory must last
// until `*request` is freed, and is in use from each start until its wait.
int circulant_allgatherv_prepare(const void *input,
                                 void *output,
                                 const size_t *counts,
                                 const size_t *places,
                                 circulant_type type,
                                 circulant_comm comm,
                                 circulant_request *request);

// Gathers every rank's `count` elements into the root's `output`, in rank order: `count` times the number of ranks.
//
// `output` is not looked at elsewhere. CIRCULANT_IN_PLACE as the root's `input`: it is in its place in `output`.
int circulant_gather(const void *input,
                     void *output,
                     size_t count,
                     circulant_type type,
                     int root,
                     circulant_comm comm);

// Starts circulant_gather in the background: as that, but the memory is in use until `*request` has been
// waited for.
int circulant_gather_start(const void *input,
                           void *output,
                           size_t count,
                           circulant_type type,
                           int root,
                           circulant_comm comm,
                           circulant_request *request);

// Prepares circulant_gather, for circulant_start any number of times: as that, but the memory must last
// until `*request` is freed, and is in use from each start until its wait.
int circulant_gather_prepare(const void *input,
                             void *output,
                             size_t count,
                             circulant_type type,
                             int root,
                             circulant_comm comm,
                             circulant_request *request);

// Gathers every rank's part into the root's `output`: rank r's has `counts[r]` elements, and begins at element
// `places[r]` of `output`; with `places` null they lie one after the other.
//
// `counts` are the same on all ranks, unlike MPI's; `output` and `places` are not looked at elsewhere than at the
// root. CIRCULANT_IN_PLACE as the root's `input`: it is in its place in `output`.
int circulant_gatherv(const void *input,
                      void *output,
                      const size_t *counts,
                      const size_t *places,
                      circulant_type type,
                      int root,
                      circulant_comm comm);

// Starts circulant_gatherv in the background: as that, but the memory is in use until `*request` has been
// waited for.
int circulant_gatherv_start(const void *input,
                            void *output,
                            const size_t *counts,
                            const size_t *places,
                            circulant_type type,
                            int root,
                            circulant_comm comm,
                            circulant_request *request);

// Prepares circulant_gatherv, for circulant_start any number of times: as that, but the memory must last
// until `*request` is freed, and is in use from each start until its wait.
int circulant_gatherv_prepare(const void *input,
                              void *output,
                              const size_t *counts,
                              const size_t *places,
                              circulant_type type,
                              int root,
                              circulant_comm comm,
                              circulant_request *request);

// Combines all ranks' `input`, element by element; rank r gets the `counts[r]` elements that are its part in
// `output`.
//
// Parts lie one after the other; `counts` are the same on all ranks. CIRCULANT_IN_PLACE as `input`, on all ranks: it is
// in `output`, which is as long then; the part comes to its front, and the rest is used up.
int circulant_reduce_scatter(const void *input,
                             void *output,
                             const size_t *counts,
                             circulant_type type,
                             circulant_op op,
                             circulant_comm comm);

// Starts circulant_reduce_scatter in the background: as that, but the memory is in use until `*request` has been
// waited for.
int circulant_reduce_scatter_start(const void *input,
                                   void *output,
                                   const size_t *counts,
                                   circulant_type type,
                                   circulant_op op,
                                   circulant_comm comm,
                                   circulant_request *request);

// Prepares circulant_reduce_scatter, for circulant_start any number of times: as that, but the memory must last
// until `*request` is freed, and is in use from each start until its wait.
int circulant_reduce_scatter_prepare(const void *input,
                                     void *output,
                                     const size_t *counts,
                                     circulant_type type,
                                     circulant_op op,
                                     circulant_comm comm,
                                     circulant_request *request);

// Combines all ranks' `input`, of `count` elements for each rank; rank r gets the r-th of these parts in `output`.
//
// CIRCULANT_IN_PLACE as `input`, on all ranks: it is in `output`, which is as long then; the part comes to its
// front, and the rest is used up.
int circulant_reduce_scatter_block(const void *input,
                                   void *output,
                                   size_t count,
                                   circulant_type type,
                                   circulant_op op,
                                   circulant_comm comm);

// Starts circulant_reduce_scatter_block in the background: as that, but the memory is in use until `*request` has been
// waited for.
int circulant_reduce_scatter_block_start(const void *input,
                                         void *output,
                                         size_t count,
                                         circulant_type type,
                                         circulant_op op,
                                         circulant_comm comm,
                                         circulant_request *request);

// Prepares circulant_reduce_scatter_block, for circulant_start any number of times: as that, but the memory must last
// until `*request` is freed, and is in use from each start until its wait.
int circulant_reduce_scatter_block_prepare(const void *input,
                                           void *output,
                                           size_t count,
                                           circulant_type type,
                                           circulant_op op,
                                           circulant_comm comm,
                                           circulant_request *request);

// Sends each rank its `count` elements of the root's `input`, which has `count` times the number of ranks.
//
// `input` is not looked at elsewhere. CIRCULANT_IN_PLACE as the root's `output`: its part stays where it is.
int circulant_scatter(const void *input,
                      void *output,
                      size_t count,
                      circulant_type type,
                      int root,
                      circulant_comm comm);

// Starts circulant_scatter in the background: as that, but the memory is in use until `*request` has been
// waited for.
int circulant_scatter_start(const void *input,
                            void *output,
                            size_t count,
                            circulant_type type,
                            int root,
                            circulant_comm comm,
                            circulant_request *request);

// Prepares circulant_scatter, for circulant_start any number of times: as that, but the memory must last
// until `*request` is freed, and is in use from each start until its wait.
int circulant_scatter_prepare(const void *input,
                              void *output,
                              size_t count,
                              circulant_type type,
                              int root,
                              circulant_comm comm,
                              circulant_request *request);

// Sends each rank its part of the root's `input`: rank r's has `counts[r]` elements, and begins at element
// `places[r]` of `input`; with `places` null they lie one after the other.
//
// `counts` are the same on all ranks, unlike MPI's; `input` and `places` are not looked at elsewhere than at the
// root. CIRCULANT_IN_PLACE as the root's `output`: its part stays where it is.
int circulant_scatterv(const void *input,
                       const size_t *counts,
                       const size_t *places,
                       void *output,
                       circulant_type type,
                       int root,
                       circulant_comm comm);

// Starts circulant_scatterv in the background: as that, but the memory is in use until `*request` has been
// waited for.
int circulant_scatterv_start(const void *input,
                             const size_t *counts,
                             const size_t *places,
                             void *output,
                             circulant_type type,
                             int root,
                             circulant_comm comm,
                             circulant_request *request);

// Prepares circulant_scatterv, for circulant_start any number of times: as that, but the memory must last
// until `*request` is freed, and is in use from each start until its wait.
int circulant_scatterv_prepare(const void *input,
                               const size_t *counts,
                               const size_t *places,
                               void *output,
                               circulant_type type,
                               int root,
                               circulant_comm comm,
                               circulant_request *request);

// From every rank `count` elements for every rank: part t of rank s's `input` becomes part s of rank t's `output`.
//
// Both have `count` times the number of ranks. CIRCULANT_IN_PLACE as `input`, on all ranks: it is in `output`.
int circulant_alltoall(const void *input,
                       void *output,
                       size_t count,
                       circulant_type type,
                       circulant_comm comm);

// Starts circulant_alltoall in the background: as that, but the memory is in use until `*request` has been
// waited for.
int circulant_alltoall_start(const void *input,
                             void *output,
                             size_t count,
                             circulant_type type,
                             circulant_comm comm,
                             circulant_request *request);

// Prepares circulant_alltoall, for circulant_start any number of times: as that, but the memory must last
// until `*request` is freed, and is in use from each start until its wait.
int circulant_alltoall_prepare(const void *input,
                               void *output,
                               size_t count,
                               circulant_type type,
                               circulant_comm comm,
                               circulant_request *request);

// From every rank a part for every rank: `sent[r]` elements, from element `sent_places[r]` of `input` on, go to rank
// r, and `received[r]` come from it, to element `received_places[r]` of `output` on. Places that are null: parts lie
// one after the other.
//
// What rank s sends to rank t is as much as t receives from s; nobody need send anything to anybody. CIRCULANT_IN_PLACE
// as `input`, on all ranks: it is in `output`, in its places; `sent` and `sent_places` are not looked at then.
int circulant_alltoallv(const void *input,
                        const size_t *sent,
                        const size_t *sent_places,
                        void *output,
                        const size_t *received,
                        const size_t *received_places,
                        circulant_type type,
                        circulant_comm comm);

// Starts circulant_alltoallv in the background: as that, but the memory is in use until `*request` has been
// waited for.
int circulant_alltoallv_start(const void *input,
                              const size_t *sent,
                              const size_t *sent_places,
                              void *output,
                              const size_t *received,
                              const size_t *received_places,
                              circulant_type type,
                              circulant_comm comm,
                              circulant_request *request);

// Prepares circulant_alltoallv, for circulant_start any number of times: as that, but the memory must last
// until `*request` is freed, and is in use from each start until its wait.
int circulant_alltoallv_prepare(const void *input,
                                const size_t *sent,
                                const size_t *sent_places,
                                void *output,
                                const size_t *received,
                                const size_t *received_places,
                                circulant_type type,
                                circulant_comm comm,
                                circulant_request *request);

// Starts a prepared call (again). Every rank of its communicator starts it, equally often and in the same
// order as its other calls.
//
// Errors: CIRCULANT_ERR_ARGUMENT for one that runs, or that was not prepared; CIRCULANT_ERR_HANDLE,
// CIRCULANT_ERR_NULL; and those of the call.
int circulant_start(circulant_request request);

// Makes progress, and says whether a call is done: 1 or 0 in `*done`. Never waits; 0 while another thread waits.
//
// A started call that is done is given up, and `*request` set to null; a prepared one is kept.
//
// Errors: those of the call; CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
int circulant_test(circulant_request *request,
                   int *done);

// Waits until a call is done. A started call is then given up, and `*request` set to null; a prepared one is
// kept, and one that does not run is done.
//
// Errors: those of the call; CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
int circulant_wait(circulant_request *request);

// Waits until all of `count` calls are done, as circulant_wait does; entries that are null are passed over.
//
// Errors: that of the first call that has one, after all have been waited for.
int circulant_wait_all(size_t count, circulant_request *requests);

// Gives a request up, and sets `*request` to null. Waits for a call that runs, as its memory is the caller's,
// also where another thread waits for it: that one gets the call's outcome.
//
// Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
int circulant_request_free(circulant_request *request);

// Gives memory of `bytes` zeroed bytes, aligned to a page, for calls on communicators of the same world.
//
// A long call is quicker where its memory begins at a window's beginning: it is registered already, and ranks of
// one node reach it directly, while other memory, a window's later bytes too, is registered for each long call.
//
// Local. `*address` is where it is; 0 bytes have an address too, and nothing there.
//
// Errors: CIRCULANT_ERR_TRANSPORT where there is no memory; CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
int circulant_window_alloc(circulant_comm comm,
                           size_t bytes,
                           void **address,
                           circulant_window *window);

// Where a window is, and how many bytes it has; either may be null.
//
// Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
int circulant_window_address(circulant_window window, void **address, size_t *bytes);

// Gives a window's memory back, and sets `*window` to null. Where requests use it, it stays until they are
// done or freed.
//
// Local. Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
int circulant_window_free(circulant_window *window);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CIRCULANT_H */
