// The rows of ws-bench on Go: a program of its own that takes the same requests and prints the same
// line as a child of the suite does.
//
//	go-bench --rows go                                names the rows that it has
//	go-bench --child ROW go --workers N [--quick]     runs one, and prints its outcome as JSON
//
// A row does what the Rust workload of that name does, with the same sizes, the way a Go programmer
// would write it: goroutines for tasks, channels for channels, sync.WaitGroup for joins.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// params is what a row has to know.
type params struct {
	workers int
	quick   bool
}

func (p params) size(full, quick int) int {
	if p.quick {
		return quick
	}
	return full
}

func (p params) millis(full, quick int) time.Duration {
	return time.Duration(p.size(full, quick)) * time.Millisecond
}

type extra struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// measure is one turn's figures, under the names that the suite reads.
type measure struct {
	Value       float64 `json:"value"`
	Ops         int     `json:"ops"`
	WallNs      float64 `json:"wall_ns"`
	CPUNs       float64 `json:"cpu_ns"`
	Voluntary   float64 `json:"voluntary"`
	Involuntary float64 `json:"involuntary"`
	PeakRssKib  int     `json:"peak_rss_kib"`
	Extras      []extra `json:"extras"`
}

func (m measure) with(name string, value float64) measure {
	m.Extras = append(m.Extras, extra{name, value})
	return m
}

// byLatencies compares by the median.
func (m measure) byLatencies(ns []int64) measure {
	sort.Slice(ns, func(a, b int) bool { return ns[a] < ns[b] })
	m.Value = percentile(ns, 50)
	return m.with("p50_us", percentile(ns, 50)/1e3).with("p99_us", percentile(ns, 99)/1e3)
}

// byTail compares by the 99th percentile.
func (m measure) byTail(ns []int64) measure {
	sort.Slice(ns, func(a, b int) bool { return ns[a] < ns[b] })
	return m.tail(percentile(ns, 50), percentile(ns, 99), percentile(ns, 100))
}

func (m measure) tail(p50, p99, most float64) measure {
	m.Value = p99
	return m.with("p50_us", p50/1e3).with("p99_us", p99/1e3).with("max_us", most/1e3)
}

// percentile is the nearest rank of a sorted list.
func percentile(sorted []int64, percent int) float64 {
	rank := (len(sorted)*percent + 99) / 100
	return float64(sorted[max(rank, 1)-1])
}

// meter spans the measured part.
type meter struct {
	before syscall.Rusage
	began  time.Time
}

func usage() syscall.Rusage {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u
}

func start() meter {
	return meter{usage(), time.Now()}
}

func (m meter) stop(ops int) measure {
	return m.stopAfter(ops, time.Since(m.began))
}

func (m meter) stopAfter(ops int, wall time.Duration) measure {
	after := usage()
	n := float64(ops)
	cpu := func(u syscall.Rusage) int64 { return u.Utime.Nano() + u.Stime.Nano() }
	each := float64(wall.Nanoseconds()) / n
	return measure{
		Value:       each,
		Ops:         ops,
		WallNs:      each,
		CPUNs:       float64(cpu(after)-cpu(m.before)) / n,
		Voluntary:   float64(after.Nvcsw-m.before.Nvcsw) / n,
		Involuntary: float64(after.Nivcsw-m.before.Nivcsw) / n,
		Extras:      []extra{},
	}
}

// twice does the work once to warm up, then once under the meter.
func twice(ops int, work func()) measure {
	work()
	m := start()
	work()
	return m.stop(ops)
}

func peakRssKib() int {
	status, err := os.Open("/proc/self/status")
	if err != nil {
		panic(err)
	}
	defer status.Close()
	lines := bufio.NewScanner(status)
	for lines.Scan() {
		if rest, found := strings.CutPrefix(lines.Text(), "VmHWM:"); found {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(rest, "kB")))
			if err != nil {
				panic(err)
			}
			return kib
		}
	}
	panic("/proc/self/status has no VmHWM")
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "go-bench: "+format+"\n", arguments...)
	os.Exit(1)
}

func main() {
	if len(os.Args) >= 2 && os.Args[1] == "--rows" {
		for _, row := range rows {
			fmt.Println(row.name)
		}
		return
	}
	if len(os.Args) < 6 || os.Args[1] != "--child" || os.Args[4] != "--workers" {
		fail("usage: go-bench --rows go | --child ROW go --workers N [--quick]")
	}
	workers, err := strconv.Atoi(os.Args[5])
	if err != nil {
		fail("%v", err)
	}
	p := params{workers, len(os.Args) > 6 && os.Args[6] == "--quick"}
	for _, row := range rows {
		if row.name != os.Args[2] {
			continue
		}
		if row.workers > 0 {
			p.workers = row.workers
		}
		runtime.GOMAXPROCS(p.workers)
		m := row.run(p)
		m.PeakRssKib = peakRssKib()
		line, err := json.Marshal(map[string]measure{"measured": m})
		if err != nil {
			fail("%v", err)
		}
		fmt.Println(string(line))
		return
	}
	fail("no row `%s`", os.Args[2])
}
