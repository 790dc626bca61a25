//! Who reads what: a rule that every worker of every process works out alike, from the lanes and the numbers of
//! processes and threads.

use crate::engine::ingest::Keepers;
use crate::plan::TablePlan;
use crate::source::LaneInfo;

/// A worker's place among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crew {
    /// This process, from 0.
    pub process: usize,
    /// Processes, at least 1.
    pub processes: usize,
    /// This thread of the process, from 0.
    pub thread: usize,
    /// Threads in each process, at least 1.
    pub threads: usize,
}

impl Crew {
    /// Of worker `index` of all, as timely numbers them: process by process.
    pub fn of(index: usize, processes: usize, threads: usize) -> Crew {
        let threads = threads.max(1);
        Crew { process: index / threads, processes: processes.max(1), thread: index % threads, threads }
    }
    /// This worker's number among all.
    pub fn index(&self) -> usize {
        self.process * self.threads + self.thread
    }
    /// All workers.
    pub fn workers(&self) -> usize {
        self.processes * self.threads
    }
    /// The workers, as those that keep keys.
    pub fn keepers(&self) -> Keepers {
        let first = self.leader(self.process);
        Keepers { workers: self.workers(), here: first..first + self.threads }
    }
    /// The first worker of a process.
    pub fn leader(&self, process: usize) -> usize {
        process * self.threads
    }
}

/// A worker's part of a lane: those blocks with `index % shares == share` that no other reader of this share has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The lane.
    pub lane: usize,
    /// Which part.
    pub share: u64,
    /// Of how many.
    pub shares: u64,
    /// The worker's number among all readers of the lane.
    pub reader: u64,
}

/// A process with fewer lanes than this a thread deals their blocks, not the lanes. Whole lanes are cheaper to open,
/// but leave a thread without work when the lanes, or what the threads have to do beside reading, are unequal.
const LANES_A_THREAD: usize = 4;

/// What a worker reads.
///
/// Lane `l` belongs to process `l mod processes`, and there its threads take the process's lanes in turn; if the process
/// has fewer than four lanes a thread, its threads share each lane that can be split: whichever is ready takes the next
/// block. If there are fewer lanes than processes, the blocks of each lane that can be split are dealt to the processes
/// in turn, and there to whichever thread is ready. Which thread reads a block shows in no result.
pub fn deal(lanes: &[LaneInfo], crew: Crew) -> Vec<Share> {
    let Crew { process, processes, thread, threads } = crew;
    let few = lanes.len() < processes;
    let mine = dealt(lanes.len(), process, processes);
    let part = |(lane, info): (usize, &LaneInfo)| {
        if few && info.splittable {
            return Some(Share { lane, share: process as u64, shares: processes as u64, reader: crew.index() as u64 });
        }
        if lane % processes != process {
            return None;
        }
        if is_shared(mine, threads) && info.splittable {
            return Some(Share { lane, share: 0, shares: 1, reader: thread as u64 });
        }
        (lane / processes % threads == thread).then_some(Share { lane, share: 0, shares: 1, reader: 0 })
    };
    lanes.iter().enumerate().filter_map(part).collect()
}

/// Whether the threads of a process share its lanes.
fn is_shared(lanes: usize, threads: usize) -> bool {
    threads > 1 && lanes < threads * LANES_A_THREAD
}

/// How many of so many lanes belong to a process.
fn dealt(lanes: usize, process: usize, processes: usize) -> usize {
    (lanes + processes - 1 - process) / processes
}

/// The lanes as they are dealt: if the table's delay follows the disorder of its partitions, or if other tables read them too, one worker
/// reads each from its beginning.
pub fn as_dealt(table: &TablePlan, lanes: &[LaneInfo], teed: bool) -> Vec<LaneInfo> {
    let splittable = |lane: &LaneInfo| lane.splittable && table.policy.is_none() && !teed;
    lanes.iter().map(|lane| LaneInfo { splittable: splittable(lane), ..lane.clone() }).collect()
}

/// How many workers of all share a lane.
pub fn sharers(lanes: &[LaneInfo], lane: usize, processes: usize, threads: usize) -> usize {
    if !lanes.get(lane).is_some_and(|l| l.splittable) {
        return 1;
    }
    if lanes.len() < processes {
        return processes * threads;
    }
    if is_shared(dealt(lanes.len(), lane % processes, processes), threads) { threads } else { 1 }
}

/// Who reads each lane, in words.
pub fn in_words(lanes: &[LaneInfo], processes: usize, threads: usize) -> String {
    let mut out = String::new();
    for (number, lane) in lanes.iter().enumerate() {
        let process = number % processes;
        let shared = sharers(lanes, number, processes, threads) > 1;
        let who = match (shared, processes) {
            (true, 1) => format!("its blocks by whichever of the {threads} threads is ready"),
            (true, _) if lanes.len() < processes => match threads {
                1 => format!("its blocks in turn by the {processes} processes"),
                _ => format!("its blocks in turn by the {processes} processes, there by any of {threads} threads"),
            },
            (true, _) => format!("process {process}, its blocks by whichever of the {threads} threads is ready"),
            (false, 1) => format!("thread {}", number % threads),
            (false, _) => format!("process {process}, thread {}", number / processes % threads),
        };
        out.push_str(&format!("    {}: {who}\n", lane.name));
    }
    out
}

