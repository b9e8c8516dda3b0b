// A program that runs scenarios of bench/ with franz-go. The task is JSON on stdin, the figures are
// JSON on stdout.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type task struct {
	Scenario   string   `json:"scenario"`
	Bootstrap  string   `json:"bootstrap"`
	Topic      string   `json:"topic"`
	Count      int      `json:"count"`
	Partitions int32    `json:"partitions"`
	Acks       string   `json:"acks"`
	Idempotent bool     `json:"idempotent"`
	Codec      string   `json:"codec"`
	Values     []string `json:"values"`
	Size       int      `json:"size"`
	Starts     int      `json:"starts"`
	Rate       int      `json:"rate"`
	Threads    int      `json:"threads"`
	TLS        string   `json:"tls"`
	CA         string   `json:"ca"`
}

type figures struct {
	Count      int     `json:"count"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`

	Percentiles map[string]float64 `json:"percentiles,omitempty"`
	More        map[string]float64 `json:"more,omitempty"`
}

const step = 10_000
const warmUp = 200
const largeBytes = 900_000
const largeLimit = 1_040_000 // for values of 1 MB
const queueMessages = 2_000_000
const timeout = 120 * time.Second

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func options(t task) []kgo.Opt {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	found := []kgo.Opt{
		kgo.ProducerBatchCompression(codecs[t.Codec]),
		kgo.ProducerLinger(5 * time.Millisecond),
		kgo.MaxBufferedRecords(queueMessages),
	}
	if t.TLS != "" {
		authority, err := os.ReadFile(t.CA)
		check(err)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority)
		found = append(found, kgo.SeedBrokers(strings.Split(t.TLS, ",")...), kgo.DialTLSConfig(&tls.Config{RootCAs: roots}))
	} else {
		found = append(found, kgo.SeedBrokers(strings.Split(t.Bootstrap, ",")...))
	}
	if t.Size > largeBytes {
		found = append(found, kgo.ProducerBatchMaxBytes(largeLimit))
	}
	if t.Idempotent || t.Acks == "all" {
		found = append(found, kgo.RequiredAcks(kgo.AllISRAcks()))
	} else if t.Acks == "0" {
		found = append(found, kgo.RequiredAcks(kgo.NoAck()))
	} else {
		found = append(found, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	if !t.Idempotent {
		found = append(found, kgo.DisableIdempotentWrite())
	}
	return found
}

// Produces in a loop. With `report`, a callback counts each delivery.
func produce(ctx context.Context, t task, report bool) (int, time.Duration, float64) {
	client, err := kgo.NewClient(options(t)...)
	check(err)
	defer client.Close()
	values := make([][]byte, len(t.Values))
	for i, value := range t.Values {
		values[i] = []byte(value)
	}
	// The first record: the client is connected before the clock starts.
	check(client.ProduceSync(ctx, &kgo.Record{Topic: t.Topic, Value: values[0]}).FirstErr())
	count := t.Count - 1
	var delivered, failed atomic.Int64
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.Add(1)
		}
	}
	if report {
		promise = func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Add(1)
			} else {
				delivered.Add(1)
			}
		}
	}
	cpu, started := cpuSeconds(), time.Now()
	var loops sync.WaitGroup
	for part := 0; part < t.Threads; part++ {
		loops.Go(func() {
			for i := part; i < count; i += t.Threads {
				client.Produce(ctx, &kgo.Record{Topic: t.Topic, Value: values[i%len(values)]}, promise)
			}
		})
	}
	loops.Wait()
	check(client.Flush(ctx))
	taken, used := time.Since(started), cpuSeconds()-cpu
	if failed.Load() > 0 || (report && delivered.Load() != int64(count)) {
		check(fmt.Errorf("%d messages failed, %d of %d were reported as delivered", failed.Load(), delivered.Load(), count))
	}
	return count, taken, used
}

// Assigns all partitions, from their beginnings.
func byHand(t task) kgo.Opt {
	offsets := map[int32]kgo.Offset{}
	for number := int32(0); number < t.Partitions; number++ {
		offsets[number] = kgo.NewOffset().AtStart()
	}
	return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.Topic: offsets})
}

// Makes the only member of a new group, with the classic protocol.
func inGroup(t task, number int) []kgo.Opt {
	return append(options(t), kgo.ConsumerGroup(fmt.Sprintf("%s-go-%d", t.Topic, number)), kgo.ConsumeTopics(t.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
}

// Polls for up to `recordsMax` records at a time. The first record isn't counted.
func consume(ctx context.Context, t task, recordsMax int, opts ...kgo.Opt) (int, time.Duration, float64) {
	client, err := kgo.NewClient(opts...)
	check(err)
	defer client.Close()
	first := client.PollRecords(ctx, 1).NumRecords()
	taken, bytes := first, 0
	cpu, started := cpuSeconds(), time.Now()
	for taken < t.Count {
		fetches := client.PollRecords(ctx, recordsMax)
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) { bytes += len(record.Value) })
		taken += fetches.NumRecords()
	}
	return taken - first, time.Since(started), cpuSeconds() - cpu
}

