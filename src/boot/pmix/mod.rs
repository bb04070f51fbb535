//! PMIx: what Open MPI's launchers and Slurm's `--mpi=pmix` speak with the processes they start, through a library.
//!
//! Its calls wait as long as the library likes, so they are made on a thread of their own, and given up by
//! whoever waits for them. [`search`] tells which library, [`library`] makes its calls, [`layout`] has its structures.

mod layout;
mod library;
mod search;

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::board::Board;
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};
use crate::threads;
use library::Client;
pub(super) use search::VARIABLE;

type Task = Box<dyn FnOnce(&Client) + Send>;

/// A rank's connection with a launcher that speaks PMIx.
pub(super) struct Pmix {
    /// To the thread that makes the calls.
    tasks: Sender<Task>,
    name: String,
    place: Place,
    limit: Duration,
    /// How many times cards were left: a key has one value.
    posts: u32,
}

impl Pmix {
    /// Joins by the library that `named` names, or by the best that is found.
    pub(super) fn join(named: Option<String>, limit: Duration) -> Result<Self> {
        let (tasks, to_do) = channel::<Task>();
        let (tell, joined) = channel();
        let serve = move || {
            let client = Client::join(named);
            let found = client.as_ref().map_err(Clone::clone).and_then(|client| {
                Ok((client.file().display().to_string(), Place { rank: client.rank(), size: client.size()? }))
            });
            // Whoever waited may have given up.
            let _ = tell.send(found);
            if let Ok(client) = client {
                to_do.iter().for_each(|task| task(&client));
            }
        };
        // The library's own thread, which it starts from this one, takes no signals either.
        threads::start("pmix".to_owned(), serve)
            .map_err(|error| Error::boot(format!("PMIx: no thread: {error}"), "raise `ulimit -u`"))?;
        let (file, place) =
            joined.recv_timeout(limit).map_err(|error| unanswered("PMIx_Init", &error, limit))??;
        Ok(Pmix { tasks, name: format!("PMIx ({file})"), place, limit, posts: 0 })
    }

    /// Makes calls, and waits for them for as long as a rank waits.
    fn call<T: Send + 'static>(
        &self,
        what: &str,
        calls: impl FnOnce(&Client) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (tell, done) = channel();
        // Where the thread has ended, so has `done`.
        let _ = self.tasks.send(Box::new(move |client| drop(tell.send(calls(client)))));
        done.recv_timeout(self.limit).map_err(|error| unanswered(what, &error, self.limit))?
    }
}

impl Board for Pmix {
    fn place(&self) -> Place {
        self.place
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn post(&mut self, card: &[u8], whom: &[Rank]) -> Result<Vec<Vec<u8>>> {
        self.posts += 1;
        let key = format!("circ-{}", self.posts);
        let (mut card, whom) = (card.to_vec(), whom.to_vec());
        self.call("PMIx_Fence", move |client| {
            client.put(&key, &mut card)?;
            client.fence()?;
            whom.into_iter().map(|rank| client.bytes(rank, &key)).collect()
        })
    }

    fn finish(&mut self) -> Result<()> {
        self.call("PMIx_Finalize", Client::finalize)
    }
}

fn unanswered(call: &str, error: &RecvTimeoutError, limit: Duration) -> Error {
    let what = match error {
        RecvTimeoutError::Timeout => {
            format!(
                "{call} did not return within {} s: some rank has not started, or died before boot",
                limit.as_secs()
            )
        }
        RecvTimeoutError::Disconnected => format!("{call}: libpmix has broken off"),
    };
    Error::boot(
        what,
        "see what the launcher and the other ranks say; CIRCULANT_BOOT_TIMEOUT gives them more seconds",
    )
}
