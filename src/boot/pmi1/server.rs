//! The side of a launcher: takes the bytes that ranks send, gives the answers.
//!
//! It never does I/O and never waits: whoever owns the sockets feeds it and writes what it answers, so
//! that a whole job can be tested in one thread. It answers all that MPICH and Intel MPI ask; what it
//! does not offer (spawn, name publishing) it answers with an error, because silence would hang them.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use super::line::{Line, quoted};
use crate::rank::Rank;

/// The longest line that is taken; twice the longest that our maxima allow.
const LINE_BYTES: usize = 4096;
const SPACE_BYTES: usize = 256;
const KEY_BYTES: usize = 64;
const VALUE_BYTES: usize = 1024;

/// What follows from a rank's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A line to send, with its newline.
    Reply {
        /// To whom.
        rank: Rank,
        /// What.
        line: String,
    },
    /// The rank wants the whole job to end.
    Abort {
        /// The exit code that it asks for.
        code: i32,
        /// Its reason, perhaps empty.
        message: String,
    },
    /// What the rank sent is not PMI-1; it cannot be answered, so it would wait for ever.
    Unintelligible(String),
}

/// A job's key-value space and barrier.
pub struct Server {
    space: String,
    mapping: String,
    values: HashMap<String, String>,
    /// The programs that ranks have run one after the other, as a shell does, before this one.
    program: u32,
    ranks: Vec<Client>,
}

#[derive(Default)]
struct Client {
    unread: Vec<u8>,
    stage: Stage,
    /// Of which program that is.
    program: u32,
    in_barrier: bool,
    /// The request of several lines that is being read.
    block: Option<Block>,
}

#[derive(Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Silent,
    Joined,
    Finalized,
    /// It wants to join with a further program, and others have not finalized the one before.
    Waits,
}

/// A spawn request; a call that spawns several commands sends several, and gets one answer.
#[derive(Default)]
struct Block {
    total: String,
    so_far: String,
}

impl Server {
    /// A job of `size` ranks on one node, or on `nodes` pretended ones.
    pub fn new(size: u32, nodes: Option<u32>) -> Self {
        Server {
            space: format!("circulant_{}", std::process::id()),
            mapping: mapping(size, nodes.unwrap_or(1)),
            values: HashMap::new(),
            program: 0,
            ranks: (0..size).map(|_| Client::default()).collect(),
        }
    }

    /// Takes the bytes that a rank sent, in any pieces.
    pub fn receive(&mut self, rank: Rank, bytes: &[u8]) -> Vec<Answer> {
        self.client(rank).unread.extend_from_slice(bytes);
        let mut answers = Vec::new();
        while let Some(line) = self.next_line(rank) {
            self.serve(rank, &line, &mut answers);
        }
        if self.client(rank).unread.len() > LINE_BYTES {
            let start = std::mem::take(&mut self.client(rank).unread);
            answers.push(Answer::Unintelligible(format!(
                "a line of over {LINE_BYTES} bytes: {}",
                quoted(&start)
            )));
        }
        answers
    }

    /// A rank that has never joined, or has finalized, may exit when it likes.
    pub fn owes_nothing(&self, rank: Rank) -> bool {
        self.ranks[rank as usize].stage != Stage::Joined
    }

    /// Whether some rank waits in a barrier, which an exited rank can never enter.
    pub fn barrier_waits(&self) -> bool {
        self.ranks.iter().any(|client| client.in_barrier)
    }

    fn client(&mut self, rank: Rank) -> &mut Client {
        &mut self.ranks[rank as usize]
    }

    fn next_line(&mut self, rank: Rank) -> Option<Vec<u8>> {
        let unread = &mut self.client(rank).unread;
        let end = unread.iter().position(|&byte| byte == b'\n')?;
        let mut line: Vec<u8> = unread.drain(..=end).collect();
        line.pop();
        Some(line)
    }

