// The loads of ws-recorder-cost on Go, with its runtime tracing: the same requests, and the same
// line. See ../src/main.rs.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/trace"
	"strconv"
	"syscall"
	"time"
)

const (
	batch       = 1000
	connections = 64
	message     = 64
)

// A recorder begins, and returns what ends it and tells the bytes of its trace.
type variant struct {
	name  string
	begin func(path string) (end func() (int64, error), err error)
}

var variants = []variant{
	{"go", func(string) (func() (int64, error), error) {
		return func() (int64, error) { return 0, nil }, nil
	}},
	{"go trace", traced},
}

// traced has all written to a file, as `go tool trace` reads it.
func traced(path string) (func() (int64, error), error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	end := func() (int64, error) {
		trace.Stop()
		return size(file)
	}
	return end, trace.Start(file)
}

func size(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), file.Close()
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ws-recorder-cost:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 1 && arguments[0] == "--variants" {
		for _, variant := range variants {
			fmt.Println(variant.name)
		}
		return nil
	}
	if len(arguments) != 3 {
		return errors.New("usage: --variants | spawn|echo VARIANT SIZE")
	}
	count, err := strconv.Atoi(arguments[2])
	if err != nil {
		return err
	}
	loads := map[string]func(int) error{"spawn": spawn, "echo": echo}
	load, ok := loads[arguments[0]]
	if !ok {
		return errors.New("there is no such load")
	}
	for _, variant := range variants {
		if variant.name == arguments[1] {
			return measure(variant, load, count)
		}
	}
	return errors.New("there is no such variant")
}

func measure(variant variant, load func(int) error, count int) error {
	folder, err := os.MkdirTemp("", "ws-recorder-cost")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	end, err := variant.begin(filepath.Join(folder, "trace"))
	if err != nil {
		return err
	}
	cpu, began := cpuTime(), time.Now()
	if err := load(count); err != nil {
		return err
	}
	wall := time.Since(began)
	bytes, err := end()
	if err != nil {
		return err
	}
	fmt.Println(wall.Nanoseconds(), (cpuTime() - cpu).Nanoseconds(), bytes)
	return nil
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// spawn joins by a channel each: a join handle of the Rust runtimes has its task's result.
func spawn(tasks int) error {
	sum := 0
	results := make([]chan int, 0, batch)
	for first := 0; first < tasks; first += batch {
		for number := first; number < min(tasks, first+batch); number++ {
			result := make(chan int, 1)
			go func() { result <- number }()
			results = append(results, result)
		}
		for _, result := range results {
			sum += <-result
		}
		results = results[:0]
	}
	if sum != tasks*(tasks-1)/2 {
		return errors.New("a task was lost")
	}
	return nil
}

func echo(messages int) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		for range connections {
			stream, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(stream)
		}
	}()
	ended := make(chan error, connections)
	for range connections {
		go func() { ended <- client(listener.Addr().String(), messages) }()
	}
	for range connections {
		if err := <-ended; err != nil {
			return err
		}
	}
	return listener.Close()
}

// serve ends with the connection. Go sets TCP_NODELAY by itself.
func serve(stream net.Conn) {
	defer stream.Close()
	buffer := make([]byte, message)
	for {
		if _, err := io.ReadFull(stream, buffer); err != nil {
			return
		}
		if _, err := stream.Write(buffer); err != nil {
			return
		}
	}
}

func client(address string, messages int) error {
	stream, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer stream.Close()
	buffer := make([]byte, message)
	for range messages {
		if _, err := stream.Write(buffer); err != nil {
			return err
		}
		if _, err := io.ReadFull(stream, buffer); err != nil {
			return err
		}
	}
	return nil
}
