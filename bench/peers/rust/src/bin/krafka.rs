//! Runs scenarios of bench/ with krafka.

use std::error::Error;
use std::time::{Duration, Instant};

use bench_peers::{Figures, STEP, Stopwatch, Task, WAIT_S};
use krafka::consumer::{AutoOffsetReset, Consumer};
use krafka::producer::{Acks, Producer};

use krafka::{Compression, Kafka, Record};

type Outcome<T> = Result<T, Box<dyn Error>>;

const WAIT: Duration = Duration::from_secs(WAIT_S);
const HANDLES: usize = 100_000; // deliveries in flight before the oldest one is awaited

async fn producer(kafka: &Kafka, task: &Task) -> Outcome<Producer> {
    let acks = match (task.idempotent, task.acks.as_str()) {
        (true, _) | (_, "all") => Acks::All,
        (_, "0") => Acks::None,
        _ => Acks::Leader,
    };
    let codec = match task.codec.as_str() {
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => Compression::None,
    };
    let made = kafka
        .producer()
        .acks(acks)
        .idempotent(task.idempotent)
        .compression(codec)
        .linger(Duration::from_millis(5))
        .batch_size(262_144)
        .buffer_memory(256 * 1024 * 1024)
        .build()
        .await?;
    Ok(made)
}

/// Enqueues in a loop. Each delivery is awaited, since a dropped handle hides an error.
async fn produce(kafka: &Kafka, task: &Task) -> Outcome<Figures> {
    let producer = producer(kafka, task).await?;
    let _ = producer
        .send(Record::new(&task.topic, task.values[0].clone()))
        .await?;
    let values: Vec<bytes::Bytes> = task.values.iter().cloned().map(Into::into).collect();
    let count = task.count - 1;
    let mut handles = std::collections::VecDeque::with_capacity(HANDLES);
    let watch = Stopwatch::new();
    for number in 0..count {
        if handles.len() == HANDLES {
            let _ = handles.pop_front().expect("it is full").await?;
        }
        let record = Record::new(&task.topic, values[number % values.len()].clone());
        handles.push_back(producer.enqueue(record).await?);
    }
    producer.flush().await?;
    for handle in handles {
        let _ = handle.await?;
    }
    let figures = watch.figures(count);
    producer.close().await?;
    Ok(figures)
}

async fn consumer(kafka: &Kafka, task: &Task, group: Option<usize>) -> Outcome<Consumer> {
    let builder = match group {
        Some(number) => kafka.consumer(task.group(number)),
        None => kafka.consumer_without_group(),
    };
    let consumer = builder
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .max_poll_records(STEP as i32)
        .max_partition_fetch_bytes(8 * 1024 * 1024)
        .build()
        .await?;
    match group {
        Some(_) => consumer.subscribe([&task.topic]).await?,
        None => {
            consumer
                .assign(&task.topic, (0..task.partitions).collect())
                .await?;
            for number in 0..task.partitions {
                consumer.seek_to_beginning(&task.topic, number).await?;
            }
        }
    }
    Ok(consumer)
}

/// Polls up to 10,000 records at a time, from the second poll on.
async fn consume(kafka: &Kafka, task: &Task, group: Option<usize>) -> Outcome<Figures> {
    let consumer = consumer(kafka, task, group).await?;
    let first = consumer.poll(WAIT).await?.len();
    let (mut taken, mut bytes) = (first, 0);
    let watch = Stopwatch::new();
    while taken < task.count {
        let records = consumer.poll(WAIT).await?;
        if records.is_empty() {
            return Err(format!("only {taken} of {} messages came", task.count).into());
        }
        for record in &records {
            bytes += record.value.as_ref().map_or(0, |value| value.len());
        }
        taken += records.len();
    }
    let figures = watch.figures(taken - first);
    assert!(bytes > 0 || task.size == 0);
    consumer.close().await?;
    Ok(figures)
}

async fn cold(task: &Task) -> Outcome<Figures> {
    let kafka = Kafka::builder(task.bootstrap.clone()).connect().await?;
    let producer = producer(&kafka, task).await?;
    let _ = producer.send(Record::new(&task.topic, "x")).await?;
    producer.close().await?;
    let mut times = Vec::new();
    let watch = Stopwatch::new();
    for number in 0..task.starts {
        let began = Instant::now();
        let kafka = Kafka::builder(task.bootstrap.clone()).connect().await?;
        let consumer = consumer(&kafka, task, Some(number)).await?;
        while consumer.poll(WAIT).await?.is_empty() {}
        times.push(began.elapsed().as_secs_f64() * 1e3);
        consumer.close().await?;
    }
    Ok(watch.figures(task.starts).with_median("first ms", times))
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let task = Task::read();
    let kafka = Kafka::builder(task.bootstrap.clone()).connect().await?;
    let figures = match task.scenario.as_str() {
        "produce" => produce(&kafka, &task).await?,
        "consume" => consume(&kafka, &task, None).await?,
        "group" => consume(&kafka, &task, Some(0)).await?,
        "cold" => cold(&task).await?,
        other => return Err(format!("no scenario {other}").into()),
    };
    figures.print();
    Ok(())
}
