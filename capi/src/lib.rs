//! The C ABI: thin over the library, and safe to misuse.
//!
//! | file | concept |
//! |---|---|
//! | `status` | codes and sentences; the door that no panic passes |
//! | `world`, `id` | a process becomes a rank, and ends being one |
//! | `communicator` | ranks, splitting, wishes for algorithms |
//! | `element`, `operator` | types and operators, the library's and the caller's |
//! | `order` | from C's arguments to a call, for all tenses |
//! | `collectives` | the functions, a file a family |
//! | `request` | calls in the background |
//! | `window` | memory of the library's |
//! | `handle`, `memory` | what C holds, and what it gives, checked |
//!
//! What C can be wrong about and we can see is a code: null, handles (never followed, see `handle`), types,
//! counts, versions. What we cannot see is C's promise, and stands in the header: that memory is as large as
//! the counts say, that strings end, that functions do as they are asked.
//!
//! `include/circulant.h` is made of this source by `ci/header`, which so has the last word on what is public.

// In this order they are in the header.
mod status;

mod world;

mod id;

mod communicator;

mod element;

mod operator;

mod collectives;

mod request;

mod window;

mod handle;
mod memory;
mod order;
