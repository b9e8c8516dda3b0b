// A cluster of kfake, franz-go's own brokers, which Python tests control.
//
// The program prints one line of JSON with the bootstrap servers. Then it reads commands from its
// standard input, one line of JSON each, and prints one line as the answer to each. It ends with
// its input.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type command struct {
	Do        string
	Topic     string
	Partition int32
	Node      int32
	Key       int16
	Every     int64
	Group     string
}

type answer map[string]any

var errCut = errors.New("cut")

type program struct {
	cluster *kfake.Cluster
	cuts    atomic.Int64
}

func main() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.DefaultNumPartitions(3))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	run := &program{cluster: cluster}
	reply(answer{"bootstrap": strings.Join(cluster.ListenAddrs(), ",")})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var wanted command
		if err := json.Unmarshal(lines.Bytes(), &wanted); err != nil {
			reply(answer{"error": err.Error()})
			continue
		}
		reply(run.execute(wanted))
	}
}

func reply(what answer) {
	line, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func (p *program) execute(wanted command) answer {
	switch wanted.Do {
	case "create":
		if err := p.cluster.CreateTopic(wanted.Topic, 3, nil); err != nil {
			return answer{"error": err.Error()}
		}
	case "shuffle":
		p.cluster.ShufflePartitionLeaders()
	case "move":
		if err := p.cluster.MoveTopicPartition(wanted.Topic, wanted.Partition, wanted.Node); err != nil {
			return answer{"error": err.Error()}
		}
	case "rehash":
		p.cluster.RehashCoordinators()
	case "cut":
		p.cut(wanted.Key, wanted.Every)
	case "cuts":
		return answer{"count": p.cuts.Load()}
	case "partition":
		return p.partition(wanted.Topic, wanted.Partition)
	case "group":
		return p.group(wanted.Group)
	default:
		return answer{"error": "unknown command " + wanted.Do}
	}
	return answer{}
}

// cut closes the connection of each request of an API whose number is a multiple of `every`.
// The broker doesn't execute these requests.
func (p *program) cut(key int16, every int64) {
	var seen int64
	p.cluster.ControlKey(key, func(kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		seen++
		if seen%every != 0 {
			return nil, nil, false
		}
		p.cuts.Add(1)
		return nil, errCut, true
	})
}

func (p *program) partition(topic string, partition int32) answer {
	found := p.cluster.PartitionInfo(topic, partition)
	if found == nil {
		return answer{"error": "no such partition"}
	}
	return answer{
		"leader": found.Leader, "epoch": found.Epoch,
		"start": found.LogStartOffset, "end": found.HighWatermark, "stable": found.LastStableOffset,
	}
}

func (p *program) group(name string) answer {
	found := p.cluster.GroupInfo(name)
	if found == nil {
		return answer{"state": "", "members": 0, "assigned": 0, "commits": map[string]any{}}
	}
	commits := map[string]map[int32]int64{}
	for topic, partitions := range found.Commits {
		commits[topic] = map[int32]int64{}
		for partition, commit := range partitions {
			commits[topic][partition] = commit.Offset
		}
	}
	return answer{
		"state": found.State, "members": len(found.Members),
		"assigned": found.NumAssigned(), "commits": commits,
	}
}
