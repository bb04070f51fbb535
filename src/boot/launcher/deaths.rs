//! In which order ranks have ended, which their states do not tell: the first one is to blame for the others.
#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Those that have ended, as the kernel queues what becomes readable on one epoll instance: first come, first told.
pub(super) struct Deaths {
    queue: Option<OwnedFd>,
    /// What becomes readable when a rank ends; closed, it would tell nothing.
    _lives: Vec<OwnedFd>,
    /// The ranks' places, in their order of ending.
    told: Vec<usize>,
}

impl Deaths {
    /// Of nobody: what has ended at a time stays as it is found.
    pub(super) fn of_nobody() -> Deaths {
        Deaths { queue: None, _lives: Vec::new(), told: Vec::new() }
    }

    /// Of these processes, none of which is reaped; of nobody where the system lacks something for it.
    pub(super) fn of(pids: impl Iterator<Item = Pid>) -> Deaths {
        Deaths::watch(pids).unwrap_or_else(|_| Deaths::of_nobody())
    }

    fn watch(pids: impl Iterator<Item = Pid>) -> rustix::io::Result<Deaths> {
        let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut lives = Vec::new();
        for (place, pid) in pids.enumerate() {
            let life = pidfd_open(pid, PidfdFlags::empty())?;
            let once = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
            epoll::add(&queue, &life, epoll::EventData::new_u64(place as u64), once)?;
            lives.push(life);
        }
        Ok(Deaths { queue: Some(queue), _lives: lives, told: Vec::new() })
    }

    /// Sorts the places of processes that have ended by the order in which they have; those of which it is not known come last.
    pub(super) fn sort(&mut self, ended: &mut [usize]) {
        self.listen();
        let turn = |place: &usize| self.told.iter().position(|told| told == place).unwrap_or(usize::MAX);
        ended.sort_by_cached_key(turn);
    }

    fn listen(&mut self) {
        let Some(queue) = &self.queue else { return };
        loop {
            let mut events = Vec::with_capacity(64);
            let at_once = rustix::event::Timespec::default();
            match epoll::wait(queue, rustix::buffer::spare_capacity(&mut events), Some(&at_once)) {
                Ok(1..) => self.told.extend(events.iter().map(|event| event.data.u64() as usize)),
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::*;

    fn child() -> Child {
        Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    }

    fn pid(child: &Child) -> Pid {
        Pid::from_child(child)
    }

    /// Ends it, and waits until it has ended, without reaping it.
    fn end(child: &mut Child) {
        drop(child.stdin.take());
        waitid(WaitId::Pid(pid(child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    }

    #[test]
    fn places_are_sorted_by_the_order_of_ends() {
        let mut children: Vec<Child> = (0..70).map(|_| child()).collect();
        // One that had ended before anybody looked.
        end(&mut children[69]);
        let mut deaths = Deaths::of(children.iter().map(pid));
        for place in [3, 0, 2] {
            end(&mut children[place]);
        }
        let mut ended = vec![0, 2, 3, 69];
        deaths.sort(&mut ended);
        assert_eq!(ended, [69, 3, 0, 2]);
        for place in (4..69).rev() {
            end(&mut children[place]);
        }
        let mut rest: Vec<usize> = (4..69).collect();
        deaths.sort(&mut rest);
        assert_eq!(rest, (4..69).rev().collect::<Vec<_>>());
        end(&mut children[1]);
        for child in &mut children {
            child.wait().unwrap();
        }
    }

    #[test]
    fn where_nothing_is_known_the_order_stays() {
        let mut ended = vec![2, 0, 1];
        Deaths::of_nobody().sort(&mut ended);
        assert_eq!(ended, [2, 0, 1]);
    }
}
