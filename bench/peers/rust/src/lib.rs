//! What the programs of krafka and rdkafka share: the task is JSON on stdin, the figures are JSON on
//! stdout.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};

pub const STEP: usize = 10_000;
pub const WAIT_S: u64 = 30;

/// The task, as bench/adapters writes it.
#[derive(Deserialize)]
pub struct Task {
    pub scenario: String,
    pub bootstrap: String,
    pub topic: String,
    pub count: usize,
    pub size: usize,
    pub partitions: i32,
    pub acks: String,
    pub idempotent: bool,
    pub codec: String,
    pub values: Vec<String>,
    pub starts: usize,
}

impl Task {
    pub fn read() -> Self {
        serde_json::from_reader(std::io::stdin()).expect("the task is JSON")
    }

    /// The id of a new group.
    pub fn group(&self, number: usize) -> String {
        format!("{}-rust-{}-{number}", self.topic, std::process::id())
    }
}

/// The result of a measurement.
#[derive(Default, Serialize)]
pub struct Figures {
    count: usize,
    seconds: f64,
    cpu_seconds: f64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    more: BTreeMap<String, f64>,
}

impl Figures {
    /// Adds the median of some times in milliseconds.
    pub fn with_median(mut self, name: &str, mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        self.more.insert(name.to_string(), times[times.len() / 2]);
        self
    }

    pub fn print(&self) {
        println!("{}", serde_json::to_string(self).expect("numbers are JSON"));
    }
}

/// Measures the wall time and the CPU time of this process since it was made.
pub struct Stopwatch {
    cpu_seconds: f64,
    started: Instant,
}

impl Stopwatch {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self {
            cpu_seconds: cpu_seconds(),
            started: Instant::now(),
        }
    }

    pub fn figures(&self, count: usize) -> Figures {
        Figures {
            count,
            seconds: self.started.elapsed().as_secs_f64(),
            cpu_seconds: cpu_seconds() - self.cpu_seconds,
            ..Figures::default()
        }
    }
}

fn cpu_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage() fills the structure that it gets.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
