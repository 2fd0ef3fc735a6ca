package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// row is a workload. If it says on how many workers, that is what it runs on.
type row struct {
	name    string
	workers int
	run     func(params) measure
}

var rows = []row{
	{"spawn_join_100k", 0, spawnJoin},
	{"chained_spawn", 0, func(p params) measure { return create(1, p.size(200_000, 100_000)) }},
	{"yield_1000x1000", 0, func(p params) measure { return yields(1_000, p.size(1_000, 500)) }},
	{"ping_pong_1000", 0, pingPongPairs},
	{"ring_1000", 0, ring},
	{"fan_in_1M", 0, fanIn},
	{"skynet", 0, skynet},
	{"request_reply_block_on", 0, requestReply},
	{"tokio_spawn_many_local", 0, spawnMany},
	{"tokio_yield_many", 0, func(p params) measure { return yields(200, 1_000) }},
	{"go_ping_pong_hog", 1, pingPongHog},
	{"go_create", 0, func(p params) measure { return create(1, p.size(400_000, 100_000)) }},
	{"go_create_parallel", 0, func(p params) measure { return create(p.workers, p.size(400_000, 100_000)) }},
	{"go_wakeup_spin_0us", 0, func(p params) measure { return wakeups(p.size(20_000, 5_000), 0, spin) }},
	{"go_wakeup_spin_50us", 0, func(p params) measure { return wakeups(p.size(2_000, 500), 50, spin) }},
	{"go_wakeup_syscall_0us", 0, func(p params) measure { return wakeups(p.size(2_000, 500), 0, blockFor) }},
	{"go_wakeup_syscall_50us", 0, func(p params) measure { return wakeups(p.size(1_000, 300), 50, blockFor) }},
	{"go_sleep", 0, sleepNs},
	{"go_sieve", 0, sievePrimes},
	{"ghc_chan", 0, chanMessages},
	{"ghc_sieve", 0, sieveComputations},
	{"ghc_threads001", 0, func(p params) measure { return spawnAll(p.size(500_000, 100_000)) }},
	{"ghc_threads003", 0, line},
	{"timers_arm_drop_1M", 0, armAndDrop},
	{"sleeps_200k", 0, sleeps},
	{"tickers_100x5ms", 0, func(p params) measure {
		m := start()
		late := ticking(p.size(200, 60))
		return m.stop(len(late)).byLatencies(late)
	}},
	{"spawn_then_compute", 0, spawnThenCompute},
	{"urgent_among_10k", 0, urgent},
	{"fifo_among_10k", 0, urgent},
	{"echo_1", 0, func(p params) measure { return echo(p, 1) }},
	{"echo_64", 0, func(p params) measure { return echo(p, 64) }},
	{"echo_1000", 0, func(p params) measure { return echo(p, 1_000) }},
	{"ticks_blocked_1w", 1, func(p params) measure { return ticksBeside(p, block) }},
	{"ticks_blocked_2w", 2, func(p params) measure { return ticksBeside(p, block) }},
	{"ticks_blocked_8w", 8, func(p params) measure { return ticksBeside(p, block) }},
	{"ticks_computing_100_1w", 1, func(p params) measure { return ticksBeside(p, compute100) }},
	{"ticks_computing_100_2w", 2, func(p params) measure { return ticksBeside(p, compute100) }},
	{"ticks_computing_100_8w", 8, func(p params) measure { return ticksBeside(p, compute100) }},
	{"ticks_computing_300_1w", 1, func(p params) measure { return ticksBeside(p, compute300) }},
	{"ticks_computing_300_2w", 2, func(p params) measure { return ticksBeside(p, compute300) }},
	{"ticks_computing_300_8w", 8, func(p params) measure { return ticksBeside(p, compute300) }},
	{"echo_blocked_1w", 1, func(p params) measure { return echoBeside(p, block) }},
	{"echo_blocked_2w", 2, func(p params) measure { return echoBeside(p, block) }},
	{"echo_blocked_8w", 8, func(p params) measure { return echoBeside(p, block) }},
	{"echo_computing_100_1w", 1, func(p params) measure { return echoBeside(p, compute100) }},
	{"echo_computing_100_2w", 2, func(p params) measure { return echoBeside(p, compute100) }},
	{"echo_computing_100_8w", 8, func(p params) measure { return echoBeside(p, compute100) }},
	{"echo_computing_300_1w", 1, func(p params) measure { return echoBeside(p, compute300) }},
	{"echo_computing_300_2w", 2, func(p params) measure { return echoBeside(p, compute300) }},
	{"echo_computing_300_8w", 8, func(p params) measure { return echoBeside(p, compute300) }},
	{"hyper_hello", 0, hello},
	{"parked_1M", 0, parked},
	{"idle_cpu", 0, idleCPU},
}

func spawnJoin(p params) measure {
	n := p.size(100_000, 50_000)
	return twice(n, func() {
		results := make([]chan int, n)
		for i := range results {
			results[i] = make(chan int, 1)
			go func(i int) { results[i] <- i }(i)
		}
		sum := 0
		for _, result := range results {
			sum += <-result
		}
		check(sum == n*(n-1)/2, "every goroutine ran once")
	})
}

