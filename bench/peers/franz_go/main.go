// The scenarios of bench/ for franz-go: a program of its own, the task as JSON on stdin, the figures as JSON on stdout.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
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
}

type figures struct {
	Count      int     `json:"count"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
}

const step = 10_000
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
		kgo.SeedBrokers(strings.Split(t.Bootstrap, ",")...),
		kgo.ProducerBatchCompression(codecs[t.Codec]),
		kgo.ProducerLinger(5 * time.Millisecond),
		kgo.MaxBufferedRecords(queueMessages),
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

// Produce in a loop; with `report`, each delivery is counted by a callback.
func produce(ctx context.Context, t task, report bool) (int, time.Duration, float64) {
	client, err := kgo.NewClient(options(t)...)
	check(err)
	defer client.Close()
	values := make([][]byte, len(t.Values))
	for i, value := range t.Values {
		values[i] = []byte(value)
	}
	check(client.ProduceSync(ctx, &kgo.Record{Topic: t.Topic, Value: values[0]}).FirstErr()) // connected before the clock starts
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
	for i := 0; i < count; i++ {
		client.Produce(ctx, &kgo.Record{Topic: t.Topic, Value: values[i%len(values)]}, promise)
	}
	check(client.Flush(ctx))
	taken, used := time.Since(started), cpuSeconds()-cpu
	if failed.Load() > 0 || (report && delivered.Load() != int64(count)) {
		check(fmt.Errorf("%d messages failed, %d of %d were reported as delivered", failed.Load(), delivered.Load(), count))
	}
	return count, taken, used
}

func consume(ctx context.Context, t task) (int, time.Duration, float64) {
	offsets := map[int32]kgo.Offset{}
	for number := int32(0); number < t.Partitions; number++ {
		offsets[number] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(append(options(t), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.Topic: offsets}))...)
	check(err)
	defer client.Close()
	first := client.PollRecords(ctx, 1).NumRecords()
	taken, bytes := first, 0
	cpu, started := cpuSeconds(), time.Now()
	for taken < t.Count {
		fetches := client.PollRecords(ctx, step)
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) { bytes += len(record.Value) })
		taken += fetches.NumRecords()
	}
	return taken - first, time.Since(started), cpuSeconds() - cpu
}

func main() {
	var t task
	check(json.NewDecoder(os.Stdin).Decode(&t))
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var count int
	var taken time.Duration
	var used float64
	switch t.Scenario {
	case "produce", "callback":
		count, taken, used = produce(ctx, t, t.Scenario == "callback")
	case "consume":
		count, taken, used = consume(ctx, t)
	default:
		check(fmt.Errorf("no scenario %q", t.Scenario))
	}
	check(json.NewEncoder(os.Stdout).Encode(figures{count, taken.Seconds(), used}))
}