// Measures from the making of a client to its first record, as the only member of a new group. The
// median of several runs counts.
func cold(ctx context.Context, t task) (int, time.Duration, float64, map[string]float64) {
	producer, err := kgo.NewClient(options(t)...)
	check(err)
	check(producer.ProduceSync(ctx, &kgo.Record{Topic: t.Topic, Value: []byte("x")}).FirstErr())
	producer.Close()
	times := []float64{}
	cpu, started := cpuSeconds(), time.Now()
	for number := 0; number < t.Starts; number++ {
		began := time.Now()
		client, err := kgo.NewClient(inGroup(t, number)...)
		check(err)
		for taken := 0; taken == 0; {
			fetches := client.PollRecords(ctx, 1)
			check(fetches.Err())
			taken = fetches.NumRecords()
		}
		times = append(times, float64(time.Since(began).Nanoseconds())/1e6)
		client.Close()
	}
	sort.Float64s(times)
	return t.Starts, time.Since(started), cpuSeconds() - cpu, map[string]float64{"first ms": times[len(times)/2]}
}

// Measures from Produce() to the polled record, at a steady rate and without lingering.
func endToEnd(ctx context.Context, t task, warmUp int) (int, time.Duration, float64, map[string]float64) {
	producer, err := kgo.NewClient(append(options(t), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	check(err)
	defer producer.Close()
	stamp := func() *kgo.Record {
		value := make([]byte, max(t.Size, 8))
		binary.LittleEndian.PutUint64(value, uint64(time.Now().UnixNano()))
		return &kgo.Record{Topic: t.Topic, Value: value}
	}
	check(producer.ProduceSync(ctx, stamp()).FirstErr())
	client, err := kgo.NewClient(append(options(t), byHand(t))...)
	check(err)
	defer client.Close()
	check(client.PollRecords(ctx, 1).Err())
	wanted := t.Count + warmUp
	cpu, started := cpuSeconds(), time.Now()
	go steadily(t.Rate, wanted, func(int) {
		producer.Produce(ctx, stamp(), func(_ *kgo.Record, err error) { check(err) })
	})
	times := make([]float64, 0, wanted)
	for len(times) < wanted {
		fetches := client.PollRecords(ctx, step)
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			sent := int64(binary.LittleEndian.Uint64(record.Value))
			times = append(times, float64(time.Now().UnixNano()-sent)/1e6)
		})
	}
	taken, used := time.Since(started), cpuSeconds()-cpu
	return wanted, taken, used, percentiles(times[warmUp:])
}

// Measures from Produce() to the promise of each record, at a steady rate and without lingering.
func roundTrip(ctx context.Context, t task, warmUp int) (int, time.Duration, float64, map[string]float64) {
	client, err := kgo.NewClient(append(options(t), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	check(err)
	defer client.Close()
	value := make([]byte, t.Size)
	check(client.ProduceSync(ctx, &kgo.Record{Topic: t.Topic, Value: value}).FirstErr())
	wanted := t.Count + warmUp
	times := make([]float64, wanted)
	cpu, started := cpuSeconds(), time.Now()
	steadily(t.Rate, wanted, func(number int) {
		began := time.Now()
		client.Produce(ctx, &kgo.Record{Topic: t.Topic, Value: value}, func(_ *kgo.Record, err error) {
			check(err)
			times[number] = float64(time.Since(began).Nanoseconds()) / 1e6
		})
	})
	check(client.Flush(ctx))
	taken, used := time.Since(started), cpuSeconds()-cpu
	return wanted, taken, used, percentiles(times[warmUp:])
}

// Calls `send` at a steady rate. After a delay the calls that are late follow at once.
func steadily(rate int, wanted int, send func(number int)) {
	started := time.Now()
	for number := 0; number < wanted; number++ {
		time.Sleep(time.Until(started.Add(time.Duration(number) * time.Second / time.Duration(rate))))
		send(number)
	}
}

func percentiles(times []float64) map[string]float64 {
	sort.Float64s(times)
	found := map[string]float64{}
	for name, share := range map[string]float64{"p50": 0.5, "p99": 0.99, "p99.9": 0.999} {
		found[name] = times[min(len(times)-1, int(float64(len(times))*share))]
	}
	return found
}

func main() {
	var t task
	check(json.NewDecoder(os.Stdin).Decode(&t))
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var count int
	var taken time.Duration
	var used float64
	var quantiles, more map[string]float64
	switch t.Scenario {
	case "produce", "callback":
		count, taken, used = produce(ctx, t, t.Scenario == "callback")
	case "consume":
		count, taken, used = consume(ctx, t, step, append(options(t), byHand(t))...)
	case "poll":
		count, taken, used = consume(ctx, t, 1, append(options(t), byHand(t))...)
	case "group":
		count, taken, used = consume(ctx, t, step, inGroup(t, 0)...)
	case "cold":
		count, taken, used, more = cold(ctx, t)
	case "end_to_end":
		count, taken, used, quantiles = endToEnd(ctx, t, min(warmUp, 2*t.Rate))
	case "round_trip":
		count, taken, used, quantiles = roundTrip(ctx, t, min(warmUp, 2*t.Rate))
	default:
		check(fmt.Errorf("no scenario %q", t.Scenario))
	}
	check(json.NewEncoder(os.Stdout).Encode(figures{count, taken.Seconds(), used, quantiles, more}))
}
