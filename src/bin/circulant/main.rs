//! The program `circulant`: one subcommand a file.
#![deny(unsafe_code)]

mod bench;
mod check;
mod fit;
mod info;
mod output;
mod plan;
mod plot;
mod run;
mod schedule;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use circulant::boot::Variables;
use circulant::error::Error;
use circulant::rank::Rank;
use circulant::transport::fabric;
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

/// Collectives by one-sided puts, on the circulant graph and on others.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// What a subcommand comes to: an exit code of its own, or an error for the user.
type Outcome = Result<ExitCode, Failure>;

/// An error for the user.
type Failure = Box<dyn std::error::Error>;

/// A line here, and a `mod` above, is a subcommand: its file has `Arguments`, whose doc comment is its help.
macro_rules! subcommands {
    ($($name:ident($module:ident)),+ $(,)?) => {
        #[derive(Subcommand)]
        enum Command {
            $($name($module::Arguments)),+
        }

        impl Command {
            fn run(self) -> Outcome {
                match self {
                    $(Command::$name(arguments) => arguments.run()),+
                }
            }
        }
    };
}

subcommands! {
    Run(run),
    Bench(bench),
    Schedule(schedule),
    Check(check),
    Plan(plan),
    Plot(plot),
    Info(info),
}

fn main() -> ExitCode {
    complete_environment();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(refusal) => return refuse(&refusal),
    };
    arguments.command.run().unwrap_or_else(|failure| fail(failure.as_ref()))
}

/// Says what went wrong, unless another rank does.
fn fail(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    if let Some(told) = error.downcast_ref::<ToldByAnother>() {
        return ExitCode::from(told.code);
    }
    say(&format!("error: {error}\n"));
    ExitCode::from(error.downcast_ref().map_or(FAILED, exit_code))
}

/// In one write: ranks that share a terminal must not speak into one another.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Help, which comes from every process, or what is wrong with the arguments: of many ranks the first says all about it, and
/// each other one, as its arguments may differ, what is wrong and no more.
fn refuse(refusal: &clap::Error) -> ExitCode {
    match Variables::of_the_process().rank() {
        Some(rank) if refusal.use_stderr() => say(&refusal_of_a_rank(rank, refusal)),
        _ => drop(refusal.print()),
    }
    ExitCode::from(refusal.exit_code() as u8)
}

fn refusal_of_a_rank(rank: Rank, refusal: &clap::Error) -> String {
    let text = refusal.render().to_string();
    let wrong = match refusal.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "error: a subcommand is missing",
        _ => text.split("\n\n").next().unwrap_or_default().trim_end(),
    };
    if rank == 0 { text } else { format!("rank {rank}: {wrong}\n") }
}

/// Sets what libfabric reads and the user has not set, for this process and the ranks that it starts.
#[allow(unsafe_code)]
fn complete_environment() {
    for (name, value) in fabric::lacking(|name| std::env::var(name).ok()) {
        if name == fabric::ROOM {
            HAS_MADE_ROOM.store(true, Ordering::Relaxed);
        }
        // SAFETY: - no other thread reads the environment: this is the first line of main, and neither
        //           the runtime nor a dependency has started one (libfabric is loaded later)
        unsafe { std::env::set_var(name, value) }
    }
}

/// Whether this process has said how much room rxm makes, for a job that it is itself a rank of, and not the user.
static HAS_MADE_ROOM: AtomicBool = AtomicBool::new(false);

/// What ranks that this process starts have in their environment beside its own: room for so many, unless the user has said how
/// much there is to be.
fn variables_of_ranks(ranks: u32) -> Vec<(OsString, OsString)> {
    match std::env::var_os(fabric::ROOM).filter(|set| !set.is_empty()) {
        Some(_) if !HAS_MADE_ROOM.load(Ordering::Relaxed) => vec![],
        _ => vec![(fabric::ROOM.into(), fabric::room_for(ranks).to_string().into())],
    }
}

/// The exit code of what went wrong.
const FAILED: u8 = 1;

/// 2 for what the user can put right in the arguments, as clap does; 1 for the rest.
fn exit_code(error: &Error) -> u8 {
    if matches!(error, Error::Argument { .. }) { 2 } else { FAILED }
}

/// An error that all ranks know of and another one tells, to be ended with its exit code.
#[derive(Debug, thiserror::Error)]
#[error("another rank tells what went wrong")]
struct ToldByAnother {
    code: u8,
}
