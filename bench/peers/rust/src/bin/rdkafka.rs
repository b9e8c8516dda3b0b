//! Runs scenarios of bench/ with rdkafka, the Rust API of librdkafka.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bench_peers::{Figures, Stopwatch, Task, WAIT_S};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

type Outcome<T> = Result<T, Box<dyn Error>>;

const WAIT: Duration = Duration::from_secs(WAIT_S);

/// Counts delivery reports.
#[derive(Default)]
struct Reports {
    delivered: AtomicUsize,
    failed: AtomicUsize,
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let counter = if result.is_ok() {
            &self.delivered
        } else {
            &self.failed
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn producer(task: &Task) -> Outcome<ThreadedProducer<Reports>> {
    let acks = if task.idempotent { "all" } else { &task.acks };
    let large = task.size > 900_000;
    let made = ClientConfig::new()
        .set("bootstrap.servers", &task.bootstrap)
        .set("acks", acks)
        .set("enable.idempotence", task.idempotent.to_string())
        .set("compression.type", &task.codec)
        .set("queue.buffering.max.messages", "2000000")
        .set("message.max.bytes", if large { "1040000" } else { "1000000" })
        .create_with_context(Reports::default())?;
    Ok(made)
}

/// Sends in a loop. A thread of rdkafka takes each delivery report, so this is `callback`, too.
fn produce(task: &Task) -> Outcome<Figures> {
    let producer = producer(task)?;
    let send = |value: &str| -> Outcome<()> {
        let mut record = BaseRecord::<(), str>::to(&task.topic).payload(value);
        while let Err((error, back)) = producer.send(record) {
            if !matches!(
                error,
                KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)
            ) {
                return Err(error.into());
            }
            std::thread::sleep(Duration::from_millis(10));
            record = back;
        }
        Ok(())
    };
    send(&task.values[0])?;
    producer.flush(WAIT)?;
    let count = task.count - 1;
    let watch = Stopwatch::new();
    for number in 0..count {
        send(&task.values[number % task.values.len()])?;
    }
    producer.flush(4 * WAIT)?;
    let figures = watch.figures(count);
    let reports = producer.context();
    let delivered = reports.delivered.load(Ordering::Relaxed);
    if delivered != count + 1 {
        let failed = reports.failed.load(Ordering::Relaxed);
        return Err(
            format!("{failed} messages failed, {delivered} of {count} were reported").into(),
        );
    }
    Ok(figures)
}

fn consumer(task: &Task, group: Option<usize>) -> Outcome<BaseConsumer> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &task.bootstrap)
        .set("group.id", task.group(group.unwrap_or(0)))
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", group.is_some().to_string())
        .set("queued.min.messages", "1000000")
        .set("fetch.queue.backoff.ms", "1")
        .create()?;
    if group.is_some() {
        consumer.subscribe(&[&task.topic])?;
    } else {
        let mut all = TopicPartitionList::new();
        for number in 0..task.partitions {
            all.add_partition_offset(&task.topic, number, Offset::Beginning)?;
        }
        consumer.assign(&all)?;
    }
    Ok(consumer)
}

/// Takes the next message. poll() also returns after an event of the group, without a message.
fn next<'a>(consumer: &'a BaseConsumer, taken: usize) -> Outcome<BorrowedMessage<'a>> {
    let deadline = Instant::now() + WAIT;
    while Instant::now() < deadline {
        if let Some(message) = consumer.poll(WAIT) {
            return Ok(message?);
        }
    }
    Err(format!("only {taken} messages came").into())
}

/// Polls one message at a time, the only way that rdkafka has. The first one isn't counted.
fn consume(task: &Task, group: Option<usize>) -> Outcome<Figures> {
    let consumer = consumer(task, group)?;
    next(&consumer, 0)?;
    let mut bytes = 0;
    let watch = Stopwatch::new();
    for taken in 1..task.count {
        let message = next(&consumer, taken)?;
        bytes += message.payload().map_or(0, |value| value.len());
    }
    let figures = watch.figures(task.count - 1);
    assert!(bytes > 0 || task.size == 0);
    Ok(figures)
}

fn cold(task: &Task) -> Outcome<Figures> {
    let producer = producer(task)?;
    producer
        .send(BaseRecord::<(), str>::to(&task.topic).payload("x"))
        .map_err(|(error, _)| error)?;
    producer.flush(WAIT)?;
    let mut times = Vec::new();
    let watch = Stopwatch::new();
    for number in 0..task.starts {
        let began = Instant::now();
        let consumer = consumer(task, Some(number))?;
        next(&consumer, 0)?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(watch.figures(task.starts).with_median("first ms", times))
}

fn main() -> Outcome<()> {
    let task = Task::read();
    let figures = match task.scenario.as_str() {
        "produce" => produce(&task)?,
        "consume" => consume(&task, None)?,
        "group" => consume(&task, Some(0))?,
        "cold" => cold(&task)?,
        other => return Err(format!("no scenario {other}").into()),
    };
    figures.print();
    Ok(())
}