    fn serve(&mut self, rank: Rank, bytes: &[u8], answers: &mut Vec<Answer>) {
        if self.client(rank).block.is_some() {
            return answers.extend(self.continue_block(rank, bytes));
        }
        match Line::parse(bytes) {
            Ok(line) if line.opens_a_block() => self.client(rank).block = Some(Block::default()),
            Ok(line) if line.command() == "barrier_in" => self.enter_barrier(rank, &line, answers),
            Ok(line) if line.command() == "init" && line.get("pmi_version") == Some("1") => {
                answers.extend(self.init(rank));
                self.admit(answers);
            }
            Ok(line) => {
                answers.push(match self.answer(rank, &line) {
                    Ok(reply) => Answer::Reply { rank, line: reply + "\n" },
                    Err(answer) => answer,
                });
                self.admit(answers);
            }
            Err(what) => answers.push(Answer::Unintelligible(what)),
        }
    }

    /// The one line that answers this request.
    fn answer(&mut self, rank: Rank, line: &Line) -> Result<String, Answer> {
        Ok(match line.command() {
            "init" => "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1".into(),
            "get_maxes" => format!(
                "cmd=maxes rc=0 kvsname_max={SPACE_BYTES} keylen_max={KEY_BYTES} vallen_max={VALUE_BYTES}"
            ),
            "get_appnum" => "cmd=appnum rc=0 appnum=0".into(),
            "get_my_kvsname" => format!("cmd=my_kvsname rc=0 kvsname={}", self.space),
            "get_universe_size" => format!("cmd=universe_size rc=0 size={}", self.ranks.len()),
            "put" => self.put(line),
            "get" => self.get(line),
            "finalize" => self.finalize(rank),
            "publish_name" => "cmd=publish_result rc=1 info=fail msg=not_supported".into(),
            "unpublish_name" => "cmd=unpublish_result rc=1 info=fail msg=not_supported".into(),
            "lookup_name" => "cmd=lookup_result rc=1 info=fail msg=not_supported".into(),
            "abort" => return Err(abort(line)),
            other => {
                return Err(Answer::Unintelligible(format!(
                    "the unknown command {}",
                    quoted(other.as_bytes())
                )));
            }
        })
    }

    fn init(&mut self, rank: Rank) -> Option<Answer> {
        let client = self.client(rank);
        if matches!(client.stage, Stage::Joined | Stage::Waits) {
            let what = "another init: the program before this one ended without finalizing";
            return Some(Answer::Unintelligible(what.into()));
        }
        client.stage = Stage::Waits;
        None
    }

    /// Lets those in who wait: with a further program only where all have finalized the one before, whose values then go.
    fn admit(&mut self, answers: &mut Vec<Answer>) {
        let joined = self.ranks.iter().any(|client| client.stage == Stage::Joined);
        let further = |client: &Client| client.stage == Stage::Waits && client.program > self.program;
        if !joined && self.ranks.iter().any(further) {
            self.program += 1;
            self.values.clear();
        }
        let now = self.program;
        for (rank, client) in (0..).zip(&mut self.ranks) {
            if client.stage == Stage::Waits && client.program <= now {
                (client.stage, client.program) = (Stage::Joined, now);
                let line = "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n".into();
                answers.push(Answer::Reply { rank, line });
            }
        }
    }

    fn finalize(&mut self, rank: Rank) -> String {
        let client = self.client(rank);
        client.program += u32::from(client.stage == Stage::Joined);
        client.stage = Stage::Finalized;
        "cmd=finalize_ack rc=0".into()
    }

    fn put(&mut self, line: &Line) -> String {
        let refusal = |why| format!("cmd=put_result rc=-1 msg={why}");
        let (Some(key), Some(value)) = (line.get("key"), line.get("value")) else {
            return refusal("key_or_value_missing");
        };
        if line.get("kvsname") != Some(&self.space) {
            return refusal("kvsname_not_found");
        }
        // The maxima count C's closing zero.
        if key.len() >= KEY_BYTES || value.len() >= VALUE_BYTES {
            return refusal("key_or_value_too_long");
        }
        if self.values.contains_key(key) {
            return refusal("duplicate_key");
        }
        self.values.insert(key.into(), value.into());
        "cmd=put_result rc=0 msg=success".into()
    }

