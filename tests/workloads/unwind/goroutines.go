// SPDX-License-Identifier: LGPL-2.1-or-later

// Half of the CPU time asked for in main, half in a goroutine.
package main

import (
	"os"
	"strconv"
	"syscall"
	"time"
)

const unit = 500000 // about a millisecond

//go:noinline
func spinLeaf(x uint64) uint64 {
	for i := 0; i < unit; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

//go:noinline
func spinInner(x uint64) uint64 {
	return spinLeaf(x) + 1
}

// Of all threads; one goroutine at a time does something. The clock would go on while others have the CPU.
func used() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		os.Exit(4)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

//go:noinline
func spinFor(d time.Duration) uint64 {
	x := uint64(1)
	for begin := used(); used()-begin < d; {
		x = spinInner(x)
	}
	return x
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		os.Exit(2)
	}
	half := time.Duration(seconds * 5e8)
	time.Sleep(300 * time.Millisecond)
	done := make(chan uint64)
	go func() { done <- spinFor(half) }()
	x := <-done
	x += spinFor(half)
	if x == 42 {
		os.Exit(3)
	}
}
