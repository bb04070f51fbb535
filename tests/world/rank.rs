//! What a rank does: the words of its script, in order.
//!
//! | words | what |
//! |---|---|
//! | `world`, `leave` | join, and finalize |
//! | `slice`, `window`, `started`, `prepared` ROOT BYTES BLOCKS | a broadcast, every byte verified; 0 blocks: as selected |
//! | `short` | a broadcast of more elements than its window has |
//! | `barrier`, `for-ever` | a barrier; verified broadcasts without end |
//! | `meet` | find the others, and go no further |
//! | `say` WORD | a line on the standard output |
//! | `exit`, `panic`, `abort`, `kill`, `stop`, `hang` | ways to be of no more use |

use std::str::FromStr;

use circulant::boot::{self, Exchange};
use circulant::comm::{Broadcast, Communicator};
use circulant::error::Result;
use rustix::process::{Signal, getpid, kill_process};

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
    comm: Option<Communicator>,
    met: Option<Box<dyn Exchange>>,
    /// Broadcasts made so far, so that no two carry the same data.
    broadcasts: u64,
}

/// A broadcast that a script asks for.
struct Wanted {
    tense: String,
    root: u32,
    bytes: usize,
    blocks: u32,
}

impl Rank {
    /// All words. However it ends, the communicator is dropped before the error is looked at.
    fn act<'w>(mut self, words: &mut impl Iterator<Item = &'w str>) -> Result<()> {
        while let Some(word) = words.next() {
            match word {
                "world" => self.comm = Some(Communicator::world()?),
                "leave" => self.comm = None,
                "barrier" => self.comm().barrier()?,
                "short" => self.comm().broadcast(&mut [0u8; 10], Broadcast::from(0).elements(11))?,
                "for-ever" => loop {
                    self.broadcast(&Wanted { tense: "slice".into(), root: 0, bytes: 30_000, blocks: 0 })?;
                },
                "meet" => self.met = Some(boot::detect()?),
                "say" => println!("{}", next::<String>(words)),
                tense @ ("slice" | "window" | "started" | "prepared") => {
                    let (root, bytes, blocks) = (next(words), next(words), next(words));
                    self.broadcast(&Wanted { tense: tense.into(), root, bytes, blocks })?;
                }
                end => be_of_no_more_use(end),
            }
        }
        Ok(())
    }

    fn comm(&self) -> &Communicator {
        self.comm.as_ref().expect("the script has the word `world` before")
    }

    fn broadcast(&mut self, wanted: &Wanted) -> Result<()> {
        self.broadcasts += 1;
        let (comm, salt) = (self.comm(), self.broadcasts << 8);
        let how = Broadcast::from(wanted.root);
        let how = if wanted.blocks == 0 { how } else { how.blocks(wanted.blocks) };
        let is_root = comm.rank() == wanted.root;
        let window = || comm.window::<u8>(wanted.bytes);
        match wanted.tense.as_str() {
            "slice" => {
                let mut data = vec![0; wanted.bytes];
                prepare(&mut data, is_root, salt);
                comm.broadcast(&mut data, how)?;
                verify(&data, salt);
            }
            "window" => {
                let mut data = window()?;
                prepare(&mut data, is_root, salt);
                comm.broadcast_window(&mut data, how)?;
                verify(&data, salt);
            }
            "started" => {
                let mut data = window()?;
                prepare(&mut data, is_root, salt);
                let request = comm.start_broadcast(data, how)?;
                verify(&request.wait()?, salt);
            }
            _ => {
                let mut prepared = comm.prepare_broadcast(window()?, how)?;
                for start in 0..3 {
                    prepare(prepared.window()?, is_root, salt + start);
                    prepared.run()?;
                    verify(prepared.window()?, salt + start);
                }
            }
        }
        Ok(())
    }
}

fn be_of_no_more_use(how: &str) {
    let signal = |signal| kill_process(getpid(), signal).expect("a process may signal itself");
    match how {
        "exit" => std::process::exit(0),
        "abort" => std::process::abort(),
        "panic" => panic!("as the script says"),
        "kill" => signal(Signal::KILL),
        "stop" => signal(Signal::STOP),
        "hang" => loop {
            std::thread::park();
        },
        other => panic!("`{other}` is no word of a script"),
    }
}

fn next<'w, T: FromStr>(words: &mut impl Iterator<Item = &'w str>) -> T {
    words.next().and_then(|word| word.parse().ok()).expect("the script has an argument here")
}

/// Eight bytes that no other place and no other salt have.
fn eight(salt: u64, place: usize) -> [u8; 8] {
    let mixed = ((salt << 40) ^ (place as u64 + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).to_le_bytes()
}

/// The root's bytes are right, and all the others' are wrong.
fn prepare(data: &mut [u8], is_root: bool, salt: u64) {
    for (place, bytes) in data.chunks_mut(8).enumerate() {
        let right = eight(salt, place).map(|byte| if is_root { byte } else { !byte });
        bytes.copy_from_slice(&right[..bytes.len()]);
    }
}

fn verify(data: &[u8], salt: u64) {
    let wrong = |&(place, bytes): &(usize, &[u8])| *bytes != eight(salt, place)[..bytes.len()];
    let found = data.chunks(8).enumerate().find(wrong);
    assert_eq!(found, None, "these bytes (at eight times the number) of {} are wrong", data.len());
}