    fn get(&self, line: &Line) -> String {
        let value = match line.get("key") {
            _ if line.get("kvsname") != Some(&self.space) => None,
            Some("PMI_process_mapping") => Some(&self.mapping),
            Some(key) => self.values.get(key),
            None => None,
        };
        match value {
            Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
            None => "cmd=get_result rc=1 msg=key_not_found value=unknown".into(),
        }
    }

    fn enter_barrier(&mut self, rank: Rank, line: &Line, answers: &mut Vec<Answer>) {
        self.client(rank).in_barrier = true;
        if !self.ranks.iter().all(|client| client.in_barrier) {
            return;
        }
        // MPICH 5 numbers its barriers and wants the number back.
        let tag = line.get("tag").map_or_else(String::new, |tag| format!(" tag={tag}"));
        for (rank, client) in (0..).zip(&mut self.ranks) {
            client.in_barrier = false;
            answers.push(Answer::Reply { rank, line: format!("cmd=barrier_out rc=0{tag}\n") });
        }
    }

    fn continue_block(&mut self, rank: Rank, bytes: &[u8]) -> Option<Answer> {
        let block = self.client(rank).block.as_mut()?;
        let text = String::from_utf8_lossy(bytes);
        if let Some(total) = text.strip_prefix("totspawns=") {
            block.total = total.into();
        } else if let Some(so_far) = text.strip_prefix("spawnssofar=") {
            block.so_far = so_far.into();
        }
        if text != "endcmd" {
            return None;
        }
        let last = block.so_far == block.total;
        self.client(rank).block = None;
        let line = "cmd=spawn_result rc=-1 errmsg=spawn_not_supported\n".into();
        last.then_some(Answer::Reply { rank, line })
    }
}

fn abort(line: &Line) -> Answer {
    let message =
        ["message", "error_msg", "msg"].into_iter().find_map(|key| line.get(key)).unwrap_or_default();
    Answer::Abort { code: line.number("exitcode").unwrap_or(1), message: message.into() }
}

/// Ranks on nodes as MPICH reads it: runs of (first node, nodes, ranks on each).
fn mapping(size: u32, nodes: u32) -> String {
    let (each, longer) = (size / nodes, size % nodes);
    let runs: Vec<_> = [(0, longer, each + 1), (longer, nodes - longer, each)]
        .into_iter()
        .filter(|&(_, count, ranks)| count * ranks > 0)
        .map(|(first, count, ranks)| format!("({first},{count},{ranks})"))
        .collect();
    format!("(vector,{})", runs.join(","))
}

