//! What a rank does: the words of its script, in order.
//!
//! | words | what |
//! |---|---|
//! | `world`, `leave` | join, and finalize |
//! | `by-id` FOLDER, `by-files` FOLDER | join by an id that is left there, by an allgather through files |
//! | a collective, as `broadcast:root=2:count=100` | that call, every element verified (see `wanted`) |
//! | `finish` | waits for what is pending, the latest first, and verifies it |
//! | `forget` | lets go of what is pending |
//! | `try` CALL | its error is told on the standard output, and the script goes on |
//! | `for-ever` CALL | the same call without end |
//! | `bits` COUNT ALGORITHM BLOCKS | says a digest of an allreduce of any floats, which must be near the serial sum |
//! | `split` COLOURS SIGN | by the rank's remainder, in the order of the ranks or against it; the last colour, of three and more, gets none |
//! | `split-by-node` | a communicator of each node |
//! | `duplicate`, `free` | a communicator of the same ranks, and the end of the latest |
//! | `on` NUMBER | the communicator for the words that follow, 0 being the world |
//! | `barrier`, `meet` | a barrier; find the others, and go no further |
//! | `say` WORD | a line on the standard output |
//! | `memory` | says whether calls go by what all share memory |
//! | `carrier` | says what carries puts, and why it is not shared memory |
//! | `cramp` | allows this process no files, and so no shared memory |
//! | `forbid` | from now on the kernel refuses this process to write other processes' memory |
//! | `fork` | a child makes a call, which is refused, drops all that it has, a window too, and ends well |
//! | `sleep` SECONDS | does something else |
//! | `mark` FILE, `until` FILE | leaves a file; does something else until it is there |
//! | `exit`, `panic`, `abort`, `kill`, `stop`, `hang` | ways to be of no more use |

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::str::FromStr;

use circulant::boot::{self, Exchange};
use circulant::comm::{Call, Communicator};
use circulant::error::Result;
use circulant::fold::Sum;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, getpid, kill_process, setrlimit, waitpid};

use crate::wanted::{Rest, Wanted};
use crate::ways::{find, leave, world_by_files, world_by_id};

/// The script of all ranks; that of rank 3 alone is in the same name with `_3`.
pub const SCRIPT: &str = "WORLD_TEST_SCRIPT";

