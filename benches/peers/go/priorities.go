package main

import (
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// As in benches/src/workloads/priorities.rs. Go has no priorities, so both rows are the same here.
const (
	crowd      = 10_000
	crowdPoll  = 10 * time.Microsecond
	urgentRest = 2 * time.Millisecond
	urgentMost = 5 * time.Second
)

// urgent measures how old a message is when its goroutine has it: on the idle runtime, and then among
// 10,000 goroutines that are always ready.
func urgent(p params) measure {
	messages := p.size(400, 100)
	idle := latencies(messages)
	sort.Slice(idle, func(a, b int) bool { return idle[a] < idle[b] })
	var stop atomic.Bool
	var all sync.WaitGroup
	all.Add(crowd)
	for range crowd {
		go func() {
			for !stop.Load() {
				spin(crowdPoll)
				runtime.Gosched()
			}
			all.Done()
		}()
	}
	m := start()
	loaded := latencies(messages)
	result := m.stop(len(loaded))
	stop.Store(true)
	all.Wait()
	return result.byTail(loaded).with("idle_p50_us", percentile(idle, 50)/1e3).with("idle_p99_us", percentile(idle, 99)/1e3)
}

func latencies(messages int) []int64 {
	sent := make(chan time.Time, 1)
	// A thread of its own, which the crowd does not hold up.
	go func() {
		runtime.LockOSThread()
		began := time.Now()
		for range messages {
			if time.Since(began) > urgentMost {
				break
			}
			blockFor(urgentRest)
			sent <- time.Now()
		}
		close(sent)
	}()
	result := make(chan []int64)
	go func() {
		var ages []int64
		for at := range sent {
			ages = append(ages, int64(time.Since(at)))
		}
		result <- ages
	}()
	return <-result
}