func check(holds bool, what string) {
	if !holds {
		panic("not so: " + what)
	}
}

// spawnAll starts goroutines that do nothing, and waits until the last is done.
func spawnAll(n int) measure {
	return twice(n, func() {
		var all sync.WaitGroup
		all.Add(n)
		for range n {
			go all.Done()
		}
		all.Wait()
	})
}

func spawnMany(params) measure {
	const rounds, n = 10, 10_000
	return twice(rounds*n, func() {
		for range rounds {
			var all sync.WaitGroup
			all.Add(n)
			for range n {
				go all.Done()
			}
			all.Wait()
		}
	})
}

func create(chains, total int) measure {
	return twice(total, func() {
		done := make(chan bool)
		var link func(left int)
		link = func(left int) {
			if left == 0 {
				done <- true
				return
			}
			go link(left - 1)
		}
		for range chains {
			go link(total / chains)
		}
		for range chains {
			<-done
		}
	})
}

func yields(tasks, each int) measure {
	return twice(tasks*each, func() {
		var all sync.WaitGroup
		all.Add(tasks)
		for range tasks {
			go func() {
				for range each {
					runtime.Gosched()
				}
				all.Done()
			}()
		}
		all.Wait()
	})
}

func pingPongPairs(p params) measure {
	const pairs = 1_000
	trips := p.size(400, 200)
	return twice(pairs*trips, func() {
		var all sync.WaitGroup
		all.Add(pairs)
		for range pairs {
			ping, pong := make(chan int, 1), make(chan int, 1)
			go func() {
				for trip := range ping {
					pong <- trip
				}
			}()
			go func() {
				for trip := range trips {
					ping <- trip
					check(<-pong == trip, "the answer to this ping")
				}
				close(ping)
				all.Done()
			}()
		}
		all.Wait()
	})
}

func ring(p params) measure {
	const tasks = 1_000
	laps := p.size(500, 200)
	first := make(chan int, 1)
	inbox := first
	for range tasks - 1 {
		from, to := inbox, make(chan int, 1)
		go func() {
			for token := range from {
				to <- token + 1
			}
		}()
		inbox = to
	}
	lap := func(laps int) {
		for range laps {
			first <- 0
			check(<-inbox == tasks-1, "every member passed the token on")
		}
	}
	lap(1)
	m := start()
	lap(laps)
	result := m.stop(tasks * laps)
	return result.with("cores_busy", result.CPUNs/result.WallNs)
}

func fanIn(p params) measure {
	const producers = 1_000
	each := p.size(1_000, 300)
	return twice(producers*each, func() {
		messages := make(chan int, 1_024)
		for range producers {
			go func() {
				for message := range each {
					messages <- message
				}
			}()
		}
		for range producers * each {
			<-messages
		}
	})
}

func skynet(p params) measure {
	size := p.size(1_000_000, 100_000)
	var node func(first, size int, result chan int)
	node = func(first, size int, result chan int) {
		if size == 1 {
			result <- first
			return
		}
		results := make(chan int, 10)
		for i := range 10 {
			go node(first+i*size/10, size/10, results)
		}
		sum := 0
		for range 10 {
			sum += <-results
		}
		result <- sum
	}
	run := func(size int) int {
		result := make(chan int, 1)
		go node(0, size, result)
		return <-result
	}
	run(size / 10)
	m := start()
	sum := run(size)
	result := m.stop(size)
	check(sum == size*(size-1)/2, "every leaf was counted once")
	return result
}

func pingPongHog(p params) measure {
	trips := p.size(200_000, 50_000)
	var over atomic.Bool
	hogDone := make(chan bool)
	go func() {
		for !over.Load() {
			spin(time.Microsecond)
			runtime.Gosched()
		}
		close(hogDone)
	}()
	ping, pong := make(chan int, 1), make(chan int, 1)
	go func() {
		for trip := range ping {
			pong <- trip
		}
	}()
	asked := make(chan measure)
	go func() {
		m := start()
		for trip := range trips {
			ping <- trip
			<-pong
		}
		asked <- m.stop(trips)
		close(ping)
	}()
	result := <-asked
	over.Store(true)
	<-hogDone
	return result
}

func spin(length time.Duration) {
	for began := time.Now(); time.Since(began) < length; {
	}
}

// blockFor blocks in a system call, which the scheduler is told of only by the call itself.
func blockFor(length time.Duration) {
	spec := syscall.NsecToTimespec(length.Nanoseconds())
	for {
		var left syscall.Timespec
		// A signal of the runtime's own ends it early.
		if err := syscall.Nanosleep(&spec, &left); err == nil {
			return
		}
		spec = left
	}
}