/// The node of a rank when `size` ranks stand on `nodes` nodes in contiguous, nearly equal runs; the
/// first nodes have the longer ones, as in the mapping that MPICH is given.
pub fn node_of(rank: Rank, size: u32, nodes: u32) -> u32 {
    let (each, longer) = (size / nodes, size % nodes);
    let in_longer_runs = longer * (each + 1);
    if rank < in_longer_runs { rank / (each + 1) } else { longer + (rank - in_longer_runs) / each }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(server: &mut Server, rank: Rank, request: &str) -> String {
        let answers = server.receive(rank, format!("{request}\n").as_bytes());
        match &answers[..] {
            [Answer::Reply { rank: to, line }] if *to == rank => line.trim_end().to_owned(),
            other => panic!("{request}: {other:?}"),
        }
    }

    #[test]
    fn what_one_rank_puts_another_gets() {
        let mut server = Server::new(2, None);
        let space = server.space.clone();
        assert!(ask(&mut server, 0, "cmd=init pmi_version=1 pmi_subversion=1").contains("rc=0"));
        assert!(ask(&mut server, 0, &format!("cmd=put kvsname={space} key=a value=b")).contains("rc=0"));
        assert!(
            ask(&mut server, 1, &format!("cmd=get kvsname={space} key=a"))
                .ends_with("rc=0 msg=success value=b")
        );
        assert!(
            ask(&mut server, 1, &format!("cmd=get kvsname={space} key=b")).contains("rc=1 msg=key_not_found")
        );
        assert!(ask(&mut server, 1, "cmd=get kvsname=other key=a").contains("rc=1"));
    }

    #[test]
    fn a_put_that_cannot_be_kept_is_refused_with_the_reason() {
        let mut server = Server::new(1, None);
        let space = server.space.clone();
        let mut put = |rest: String| ask(&mut server, 0, &format!("cmd=put {rest}"));
        assert!(put(format!("kvsname={space} key=a value=b")).contains("rc=0"));
        assert!(put(format!("kvsname={space} key=a value=c")).contains("duplicate_key"));
        assert!(put("kvsname=other key=b value=c".into()).contains("kvsname_not_found"));
        assert!(put(format!("kvsname={space} key=b")).contains("missing"));
        assert!(put(format!("kvsname={space} key={} value=c", "k".repeat(64))).contains("too_long"));
        assert!(put(format!("kvsname={space} key=b value={}", "v".repeat(1024))).contains("too_long"));
    }

    #[test]
    fn a_further_program_begins_where_all_have_finalized_the_one_before_and_without_its_values() {
        let mut server = Server::new(3, None);
        let space = server.space.clone();
        let join = "cmd=init pmi_version=1 pmi_subversion=1";
        let joined = |rank| Answer::Reply {
            rank,
            line: "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n".into(),
        };
        for rank in 0..3 {
            ask(&mut server, rank, join);
        }
        let (put, get) =
            (format!("cmd=put kvsname={space} key=a value="), format!("cmd=get kvsname={space} key=a"));
        ask(&mut server, 0, &format!("{put}first"));
        ask(&mut server, 0, "cmd=finalize");
        ask(&mut server, 2, "cmd=finalize");
        assert_eq!(server.receive(0, format!("{join}\n").as_bytes()), []);
        assert!(server.owes_nothing(0));
        assert!(ask(&mut server, 1, &get).ends_with("value=first"));
        let answers = server.receive(1, b"cmd=finalize\n");
        assert_eq!(answers, [Answer::Reply { rank: 1, line: "cmd=finalize_ack rc=0\n".into() }, joined(0)]);
        assert!(!server.owes_nothing(0));
        assert!(ask(&mut server, 0, &get).contains("key_not_found"));
        assert!(ask(&mut server, 0, &format!("{put}second")).contains("rc=0"));
        for rank in [1, 2] {
            ask(&mut server, rank, join);
            assert!(ask(&mut server, rank, &get).ends_with("value=second"));
        }
    }

    #[test]
    fn an_init_after_a_program_that_did_not_finalize_is_told() {
        let mut server = Server::new(1, None);
        let join = "cmd=init pmi_version=1 pmi_subversion=1";
        ask(&mut server, 0, join);
        let answers = server.receive(0, format!("{join}\n").as_bytes());
        assert!(
            matches!(&answers[..], [Answer::Unintelligible(what)] if what.contains("ended without finalizing")),
            "{answers:?}"
        );
    }

    #[test]
    fn a_barrier_opens_for_all_when_the_last_has_come_and_gives_the_tag_back() {
        let mut server = Server::new(2, None);
        for _ in 0..2 {
            assert_eq!(server.receive(1, b"cmd=barrier_in tag=4\n"), []);
            assert!(server.barrier_waits());
            let line = "cmd=barrier_out rc=0 tag=4\n".to_owned();
            let out = |rank| Answer::Reply { rank, line: line.clone() };
            assert_eq!(server.receive(0, b"cmd=barrier_in tag=4\n"), [out(0), out(1)]);
            assert!(!server.barrier_waits());
        }
    }

    #[test]
    fn only_between_init_and_finalize_a_rank_owes_something() {
        let mut server = Server::new(1, None);
        assert!(server.owes_nothing(0));
        ask(&mut server, 0, "cmd=init pmi_version=2 pmi_subversion=0");
        assert!(server.owes_nothing(0));
        ask(&mut server, 0, "cmd=init pmi_version=1 pmi_subversion=1");
        assert!(!server.owes_nothing(0));
        ask(&mut server, 0, "cmd=finalize");
        assert!(server.owes_nothing(0));
    }

    #[test]
    fn an_abort_brings_its_code_and_words() {
        let mut server = Server::new(1, None);
        let answers = server.receive(0, b"cmd=abort exitcode=7 message=no more luck\n");
        assert_eq!(answers, [Answer::Abort { code: 7, message: "no more luck".into() }]);
    }

    #[test]
    fn spawning_is_answered_once_with_an_error() {
        let mut server = Server::new(1, None);
        let spawn = |so_far| {
            format!("mcmd=spawn\nnprocs=1\nexecname=x\ntotspawns=2\nspawnssofar={so_far}\narg1=a b\nendcmd\n")
        };
        assert_eq!(server.receive(0, spawn(1).as_bytes()), []);
        let answers = server.receive(0, spawn(2).as_bytes());
        assert!(
            matches!(&answers[..], [Answer::Reply { line, .. }] if line.starts_with("cmd=spawn_result rc=-1"))
        );
        assert!(ask(&mut server, 0, "cmd=lookup_name service=x").contains("rc=1"));
    }

    #[test]
    fn what_is_not_pmi_is_quoted() {
        let mut server = Server::new(1, None);
        for (bytes, part) in [
            (&b"GET / HTTP/1.1\n"[..], "without a command: 'GET / HTTP/1.1'"),
            (b"cmd=dance\n", "the unknown command 'dance'"),
            (&[b'x'; LINE_BYTES + 1], "a line of over 4096 bytes: 'xxx"),
        ] {
            let answers = server.receive(0, bytes);
            assert!(
                matches!(&answers[..], [Answer::Unintelligible(what)] if what.contains(part)),
                "{answers:?}"
            );
        }
    }

    #[test]
    fn nodes_are_contiguous_nearly_equal_runs_and_the_mapping_says_so() {
        assert_eq!(mapping(4, 1), "(vector,(0,1,4))");
        assert_eq!(mapping(6, 3), "(vector,(0,3,2))");
        assert_eq!(mapping(7, 3), "(vector,(0,1,3),(1,2,2))");
        let nodes = |size, nodes| (0..size).map(|rank| node_of(rank, size, nodes)).collect::<Vec<_>>();
        assert_eq!(nodes(7, 3), [0, 0, 0, 1, 1, 2, 2]);
        assert_eq!(nodes(4, 4), [0, 1, 2, 3]);
        assert_eq!(nodes(3, 1), [0, 0, 0]);
    }

    proptest! {
        #[test]
        fn bytes_in_any_pieces_are_the_same_lines(cuts in proptest::collection::vec(1_usize..9, 1..30)) {
            let text = b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\ncmd=finalize\n";
            let whole = Server::new(1, None).receive(0, text);
            let mut server = Server::new(1, None);
            let (mut pieces, mut rest) = (Vec::new(), &text[..]);
            for cut in cuts.into_iter().cycle() {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                pieces.extend(server.receive(0, piece));
                rest = after;
                if rest.is_empty() { break }
            }
            prop_assert_eq!(whole, pieces);
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
            Server::new(2, None).receive(1, &bytes);
        }

        #[test]
        fn words_of_the_protocol_in_any_order_never_panic(
            words in proptest::collection::vec(
                prop::sample::select(vec![
                    "cmd=", "mcmd=spawn", "init", "put", "get", "barrier_in", "abort", "finalize", " ", "\n", "=",
                    "key=", "value=", "kvsname=", "exitcode=", "endcmd", "totspawns=", "spawnssofar=", "x", "\0",
                ]),
                0..200,
            )
        ) {
            Server::new(1, None).receive(0, words.concat().as_bytes());
        }
    }
}