/// Whether a process reads any of a lane.
pub fn reads(table: &TablePlan, lanes: &[LaneInfo], lane: usize, process: usize, processes: usize) -> bool {
    let splittable = table.policy.is_none() && lanes.get(lane).is_some_and(|lane| lane.splittable);
    splittable && lanes.len() < processes || lane % processes.max(1) == process
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn lanes(splittable: &[bool]) -> Vec<LaneInfo> {
        let lane = |s: &bool| LaneInfo { name: String::new(), files: Vec::new(), bytes: None, splittable: *s };
        splittable.iter().map(lane).collect()
    }

    /// Every block of every lane is read by the readers of exactly one process, who take it once; whatever the numbers.
    #[test]
    fn every_block_has_one_reader() {
        let sql = "CREATE TABLE t (et TIMESTAMP, WATERMARK FOR et AS et) WITH (connector = 'stdin', format = 'json'); SELECT et FROM t;";
        let program = crate::sql::plan("t", sql, &crate::sql::BareSelectDefaults::default()).expect("a program");
        let table = program.tables[0].clone();
        for processes in 1..5 {
            for threads in 1..4 {
                for count in 0..8usize {
                    for mask in 0..(1usize << count) {
                        let lanes = lanes(&(0..count).map(|l| mask >> l & 1 == 1).collect::<Vec<_>>());
                        // Per lane, the share of each process that reads it, and the readers' numbers.
                        let mut shares = vec![BTreeMap::new(); count];
                        let mut readers = vec![Vec::new(); count];
                        for index in 0..processes * threads {
                            let crew = Crew::of(index, processes, threads);
                            assert_eq!(crew.index(), index);
                            for part in deal(&lanes, crew) {
                                assert!(reads(&table, &lanes, part.lane, crew.process, processes));
                                assert!(lanes[part.lane].splittable || part.shares == 1);
                                let share = (part.share, part.shares);
                                assert_eq!(*shares[part.lane].entry(crew.process).or_insert(share), share);
                                readers[part.lane].push(part.reader);
                            }
                        }
                        for lane in 0..count {
                            let readers_of = |b| shares[lane].values().filter(|(s, of)| b % of == *s).count();
                            assert!((0..24).all(|b| readers_of(b) == 1), "{processes} × {threads}, {lanes:?}");
                            let sharers = sharers(&lanes, lane, processes, threads) as u64;
                            assert_eq!(readers[lane], (0..sharers).collect::<Vec<_>>());
                        }
                    }
                }
            }
        }
    }

    /// What is said is what is done.
    #[test]
    fn words_name_the_reader() {
        for (processes, threads, count) in [(1, 1, 2), (1, 3, 2), (2, 2, 5), (2, 2, 1), (3, 1, 4), (2, 3, 3)] {
            for splittable in [false, true] {
                let lanes = lanes(&vec![splittable; count]);
                let words = in_words(&lanes, processes, threads);
                for (lane, line) in words.lines().enumerate() {
                    let workers = (0..processes * threads).map(|i| Crew::of(i, processes, threads));
                    let readers: Vec<Crew> =
                        workers.filter(|crew| deal(&lanes, *crew).iter().any(|s| s.lane == lane)).collect();
                    if let [one] = readers[..] {
                        let thread = line.contains(&format!("thread {}", one.thread));
                        assert!(thread, "{line}: {one:?}");
                        assert!(
                            processes == 1 || line.contains(&format!("process {}", one.process)),
                            "{line}: {one:?}"
                        );
                    } else {
                        let of = readers.iter().map(|crew| crew.process).collect::<BTreeSet<_>>().len();
                        assert_eq!(readers.len(), of * if line.contains("threads") { threads } else { 1 }, "{line}");
                        assert_eq!(of > 1, line.contains(&format!("the {of} processes")), "{line}");
                    }
                }
            }
        }
    }

    #[test]
    fn lanes_are_dealt_to_processes_first() {
        let read = |count: usize, index| {
            let all = lanes(&vec![true; count]);
            deal(&all, Crew::of(index, 2, 2)).iter().map(|s| (s.lane, s.shares)).collect::<Vec<_>>()
        };
        assert_eq!(read(5, 0), [(0, 1), (2, 1), (4, 1)]);
        assert_eq!(read(5, 1), read(5, 0));
        assert_eq!(read(5, 2), [(1, 1), (3, 1)]);
        // Enough for each thread to have its own.
        assert_eq!(read(17, 0), [0, 4, 8, 12, 16].map(|lane| (lane, 1)));
        assert_eq!(read(17, 1), [2, 6, 10, 14].map(|lane| (lane, 1)));
        assert_eq!(read(17, 3).first(), Some(&(3, 1)));
        let one = lanes(&[true]);
        let shares: Vec<_> = (0..4).map(|i| deal(&one, Crew::of(i, 2, 2))).collect();
        assert_eq!(shares[2], [Share { lane: 0, share: 1, shares: 2, reader: 2 }]);
    }
}
