//! Timely over two ends of a mesh. Each test runs itself again in a process of its own, whose stderr must stay empty:
//! timely's network threads say there what went wrong.

use super::*;
use crate::cluster::{LossReason, allocators};
use std::process::Command;
use timely::dataflow::operators::{Exchange, Input, Inspect, Probe};

/// Set in the process that does the work.
const CHILD: &str = "SLACKWATER_TEST_CHILD";

/// Runs `work` in a process of its own, and expects nothing on stderr.
fn quietly(name: &str, work: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some_and(|child| child == name) {
        return work();
    }
    let name_of_test = format!("cluster::tests::with_timely::{name}");
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output =
        command.args([&name_of_test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, name).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
    assert_eq!(err, "");
}

const ROUNDS: u64 = 200;

/// How many rounds, and how long each waits.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub(super) rounds: u64,
    pub(super) pause: Duration,
}

const FAST: Pace = Pace { rounds: ROUNDS, pause: Duration::ZERO };

/// Every worker sends numbers round by round; gives their sum as received here, and how it ended.
pub(super) fn run(
    mesh: Mesh,
    threads: usize,
    pace: Pace,
    at_round: impl Fn(u64, &Watch) + Send + Sync + 'static,
) -> (u64, Arc<Watch>) {
    let (builders, guard, watch) = allocators(mesh, threads).unwrap();
    let (for_workers, after) = (Arc::clone(&watch), Arc::clone(&watch));
    let guards = timely::execute::execute_from(builders, guard, timely::WorkerConfig::default(), move |worker| {
        let sum = std::rc::Rc::new(std::cell::Cell::new(0));
        let (adding, peers) = (std::rc::Rc::clone(&sum), worker.peers() as u64);
        let (mut input, probe) = worker.dataflow(|scope| {
            let (input, stream) = scope.new_input::<Vec<u64>>();
            let (probe, _) = stream.exchange(|n| *n).inspect(move |n| adding.set(adding.get() + n)).probe();
            (input, probe)
        });
        for round in 0..pace.rounds {
            thread::sleep(pace.pause);
            (0..50 * peers).for_each(|n| input.send(n));
            input.advance_to(round + 1);
            at_round(round, &for_workers);
            while probe.less_than(input.time()) {
                worker.step_or_park(Some(Duration::from_millis(1)));
                if for_workers.lost().is_some() {
                    drop(input);
                    for dataflow in worker.installed_dataflows() {
                        worker.drop_dataflow(dataflow);
                    }
                    return sum.get();
                }
            }
        }
        drop(input);
        while worker.has_dataflows() && for_workers.lost().is_none() {
            worker.step_or_park(Some(Duration::from_millis(1)));
        }
        for dataflow in worker.installed_dataflows() {
            worker.drop_dataflow(dataflow);
        }
        sum.get()
    });
    let sum = guards.unwrap().join().into_iter().map(|sum| sum.unwrap()).sum();
    (sum, after)
}

/// A mesh of two with two workers each.
fn two_by_two() -> Vec<Mesh> {
    let mut two = members(2);
    for member in &mut two {
        member.config.threads = 2;
        member.terms.threads = 2;
    }
    mesh_of(two)
}

#[test]
fn a_computation_ends_cleanly() {
    quietly("a_computation_ends_cleanly", || {
        let ends: Vec<_> =
            two_by_two().into_iter().map(|mesh| thread::spawn(|| run(mesh, 2, FAST, |_, _| ()))).collect();
        let ends: Vec<_> = ends.into_iter().map(|end| end.join().unwrap()).collect();
        let sum: u64 = ends.iter().map(|(sum, _)| sum).sum();
        assert_eq!(sum, ROUNDS * 4 * (0..200).sum::<u64>());
        for (_, watch) in ends {
            assert_eq!(watch.lost(), None);
            assert!(watch.traffic()[0].sent_payload_bytes > 0);
        }
    });
}

#[test]
fn a_loss_in_the_middle_ends_both_without_a_panic() {
    quietly("a_loss_in_the_middle_ends_both_without_a_panic", || {
        let cut = |round: u64, watch: &Watch| {
            if round == ROUNDS / 2 {
                watch.connections()[0].close();
            }
        };
        let mut meshes = two_by_two();
        let one = meshes.pop().map(|mesh| thread::spawn(move || run(mesh, 2, FAST, cut))).unwrap();
        let zero = meshes.pop().map(|mesh| thread::spawn(|| run(mesh, 2, FAST, |_, _| ()))).unwrap();
        for (process, end) in [zero, one].into_iter().enumerate() {
            let (_, watch) = end.join().unwrap();
            let loss = watch.lost().unwrap();
            assert_eq!((loss.process, loss.reason), (1 - process, LossReason::Closed));
        }
        // The network threads have been let go; were they to say something, they would now.
        thread::sleep(Duration::from_millis(300));
    });
}

#[test]
fn an_abort_in_the_middle_ends_the_other_without_a_panic() {
    quietly("an_abort_in_the_middle_ends_the_other_without_a_panic", || {
        let mut meshes = two_by_two();
        let watch = meshes[1].watch();
        // One that has formed and does not run: its worker failed before it began.
        let one = meshes.pop().unwrap();
        let zero = meshes.pop().map(|mesh| thread::spawn(|| run(mesh, 2, FAST, |_, _| ()))).unwrap();
        thread::sleep(Duration::from_millis(50));
        watch.abort_all("cannot open the output");
        let (_, watch) = zero.join().unwrap();
        assert!(watch.lost().unwrap().to_string().ends_with(") gave up: cannot open the output"));
        drop(one);
        thread::sleep(Duration::from_millis(300));
    });
}
