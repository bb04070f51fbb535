//! Watches over a wait: hears what the lifeline knows, and says after a while what is waited for.
//!
//! Without it a rank that waits for a dead one waits for ever. A wait that lasts [`ASK_AFTER`] asks the
//! rank that must act what it is doing, and later again: two ranks in different calls of one number disagree, and get an
//! error. A wait that lasts longer is told on the standard error, with round, block, peer and whoever
//! the peer waits for by then; a deadline, where the user has set one, ends it.
#![forbid(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::call::Call;
use super::run::Awaits;
use crate::error::{self, Error, Result};
use crate::lifeline::Lifeline;
use crate::lifeline::kin::Kin;
use crate::lifeline::news::Answer;
use crate::lifeline::status::{Awaited, Awaiting, Status};
use crate::plan::{Blocks, Leg};
use crate::rank::Rank;

/// A wait of this length stands still, and is announced to peers that ask.
const ANNOUNCE_AFTER: Duration = Duration::from_millis(1);
/// A wait of this length is not normal any more.
pub const ASK_AFTER: Duration = Duration::from_secs(1);
/// Then it asks whenever the wait has doubled, and so often at least.
const ASK_EVERY: Duration = Duration::from_secs(30);
/// How long an answer may take before it is used as far as it came.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// What one look adds to a wait, at most: a rank that is suspended, or does something else, does not wait meanwhile.
const LOOK: Duration = Duration::from_secs(1);

/// When a long wait is told, and when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A wait is told after this time, and again whenever it has doubled; `None`: never.
    pub tell: Option<Duration>,
    /// A wait ends in an error after this time; `None`: never.
    pub end: Option<Duration>,
}

/// A rank's watch over its waits.
pub struct Vigil {
    lifeline: Option<Lifeline>,
    /// Where ranks are threads of one process, in place of a lifeline.
    kin: Option<Kin>,
    status: Arc<Status>,
    limits: Limits,
}

/// A wait for an operation, since something happened to it.
pub struct Wait {
    since: Instant,
    /// When it was looked after last, and how long it had lasted by then.
    looked: Instant,
    lasted: Duration,
    /// For how long of that the program has waited itself, and no attendant in its stead.
    awaited: Duration,
    /// How much had happened to it when it began.
    stirs: u64,
    /// The call's name, once peers that ask are told of it; not at first, as most waits are over in a moment. Then
    /// until its end, as it takes a while to put in words.
    entered: Option<u64>,
    /// They are told what it waits for, too.
    announced: bool,
    question: Option<Question>,
    ask_at: Duration,
    tell_at: Option<Duration>,
}

/// What was asked last.
struct Question {
    /// Its number, where there is somebody to ask.
    id: Option<u32>,
    at: Instant,
    /// Whether it is asked to tell of a wait, or to end one.
    due: bool,
}

/// What a wait is for, in words that peers understand.
pub struct Waiting {
    /// The call.
    pub call: Call,
    /// How many rounds it has.
    pub rounds: u32,
    /// What it waits for.
    pub awaits: Option<Awaits>,
}

impl Wait {
    fn new(now: Instant, stirs: u64, entered: Option<u64>, tell_at: Option<Duration>) -> Self {
        Wait {
            since: now,
            looked: now,
            lasted: Duration::ZERO,
            awaited: Duration::ZERO,
            stirs,
            entered,
            announced: false,
            question: None,
            ask_at: ASK_AFTER,
            tell_at,
        }
    }

    fn look(&mut self, now: Instant, awaited: bool) {
        let since = (now - self.looked).min(LOOK);
        self.lasted += since;
        self.awaited += if awaited { since } else { Duration::ZERO };
        self.looked = now;
    }

    /// Whether nothing has happened to the operation for a while, to which so much has happened by now.
    pub fn stands(&self, stirs: u64) -> bool {
        self.stirs == stirs && self.since.elapsed() >= ANNOUNCE_AFTER
    }
}

impl Vigil {
    /// A watch with a lifeline, or without (a rank that is alone).
    pub fn new(lifeline: Option<Lifeline>, status: Arc<Status>, limits: Limits) -> Self {
        Vigil { lifeline, kin: None, status, limits }
    }

