//! Whether calls do what they should: with new data in every iteration, into memory that is all wrong before.
//!
//! It never trusts one rank: a complaint of any is an error on all (see `agreement`).

use std::thread::sleep;
use std::time::Duration;

use circulant::collective::Collective;
use circulant::comm::{Call, Communicator};
use circulant::error::{Error, Result};
use circulant::fold::Max;

use super::caller::Caller;
use super::subject::Subject;
use crate::Failure;
use crate::bench::agreement::agreed;
use crate::bench::timing::nanoseconds;

/// How often.
const ITERATIONS: u32 = 3;

/// Fails on every rank where any rank has got something else than what is right.
pub fn check(
    comm: &Communicator,
    subject: &Subject,
    caller: &mut Caller,
) -> std::result::Result<(), Failure> {
    let mut complaint = None;
    for iteration in 0..ITERATIONS {
        let wrong = match subject.collective {
            Collective::Barrier => left_early(comm, subject, caller, iteration)?,
            _ => wrong_element(comm, subject, caller, iteration)?,
        };
        complaint = complaint.or(wrong);
    }
    agreed(comm, complaint.map_or(Ok(()), |what| Err(wrong(comm, &what))))
}

fn wrong(comm: &Communicator, what: &str) -> Error {
    let cure = "report this with the output of `circulant info`";
    Error::transport("check", format!("rank {}: {what}", comm.rank()), cure)
}

fn wrong_element(
    comm: &Communicator,
    subject: &Subject,
    caller: &mut Caller,
    iteration: u32,
) -> Result<Option<String>> {
    caller.refill(subject, iteration)?;
    comm.barrier()?;
    caller.call(comm, subject, None)?;
    let got = caller.output(subject)?;
    let mut places = subject.output().zip(got).map(|(at, &got)| (at, got, subject.right(iteration, at)));
    let wrong = places.find(|(_, got, right)| got != right);
    Ok(wrong.map(|(at, got, right)| {
        format!("element {at} of {} is {got:#010x} in place of {right:#010x}", subject.len())
    }))
}

/// How much later than the others one rank comes.
const LATE: Duration = Duration::from_millis(2);

/// Nobody leaves a barrier before the last has come, by the clock that all ranks of a machine share.
fn left_early(
    comm: &Communicator,
    subject: &Subject,
    caller: &mut Caller,
    iteration: u32,
) -> Result<Option<String>> {
    if comm.rank() == iteration % comm.size() {
        sleep(LATE);
    }
    let mut last = [nanoseconds()];
    caller.call(comm, subject, None)?;
    let left = nanoseconds();
    comm.run(&mut last, Call::allreduce(Max))?;
    let early = last[0] - left;
    Ok((early > 0).then(|| format!("it left the barrier {early} ns before the last rank came")))
}

#[cfg(test)]
mod tests {
    use circulant::rank::Place;

    use super::super::caller::{Memory, Tense};
    use super::super::subject::Kind;
    use super::*;

    /// What ranks of one process say of a check.
    fn on_ranks(
        p: u32,
        run: impl Fn(&Communicator) -> std::result::Result<(), Failure> + Sync,
    ) -> Vec<String> {
        let said = |done: std::result::Result<(), Failure>| {
            done.err().map(|error| error.to_string()).unwrap_or_default()
        };
        std::thread::scope(|threads| {
            let comms = Communicator::loopback(p, 7).unwrap();
            let ranks: Vec<_> =
                comms.into_iter().map(|comm| threads.spawn(|| said(run(&{ comm })))).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn what_ranks_fail_in_is_an_error_on_all_and_told_by_one() {
        let failed = |comm: &Communicator| if comm.rank() == 0 { Ok(()) } else { Err(wrong(comm, "so")) };
        let said = on_ranks(3, |comm| agreed(comm, failed(comm)));
        assert!(said[1].contains("rank 1: so"), "{said:?}");
        assert!([0, 2].iter().all(|&rank| said[rank] == "another rank tells what went wrong"), "{said:?}");
        let said = on_ranks(3, |comm| agreed(comm, Ok(())));
        assert_eq!(said, ["", "", ""]);
    }

    #[test]
    fn a_wrong_element_is_found() {
        // What is called gathers, where what is expected is a sum.
        let said = on_ranks(3, |comm| {
            let place = Place { rank: comm.rank(), size: comm.size() };
            let of = |collective| Subject::new(collective, Kind::Regular, place, 0, 24);
            let (sum, other) = (of(Collective::Allreduce), of(Collective::Allgather));
            let memory = Memory::new(comm, Tense::Slice, &sum)?;
            let mut caller = Caller::new(comm, Tense::Slice, memory, other.call().unwrap())?;
            check(comm, &sum, &mut caller)
        });
        assert!(said[0].contains("rank 0: element 0 of 6 is"), "{said:?}");
        assert!(said.iter().all(|said| !said.is_empty()), "{said:?}");
    }
}
