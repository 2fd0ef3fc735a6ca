package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// requestReply asks from main, which is a goroutine here as any other.
func requestReply(p params) measure {
	trips := p.size(20_000, 5_000)
	requests, replies := make(chan int, 1), make(chan int, 1)
	go func() {
		for question := range requests {
			replies <- question + 1
		}
	}()
	ask := func(trips int) {
		for trip := range trips {
			requests <- trip
			check(<-replies == trip+1, "the answer to this question")
		}
	}
	ask(trips / 10)
	m := start()
	ask(trips)
	measured := m.stop(trips)
	close(requests)
	return measured
}

// parked weighs goroutines that wait for ever: the heap's and the stacks' bytes in use, which is what Go counts as asked
// of its allocator, and resident memory beside it. There is no counterpart to shutdown_1M: a Go runtime ends with its process.
func parked(p params) measure {
	n := p.size(1_000_000, 200_000)
	inUse := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapInuse + stats.StackInuse + stats.OtherSys + stats.GCSys)
	}
	bytesBefore, rssBefore := inUse(), rssBytes()
	never := make(chan struct{})
	var waiting atomic.Int64
	m := start()
	for range n {
		go func() {
			waiting.Add(1)
			<-never
		}()
	}
	for waiting.Load() < int64(n) {
		time.Sleep(time.Millisecond)
	}
	measured := m.stop(n)
	measured.Value = float64(inUse()-bytesBefore) / float64(n)
	measured = measured.with("rss_bytes", float64(rssBytes()-rssBefore)/float64(n))
	runtime.KeepAlive(never)
	return measured
}

func rssBytes() int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		panic(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)
	if err != nil {
		panic(err)
	}
	return pages * int64(os.Getpagesize())
}

// idleCPU lets a little happen, so that all of it is up, and is left alone.
func idleCPU(p params) measure {
	seconds := p.size(5, 1)
	for range 100 {
		var one sync.WaitGroup
		one.Add(1)
		go func() {
			time.Sleep(100 * time.Microsecond)
			one.Done()
		}()
		one.Wait()
	}
	time.Sleep(100 * time.Millisecond)
	m := start()
	time.Sleep(time.Duration(seconds) * time.Second)
	measured := m.stop(seconds)
	measured.Value = measured.CPUNs
	return measured.with("cpu_total_us", measured.CPUNs*float64(seconds)/1e3)
}