    /// One over a rank among threads, which says nothing of long waits.
    pub fn among(kin: Kin) -> Self {
        let limits = Limits { tell: None, end: None };
        Vigil { lifeline: None, kin: Some(kin), status: Arc::default(), limits }
    }

    /// Readable when there is news.
    pub fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.lifeline.as_ref().map(Lifeline::wake).or_else(|| self.kin.as_ref().map(Kin::wake))
    }

    /// Fails where another rank is lost or gave up. One atomic load while there is no news.
    pub fn check(&self) -> Result<()> {
        let news = match (&self.lifeline, &self.kin) {
            (Some(lifeline), _) => lifeline.news(),
            (None, Some(kin)) => kin.news(),
            (None, None) => None,
        };
        news.map_or(Ok(()), |news| Err(news.into()))
    }

    /// A call is made, or started again; peers that ask this rank between two calls are told how many there were, of its
    /// own and of the library's, on all communicators.
    #[inline]
    pub fn makes_one(&self) {
        self.status.makes_one();
    }

    /// Counts them anew.
    pub fn begin(&self) {
        self.status.begin();
    }

    /// What others are told of this rank.
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// How many were made.
    #[cfg(test)]
    pub fn calls_made(&self) -> u64 {
        self.status.calls_made()
    }

    /// The wait, if any, is over.
    pub fn rest(&mut self, wait: &mut Option<Wait>) {
        if let Some(name) = wait.take().and_then(|wait| wait.entered) {
            self.status.leave(name);
        }
    }

    /// A wait that was told of is looked after, by whoever carries all calls on.
    pub fn attends(&self, wait: &Option<Wait>) {
        if let Some(name) = wait.as_ref().and_then(|wait| wait.entered) {
            self.status.sees(name, true);
        }
    }

    /// Nothing is waited for any more.
    pub fn rest_all(&mut self) {
        self.status.leave_all();
    }

    /// Looks after a wait for an operation to which so much has happened: to be called before each sleep, and
    /// wherever one waits otherwise. Where it is not `awaited`, as the program does something else, it is not told however long
    /// it lasts, and no error.
    pub fn watch(
        &mut self,
        awaited: bool,
        watched: &mut Option<Wait>,
        stirs: u64,
        waiting: impl FnOnce() -> Waiting,
    ) -> Result<()> {
        self.check()?;
        let (now, tell_at) = (Instant::now(), self.limits.tell);
        let wait = watched.get_or_insert_with(|| Wait::new(now, stirs, None, tell_at));
        wait.look(now, awaited);
        if let Some(name) = wait.entered {
            self.status.sees(name, wait.stirs == stirs);
        }
        if wait.stirs != stirs {
            *wait = Wait::new(now, stirs, wait.entered, tell_at);
        }
        if wait.lasted < ANNOUNCE_AFTER {
            return Ok(());
        }
        if !std::mem::replace(&mut wait.announced, true) {
            wait.entered = Some(self.announce(&waiting()));
            return Ok(());
        }
        let reached = |at: Option<Duration>| awaited && at.is_some_and(|at| wait.awaited >= at);
        let (tells, ends) = (reached(wait.tell_at), reached(self.limits.end));
        if wait.lasted < ASK_AFTER && !tells && !ends {
            return Ok(());
        }
        let waiting = waiting();
        let Some(answer) = self.inquire(wait, now, tells || ends, &waiting)? else { return Ok(()) };
        let report = report(&waiting, wait.awaited, answer.as_ref());
        if ends {
            return Err(Error::Stalled(report));
        }
        wait.tell_at = Some(wait.awaited * 2);
        error::tell(report);
        Ok(())
    }

    /// Asks whoever must act, or hears what has been answered. Where something is `due` to be told it is asked anew for that,
    /// and what is known is given back once it is complete, or has taken too long.
    fn inquire(
        &self,
        wait: &mut Wait,
        now: Instant,
        due: bool,
        waiting: &Waiting,
    ) -> Result<Option<Option<Answer>>> {
        let (lasted, ask_at) = (wait.lasted, wait.ask_at);
        let Some(asked) = wait.question.take_if(|asked| if due { asked.due } else { lasted < ask_at }) else {
            wait.ask_at = lasted + lasted.clamp(ASK_AFTER, ASK_EVERY);
            wait.question = Some(Question { id: self.ask(waiting), at: now, due });
            return Ok(None);
        };
        let answer = self.answer(&asked, waiting)?;
        let complete = answer.as_ref().is_none_or(|answer| answer.complete) || now - asked.at > ANSWER_WITHIN;
        if due && complete {
            return Ok(Some(answer));
        }
        wait.question = Some(asked);
        Ok(None)
    }

    /// Tells all other ranks of an error; without effect where it came from them, as all have those news already. That a rank is
    /// lost may be this one's news, too: where the network between two fails, and nothing else.
    pub fn abort(&self, error: &Error) {
        self.lifeline.iter().for_each(|lifeline| lifeline.abort(&error.to_string()));
        self.kin.iter().for_each(|kin| kin.abort(&error.to_string()));
    }

    /// After an error of the transport: the lifeline's news, if it has some within a moment, say better
    /// what happened, as a peer's end is first seen as a broken connection.
    pub fn explain(&self, error: Error) -> Error {
        if !matches!(error, Error::Transport { .. } | Error::Lost { .. }) || self.lifeline.is_none() {
            return error;
        }
        let until = Instant::now() + Duration::from_millis(500);
        while Instant::now() < until {
            if let Err(news) = self.check() {
                return news;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        error
    }

    /// Says goodbye.
    pub fn farewell(&self) {
        self.lifeline.iter().for_each(Lifeline::farewell);
    }

    /// Whether all neighbours have said goodbye.
    pub fn all_left(&self) -> bool {
        self.lifeline.as_ref().is_none_or(Lifeline::all_left)
    }

    /// Leaves in good order.
    pub fn leave(&mut self) {
        if let Some(lifeline) = self.lifeline.take() {
            lifeline.leave();
        }
    }

    /// Has peers that ask told of a call, and what it waits for; the call's name.
    fn announce(&self, waiting: &Waiting) -> u64 {
        let name = waiting.call.name();
        self.status.waits(name, || waiting.call.signature.to_string(), waiting.awaited());
        name
    }

    fn ask(&self, waiting: &Waiting) -> Option<u32> {
        // Peers are told of what is waited for by now.
        self.announce(waiting);
        let (lifeline, awaited) = self.lifeline.as_ref().zip(waiting.awaited())?;
        lifeline.ask(awaited.peer, waiting.call.communicator)
    }

    /// What is known of a question; an error where that is a call that does not go with this one.
    fn answer(&self, asked: &Question, waiting: &Waiting) -> Result<Option<Answer>> {
        let Some((lifeline, id)) = self.lifeline.as_ref().zip(asked.id) else { return Ok(None) };
        let answer = lifeline.answer(id);
        if let Some(answer) = &answer {
            agree(lifeline.rank(), waiting, answer)?;
        }
        Ok(answer)
    }
}

fn report(waiting: &Waiting, lasted: Duration, answer: Option<&Answer>) -> String {
    let said = answer.map_or(String::new(), |answer| format!("; {}", answer.text));
    format!("{waiting} for {} s{said}", lasted.as_secs())
}

/// Whether the peer is in another call of the same communicator and number. What it does on others is no concern of this call.
fn agree(rank: Rank, waiting: &Waiting, answer: &Answer) -> Result<()> {
    let mine = waiting.call.signature.to_string();
    match &answer.call {
        Some((name, theirs)) if *name == waiting.call.name() && *theirs != mine => Err(Error::Disagreement {
            number: waiting.call.number.into(),
            rank,
            mine,
            peer: answer.rank,
            theirs: theirs.clone(),
        }),
        _ => Ok(()),
    }
}

impl Waiting {
    /// In the lifeline's terms; `None` where no peer is waited for.
    fn awaited(&self) -> Option<Awaited> {
        let (leg, round, what) = match self.awaits? {
            Awaits::Arrival { round, from } => (from, round, Awaiting::Block(block(from))),
            Awaits::Target { round, to } => (to, round, Awaiting::Readiness),
            Awaits::Sent { .. } => return None,
        };
        Some(Awaited { peer: leg.peer, what, round, rounds: self.rounds })
    }

    /// Whom it waits for.
    pub fn peer(&self) -> Option<Rank> {
        self.awaited().map(|awaited| awaited.peer)
    }
}

fn block(leg: Leg) -> u32 {
    match leg.blocks {
        Blocks::One(block) | Blocks::Run { first: block, .. } => block,
        Blocks::Nothing | Blocks::Many => 0,
    }
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Waiting { call, rounds, awaits } = self;
        write!(f, "{} #{}: waits for ", call.signature, call.number)?;
        match awaits {
            Some(Awaits::Arrival { round, from: Leg { peer, blocks: Blocks::One(block) } }) => {
                write!(f, "block {block} from rank {peer} (round {round} of {rounds})")
            }
            Some(Awaits::Arrival { round, from }) => {
                write!(f, "word from rank {} (round {round} of {rounds})", from.peer)
            }
            Some(Awaits::Target { round, to }) => {
                write!(f, "rank {} to be ready (round {round} of {rounds})", to.peer)
            }
            Some(Awaits::Sent { puts }) => write!(f, "{puts} puts to be sent"),
            None => write!(f, "nothing"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Collective;
    use crate::engine::call::Signature;

    /// A barrier that waits for word from a peer.
    struct Waits {
        number: u32,
        peer: Rank,
        wait: Option<Wait>,
    }

    impl Waits {
        fn new(number: u32, peer: Rank) -> Waits {
            Waits { number, peer, wait: None }
        }

        fn watch(&mut self, vigil: &mut Vigil, stirs: u64) {
            self.looked_after(vigil, stirs).unwrap();
        }

        /// When so much has happened to it.
        fn looked_after(&mut self, vigil: &mut Vigil, stirs: u64) -> Result<()> {
            self.look_after(true, vigil, stirs)
        }

        fn look_after(&mut self, awaited: bool, vigil: &mut Vigil, stirs: u64) -> Result<()> {
            let call = Call {
                communicator: 0,
                number: self.number,
                signature: Signature::bare(Collective::Barrier),
            };
            let from = Leg { peer: self.peer, blocks: Blocks::Nothing };
            let awaits = Some(Awaits::Arrival { round: 0, from });
            vigil.watch(awaited, &mut self.wait, stirs, || Waiting { call, rounds: 1, awaits })
        }

        /// The same of a program that does something else, in so many looks of a second each.
        fn unawaited(&mut self, looks: u32, vigil: &mut Vigil, stirs: u64) {
            for _ in 0..looks {
                self.wait.iter_mut().for_each(|wait| wait.looked -= LOOK);
                self.look_after(false, vigil, stirs).unwrap();
            }
        }

        /// The same when it has lasted for some time.
        fn last(&mut self, vigil: &mut Vigil, stirs: u64) {
            self.watch(vigil, stirs);
            self.wait.as_mut().unwrap().looked -= ANNOUNCE_AFTER;
            self.watch(vigil, stirs);
        }
    }

    /// Neither told, nor an error, and known to who asks; also after a look of the program's, and no longer than it stands.
    #[test]
    fn what_the_program_does_not_wait_for_takes_none_of_its_time() {
        let (mut vigil, said) = vigil();
        vigil.limits.end = Some(5 * LOOK);
        let mut wait = Waits::new(3, 1);
        wait.watch(&mut vigil, 0);
        wait.unawaited(20, &mut vigil, 0);
        assert!(said().contains(&waits_for(3, 1)), "{}", said());
        wait.peer = 2;
        wait.unawaited(3, &mut vigil, 1);
        assert!(said().contains(&waits_for(3, 2)), "{}", said());
        let ended = (0..8).find(|_| {
            wait.wait.as_mut().unwrap().looked -= LOOK;
            wait.looked_after(&mut vigil, 1).is_err()
        });
        assert!(ended.is_some_and(|looks| looks >= 4), "{ended:?}");
    }

    fn vigil() -> (Vigil, impl Fn() -> String) {
        let status = Arc::<Status>::default();
        let vigil = Vigil::new(None, Arc::clone(&status), Limits { tell: None, end: None });
        (vigil, move || status.report(0).sentence(0))
    }

    const IDLE: &str = "rank 0 is alive, in no call (0 made)";

    fn waits_for(number: u32, peer: Rank) -> String {
        format!("rank 0 is alive, in barrier #{number}, waits for block 0 from rank {peer} (round 0 of 1)")
    }

    #[test]
    fn a_call_is_told_of_until_its_wait_is_over_and_what_it_waits_for_until_something_happens() {
        let (mut vigil, said) = vigil();
        let mut waits = Waits::new(5, 2);
        waits.last(&mut vigil, 0);
        assert_eq!(said(), waits_for(5, 2));
        waits.peer = 3;
        waits.watch(&mut vigil, 1);
        assert_eq!(said(), "rank 0 is alive, in barrier #5, waits for nobody");
        waits.last(&mut vigil, 1);
        assert_eq!(said(), waits_for(5, 3));
        vigil.rest(&mut waits.wait);
        assert_eq!(said(), IDLE);
        waits.last(&mut vigil, 1);
        assert_eq!(said(), waits_for(5, 3), "it is started again, by the same name");
        vigil.rest_all();
        assert_eq!(said(), IDLE);
    }

    #[test]
    fn of_two_waits_the_one_that_was_told_of_last_is_and_then_the_other_again() {
        let (mut vigil, said) = vigil();
        let (mut one, mut two) = (Waits::new(5, 1), Waits::new(6, 2));
        one.last(&mut vigil, 0);
        two.last(&mut vigil, 0);
        assert_eq!(said(), waits_for(6, 2));
        one.watch(&mut vigil, 1);
        assert_eq!(said(), waits_for(6, 2), "what happens to one is nothing to the other");
        vigil.rest(&mut two.wait);
        assert_eq!(said(), "rank 0 is alive, in barrier #5, waits for nobody");
        one.last(&mut vigil, 1);
        assert_eq!(said(), waits_for(5, 1));
        vigil.rest(&mut one.wait);
        assert_eq!(said(), IDLE);
    }

    /// The words in which a wait ends that may last so long, and is looked after every so often.
    fn ends(limit: Duration, every: Duration, looks: u32) -> Option<String> {
        let mut vigil = Vigil::new(None, Arc::default(), Limits { tell: None, end: Some(limit) });
        let mut waits = Waits::new(5, 2);
        (0..looks).find_map(|_| {
            let ended = waits.looked_after(&mut vigil, 0);
            waits.wait.as_mut()?.looked -= every;
            ended.err().map(|error| error.to_string())
        })
    }

    #[test]
    fn a_wait_ends_after_its_limit_however_short() {
        let ended = ends(Duration::from_millis(300), Duration::from_millis(100), 6).unwrap();
        assert!(ended.contains("barrier #5: waits for word from rank 2 (round 0 of 1) for 0 s"), "{ended}");
        assert!(ends(Duration::from_millis(300), Duration::from_millis(40), 6).is_none());
    }

    #[test]
    fn a_rank_that_is_suspended_does_not_wait_meanwhile() {
        let hour = Duration::from_secs(3600);
        assert_eq!(ends(Duration::from_secs(30), hour, 20), None);
        assert!(ends(Duration::from_secs(30), hour, 40).unwrap().contains("for 31 s"));
    }

    #[test]
    fn who_is_in_a_call_of_another_communicator_does_not_disagree() {
        let call = |communicator, collective| Call {
            communicator,
            number: 5,
            signature: Signature::bare(collective),
        };
        let waiting = Waiting { call: call(1, Collective::Barrier), rounds: 1, awaits: None };
        let checked = |theirs: Call| {
            let made = Some((theirs.name(), theirs.signature.to_string()));
            agree(0, &waiting, &Answer { id: 0, rank: 2, call: made, text: String::new(), complete: true })
        };
        assert!(checked(call(2, Collective::Finalize)).is_ok());
        assert!(checked(call(1, Collective::Barrier)).is_ok());
        assert!(matches!(checked(call(1, Collective::Finalize)), Err(Error::Disagreement { number: 5, .. })));
    }
}
