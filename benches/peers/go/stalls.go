package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	tickers = 100
	period  = 5 * time.Millisecond
)

// ticking says how late each of so many ticks of 100 goroutines is.
func ticking(ticks int) []int64 {
	late := make([]int64, tickers*ticks)
	var all sync.WaitGroup
	all.Add(tickers)
	for i := range tickers {
		go func() {
			due := time.Now()
			// A time.Ticker drops ticks that nobody took; the same on sleeps does not.
			for tick := range ticks {
				due = due.Add(period)
				time.Sleep(time.Until(due))
				late[i*ticks+tick] = int64(time.Since(due))
			}
			all.Done()
		}()
	}
	all.Wait()
	return late
}

func block()      { blockFor(100 * time.Millisecond) }
func compute100() { spin(100 * time.Millisecond) }
func compute300() { spin(300 * time.Millisecond) }

func length(p params) time.Duration { return p.millis(1_500, 700) }

// beside measures the work beside two goroutines that stall over and over.
func beside(stall func(), work func() measure) measure {
	var over atomic.Bool
	for range 2 {
		go func() {
			for !over.Load() {
				stall()
			}
		}()
	}
	result := work()
	over.Store(true)
	return result
}

func ticksBeside(p params, stall func()) measure {
	return beside(stall, func() measure {
		m := start()
		late := ticking(int(length(p) / period))
		return m.stop(len(late)).byTail(late)
	})
}

func echoBeside(p params, stall func()) measure {
	return beside(stall, func() measure {
		result, load := serveAndDrive(1, length(p), time.Millisecond)
		return result.tail(load.P50, load.P99, load.Max)
	})
}

func echo(p params, connections int) measure {
	result, load := serveAndDrive(connections, p.millis(400, 250), 0)
	return result.with("p50_us", load.P50/1e3).with("p99_us", load.P99/1e3).
		with("kmsg_per_s", float64(load.Messages)/float64(load.WallNs)*1e6)
}

// load is what the client measured.
type load struct {
	Messages int     `json:"messages"`
	WallNs   int64   `json:"wall_ns"`
	P50      float64 `json:"p50_ns"`
	P99      float64 `json:"p99_ns"`
	Max      float64 `json:"max_ns"`
}

// serveAndDrive serves while the suite's own client, in another process, sends messages.
func serveAndDrive(connections int, length, pace time.Duration) (measure, load) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				panic(err)
			}
			go sendBack(connection)
		}
	}()

	client := exec.Command(os.Getenv("WS_BENCH_CLIENT"), "--client", listener.Addr().String(),
		strconv.Itoa(connections), strconv.FormatInt(length.Milliseconds(), 10),
		strconv.FormatInt(pace.Microseconds(), 10))
	client.Stderr = os.Stderr
	input, err := client.StdinPipe()
	if err != nil {
		panic(err)
	}
	pipe, err := client.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := client.Start(); err != nil {
		panic(err)
	}
	output := bufio.NewReader(pipe)
	line, err := output.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "ready" {
		panic(fmt.Sprintf("the client did not start: %q, %v", line, err))
	}
	m := start()
	fmt.Fprintln(input, "go")
	line, err = output.ReadString('\n')
	if err != nil {
		panic(err)
	}
	var measured load
	if err := json.Unmarshal([]byte(line), &measured); err != nil {
		panic(err)
	}
	result := m.stopAfter(measured.Messages, time.Duration(measured.WallNs))
	input.Close()
	if err := client.Wait(); err != nil {
		panic(err)
	}
	return result, measured
}

func sendBack(connection net.Conn) {
	defer connection.Close()
	buffer := make([]byte, 1024)
	for {
		n, err := connection.Read(buffer)
		if err == io.EOF {
			return
		}
		if err == nil {
			_, err = connection.Write(buffer[:n])
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "echo: a connection ended:", err)
			return
		}
	}
}

// hello is net/http under wrk. Without wrk the suite has skipped the row on other runtimes, too.
func hello(p params) measure {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "Hello, world!\n")
	}))
	m := start()
	output, err := exec.Command("wrk", "-t1", "--latency", "-c64",
		fmt.Sprintf("-d%ds", p.size(2, 1)), "http://"+listener.Addr().String()+"/").Output()
	if err != nil {
		fail("wrk: %v", err)
	}
	requests, seconds, p50, p99 := 0, 0.0, 0.0, 0.0
	for _, line := range strings.Split(string(output), "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 2 && fields[0] == "50%":
			p50 = micros(fields[1])
		case len(fields) == 2 && fields[0] == "99%":
			p99 = micros(fields[1])
		case len(fields) > 4 && fields[1] == "requests":
			requests, _ = strconv.Atoi(fields[0])
			seconds = micros(strings.TrimSuffix(fields[3], ",")) / 1e6
		}
	}
	if requests == 0 || strings.Contains(string(output), "Socket errors") {
		fail("wrk said:\n%s", output)
	}
	result := m.stopAfter(requests, time.Duration(seconds*1e9))
	return result.with("p50_us", p50).with("p99_us", p99).
		with("kreq_per_s", float64(requests)/seconds/1e3)
}

// micros reads a time as wrk writes it.
func micros(text string) float64 {
	for _, unit := range []struct {
		suffix string
		factor float64
	}{{"us", 1}, {"ms", 1e3}, {"s", 1e6}} {
		if number, found := strings.CutSuffix(text, unit.suffix); found {
			value, err := strconv.ParseFloat(number, 64)
			if err != nil {
				fail("wrk's time: %v", err)
			}
			return value * unit.factor
		}
	}
	return 0
}