func wakeups(rounds, delayUs int, wait func(time.Duration)) measure {
	delay := time.Duration(delayUs) * time.Microsecond
	const wakeDelay = 5 * time.Microsecond
	ping, pong := make(chan struct{}, 1), make(chan struct{}, 1)
	go func() {
		for range rounds {
			wait(delay)
			<-ping
			wait(delay + wakeDelay)
			pong <- struct{}{}
		}
	}()
	done := make(chan measure)
	go func() {
		m := start()
		for range rounds {
			wait(delay + wakeDelay)
			ping <- struct{}{}
			wait(delay)
			<-pong
		}
		done <- m.stop(rounds)
	}()
	return <-done
}

func sleepNs(p params) measure {
	n := p.size(100_000, 20_000)
	return twice(n, func() {
		var all sync.WaitGroup
		all.Add(n)
		for range n {
			go func() {
				time.Sleep(time.Nanosecond)
				all.Done()
			}()
		}
		all.Wait()
	})
}

// sievePrimes leaves its goroutines where they are: the program ends after it.
func sievePrimes(p params) measure {
	primes := p.size(300, 100)
	m := start()
	numbers := make(chan uint64, 1)
	go func() {
		for number := uint64(2); ; number++ {
			numbers <- number
		}
	}()
	inbox := numbers
	found := []uint64{}
	passed := 0
	for len(found) < primes {
		prime := <-inbox
		from := prime
		if len(found) > 0 {
			from = found[len(found)-1] + 1
		}
		for number := from; number <= prime; number++ {
			passed += hops(number, found)
		}
		found = append(found, prime)
		next := make(chan uint64, 1)
		go func(from, to chan uint64) {
			for number := range from {
				if number%prime != 0 {
					to <- number
				}
			}
		}(inbox, next)
		inbox = next
	}
	check(found[3] == 7, "these are primes")
	return m.stop(passed)
}

// hops is how often a number is passed on before it is a prime or falls out.
func hops(number uint64, primes []uint64) int {
	for at, prime := range primes {
		if number%prime == 0 {
			return at + 1
		}
	}
	return len(primes) + 1
}

func chanMessages(p params) measure {
	n := p.size(1_000_000, 200_000)
	return twice(n, func() {
		// Go has no unbounded channel: one that is large enough is the same.
		messages := make(chan int, n)
		go func() {
			for message := range n {
				messages <- message
			}
		}()
		done := make(chan bool)
		go func() {
			for message := range n {
				check(<-messages == message, "in order")
			}
			done <- true
		}()
		<-done
	})
}

func sieveComputations(p params) measure {
	const primes = 500
	n := p.size(300, 100)
	return twice(n, func() {
		var all sync.WaitGroup
		all.Add(n)
		for i := range n {
			go func() {
				found := []uint64{}
			numbers:
				for number := uint64(i + 2); len(found) <= primes; number++ {
					for _, prime := range found {
						if number%prime == 0 {
							continue numbers
						}
					}
					found = append(found, number)
				}
				check(found[primes] > 0, "there is such a number")
				all.Done()
			}()
		}
		all.Wait()
	})
}

func line(p params) measure {
	const stages = 500
	n := p.size(2_000, 500)
	return twice(n*stages, func() {
		first := make(chan int, 1)
		inbox := first
		for range stages {
			from, to := inbox, make(chan int, 1)
			go func() {
				for value := range from {
					to <- value + 1
				}
				close(to)
			}()
			inbox = to
		}
		sum := make(chan int)
		go func() {
			total := 0
			for range n {
				total += <-inbox
			}
			sum <- total
		}()
		for range n {
			go func() { first <- 0 }()
		}
		check(<-sum == n*stages, "every stage added one")
		close(first)
	})
}

func armAndDrop(p params) measure {
	n := p.size(1_000_000, 300_000)
	work := func(n int) {
		for i := range n {
			timer := time.NewTimer(time.Duration(60_000_000+i*7_919%60_000_000) * time.Microsecond)
			timer.Stop()
		}
	}
	work(n / 10)
	m := start()
	work(n)
	return m.stop(n)
}

func sleeps(p params) measure {
	n := p.size(200_000, 50_000)
	late := make([]int64, n)
	m := start()
	var all sync.WaitGroup
	all.Add(n)
	for i := range n {
		due := m.began.Add(time.Duration(400_000+i*7_919%1_000_000) * time.Microsecond)
		go func() {
			time.Sleep(time.Until(due))
			late[i] = int64(time.Since(due))
			all.Done()
		}()
	}
	all.Wait()
	result := m.stop(n)
	result.Value = result.CPUNs
	sorted := result.byLatencies(late)
	sorted.Value = sorted.CPUNs
	sorted.Extras[0].Name, sorted.Extras[1].Name = "late_p50_us", "late_p99_us"
	return sorted
}

func spawnThenCompute(p params) measure {
	n := p.size(100, 40)
	latencies := make([]int64, 0, n)
	m := start()
	for range n {
		time.Sleep(2 * time.Millisecond)
		spawned := time.Now()
		child := make(chan time.Duration, 1)
		go func() { child <- time.Since(spawned) }()
		for time.Since(spawned) < 5*time.Millisecond {
		}
		latencies = append(latencies, int64(<-child))
	}
	return m.stop(n).byLatencies(latencies)
}