/// Runs this process's script. An error is told on the standard error and ends the process with 1, as a
/// program's `main` does.
pub fn live() {
    let own = ["PMI_RANK", "CIRCULANT_RANK"].iter().find_map(|name| std::env::var(name).ok());
    let of_one = std::env::var(format!("{SCRIPT}_{}", own.unwrap_or_default()));
    let script = of_one.or(std::env::var(SCRIPT)).expect("a test of this file started this");
    if let Err(error) = Rank::default().act(&mut script.split_whitespace()) {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

#[derive(Default)]
struct Rank {
    pending: Vec<Rest>,
    /// The world, and what came of it; `None` where this rank has no part.
    comms: Vec<Option<Communicator>>,
    /// Which of them makes the calls.
    on: usize,
    met: Option<Box<dyn Exchange>>,
    /// Calls made so far, so that no two carry the same data.
    calls: u64,
}

impl Rank {
    /// All words. However it ends, the communicators are dropped before the error is looked at.
    fn act<'w>(mut self, words: &mut impl Iterator<Item = &'w str>) -> Result<()> {
        while let Some(word) = words.next() {
            match word {
                "world" => self.comms = vec![Some(Communicator::world()?)],
                "by-id" => self.comms = vec![Some(world_by_id(&next::<String>(words))?)],
                "by-files" => self.comms = vec![Some(world_by_files(&next::<String>(words))?)],
                "leave" => self.comms.clear(),
                "leave-world" => self.comms.pop().flatten().map_or(Ok(()), Communicator::leave)?,
                "on" => self.on = next(words),
                "barrier" => self.comm().map_or(Ok(()), Communicator::barrier)?,
                "finish" => self.finish()?,
                "forget" => self.pending.clear(),
                "try" => {
                    let error = self.call(&next::<String>(words)).expect_err("it cannot be done");
                    println!("refused: {error}");
                }
                "for-ever" => {
                    let word: String = next(words);
                    loop {
                        self.call(&word)?;
                    }
                }
                "bits" => {
                    let (count, algorithm, blocks) = (next(words), next::<String>(words), next(words));
                    self.bits(count, Call::allreduce(Sum).algorithm(algorithm).blocks(blocks))?;
                }
                "split" => self.split(next(words), next(words))?,
                "split-by-node" => {
                    let by_node = |comm: &Communicator| {
                        let node = comm.layout().expect("ranks are processes").node(comm.rank());
                        comm.split(Some(node), 0)
                    };
                    let made = self.comm().map(by_node).transpose()?.flatten();
                    self.comms.push(made);
                }
                "memory" => {
                    println!("memory shared: {}", self.comm().is_some_and(|comm| comm.costs().shared))
                }
                "duplicate" => {
                    let made = self.comm().map(Communicator::duplicate).transpose()?;
                    self.comms.push(made);
                }
                "free" => self.comms.pop().flatten().map_or(Ok(()), Communicator::free)?,
                "meet" => self.met = Some(boot::detect()?),
                "carrier" => self.comm().into_iter().for_each(tell_carrier),
                "cramp" => setrlimit(Resource::Fsize, Rlimit { current: Some(1), maximum: Some(1) })
                    .expect("a process may have less"),
                "say" => println!("{}", next::<String>(words)),
                "forbid" => forbid_writev().expect("a process may forbid itself something"),
                "fork" => self.fork(),
                "sleep" => std::thread::sleep(std::time::Duration::from_secs(next(words))),
                "mark" => leave(Path::new(&next::<String>(words)), b""),
                "until" => drop(find(Path::new(&next::<String>(words)))),
                "exit" | "panic" | "abort" | "kill" | "stop" | "hang" => be_of_no_more_use(word),
                call => self.call(call)?,
            }
        }
        Ok(())
    }

    /// The communicator that makes the calls, if this rank has a part in it.
    fn comm(&self) -> Option<&Communicator> {
        self.comms.get(self.on).expect("the script makes it before").as_ref()
    }

    fn fork(&mut self) {
        // Registered, with a provider that registers memory.
        let window = self.comm().map(|comm| comm.window::<u8>(100_000).expect("there is memory"));
        // SAFETY: - the child has this thread alone, and uses nothing that another one may have had locked, but for memory,
        //           of which the C library sees to it
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = self.comm().is_some_and(|comm| comm.barrier().is_err());
            drop(window);
            self.comms.clear();
            // SAFETY: - nothing of the parent's is to run at the end
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        let child = Pid::from_raw(child).expect("a process may fork");
        let ended = waitpid(Some(child), WaitOptions::empty()).expect("nobody else waits for it");
        assert_eq!(ended.and_then(|(_, status)| status.exit_status()), Some(0));
    }

    fn call(&mut self, word: &str) -> Result<()> {
        self.calls += 4;
        let wanted = Wanted::parse(word).unwrap_or_else(|| panic!("`{word}` is no word of a script"));
        let rest = self.comm().map_or(Ok(None), |comm| wanted.perform(comm, self.calls))?;
        self.pending.extend(rest);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        std::mem::take(&mut self.pending).into_iter().rev().try_for_each(|rest| rest())
    }

    fn split(&mut self, colours: u32, sign: i64) -> Result<()> {
        let made = self.comm().map(|comm| {
            let colour = Some(comm.rank() % colours).filter(|&colour| colours < 3 || colour + 1 < colours);
            comm.split(colour, sign * i64::from(comm.rank()))
        });
        self.comms.push(made.transpose()?.flatten());
        Ok(())
    }

    /// Floats of any size, whose sum depends on the order.
    fn bits(&self, count: usize, call: Call<f32>) -> Result<()> {
        let Some(comm) = self.comm() else { return Ok(()) };
        let of = |rank: u32| {
            let mut chance = fastrand::Rng::with_seed(rank.into());
            (0..count).map(move |_| (chance.f32() - 0.5) * 2f32.powi(chance.i32(-10..10)))
        };
        let mut data: Vec<f32> = of(comm.rank()).collect();
        comm.run(&mut data, call)?;
        let (mut serial, mut sizes) = (vec![0f64; count], vec![0f64; count]);
        for rank in 0..comm.size() {
            for (index, value) in of(rank).enumerate() {
                serial[index] += f64::from(value);
                sizes[index] += f64::from(value.abs());
            }
        }
        let rounding = f64::from(f32::EPSILON) * f64::from(comm.size());
        for (index, &sum) in data.iter().enumerate() {
            let off = (f64::from(sum) - serial[index]).abs();
            assert!(off <= sizes[index] * rounding, "{sum} where {} belongs, at {index}", serial[index]);
        }
        let mut digest = DefaultHasher::new();
        data.iter().for_each(|value| value.to_bits().hash(&mut digest));
        println!("bits {:x}", digest.finish());
        Ok(())
    }
}

fn tell_carrier(comm: &Communicator) {
    println!("carried by {}", comm.transport());
    if let Some(why) = &comm.about().without_shm {
        println!("no shared memory: {why}");
    }
}

/// As the filters of containers do it.
fn forbid_writev() -> std::io::Result<()> {
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let jump = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let end = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, jf, k| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut steps = [
        step(load, 0, 0), // the call's number, which is first in what a filter sees
        step(jump, 1, libc::SYS_process_vm_writev as u32),
        step(end, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(end, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
    rustix::thread::set_no_new_privs(true)?;
    // SAFETY: - the filter points to as many steps as it says, which live until the call has returned
    let done = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const filter) };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn be_of_no_more_use(how: &str) {
    let signal = |signal| kill_process(getpid(), signal).expect("a process may signal itself");
    match how {
        "exit" => std::process::exit(0),
        "abort" => std::process::abort(),
        "panic" => panic!("as the script says"),
        "kill" => signal(Signal::KILL),
        // To this thread: one to the process may find another, and this one goes on meanwhile.
        // SAFETY: - no handler runs, as nobody can handle it
        "stop" => assert_eq!(unsafe { libc::raise(libc::SIGSTOP) }, 0),
        _ => loop {
            std::thread::park();
        },
    }
}

fn next<'w, T: FromStr>(words: &mut impl Iterator<Item = &'w str>) -> T {
    words.next().and_then(|word| word.parse().ok()).expect("the script has an argument here")
}
