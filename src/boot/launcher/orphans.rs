//! What ranks left behind: processes that outlived the rank that started them.
//!
//! It never looks for them by name or group. The launcher makes itself their reaper, so the kernel hands
//! it every orphan among its descendants, also those that made a group or session of their own
//! (`timeout`, `setsid`). What was its child before, as that of a shell that became the launcher, is not of the job; what such
//! a child leaves behind while the job runs cannot be told from what is.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use rustix::io::Result;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};

/// How often one looks whether they are gone.
const LOOK: Duration = Duration::from_millis(5);
/// How long after a child has ended one looks whether it was an orphan, as that takes a look at all processes.
const REAP: Duration = Duration::from_secs(1);
/// How long one looks after SIGKILL.
const LAST_LOOKS: Duration = Duration::from_secs(2);

/// Orphans among this process's descendants become its children, until this is dropped.
pub(super) struct Orphans {
    /// Children that were there before. Nobody reaps them, so that their numbers stay theirs.
    others: HashSet<Pid>,
    /// When one looks for those that have ended, as one may have.
    look_at: Option<Instant>,
}

impl Orphans {
    pub(super) fn adopt() -> Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Orphans { others: children().collect(), look_at: None })
    }

    /// A child has ended, perhaps one of them.
    pub(super) fn may_have_ended(&mut self) {
        self.look_at.get_or_insert_with(|| Instant::now() + REAP);
    }

    /// When one looks for those that have ended, if one has to.
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// When it is time, takes leave of those that have ended: in a long job there may be more of them than there may be processes.
    pub(super) fn reap(&mut self, is_a_rank: impl Fn(Pid) -> bool) {
        if self.look_at.take_if(|at| *at <= Instant::now()).is_some() {
            for child in self.children().filter(|&child| !is_a_rank(child)) {
                let _ = waitpid(Some(child), WaitOptions::NOHANG);
            }
        }
    }

    fn children(&self) -> impl Iterator<Item = Pid> {
        children().filter(|child| !self.others.contains(child))
    }

    /// Ends all children of this process since then: SIGTERM, and after `grace` SIGKILL. The orphans of those become
    /// children in turn, so one looks until there is none, or, as some cannot be ended by us, for some time longer: then they are
    /// what is given.
    ///
    /// Their time is over, too, when somebody `is_impatient`.
    pub(super) fn end_all(&self, grace: Duration, mut is_impatient: impl FnMut() -> bool) -> Vec<Pid> {
        let mut patience = Instant::now() + grace;
        let mut asked = HashSet::new();
        loop {
            let children: Vec<_> = self.children().collect();
            if children.is_empty() || Instant::now() > patience + LAST_LOOKS {
                return children;
            }
            if is_impatient() {
                patience = patience.min(Instant::now());
            }
            for child in children {
                if Instant::now() > patience {
                    let _ = kill_process(child, Signal::KILL);
                } else if asked.insert(child) {
                    let _ = kill_process(child, Signal::TERM);
                }
                let _ = waitpid(Some(child), WaitOptions::NOHANG);
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Orphans go where they went before. What cannot be undone does no harm.
impl Drop for Orphans {
    fn drop(&mut self) {
        let _ = set_child_subreaper(None);
    }
}

/// Whether nobody would let this process go on if it stopped: no process of its group has a parent in another group of the session,
/// as a shell is that controls jobs. The kernel then stops none by a signal of the terminal.
pub(super) fn is_group_orphaned() -> bool {
    let Some([_, group, session]) = kinship(getpid()) else { return true };
    let is_watched = |pid: Pid| {
        let member = kinship(pid).filter(|&[_, its_group, _]| its_group == group);
        let parent = member.and_then(|[parent, ..]| kinship(Pid::from_raw(parent)?));
        parent.is_some_and(|[_, above, its_session]| above != group && its_session == session)
    };
    !processes().any(is_watched)
}

/// The children of this process, from the processes that the system lists.
fn children() -> impl Iterator<Item = Pid> {
    let own = getpid().as_raw_nonzero().get();
    processes().filter(move |&pid| kinship(pid).is_some_and(|[parent, ..]| parent == own))
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw)
}

/// Parent, group and session of a process: the fields from the second on after the name, which is in brackets and may hold
/// anything.
fn kinship(pid: Pid) -> Option<[i32; 3]> {
    let text = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let text = String::from_utf8_lossy(&text);
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace().skip(1);
    let mut next = || fields.next()?.parse().ok();
    Some([next()?, next()?, next()?])
}
