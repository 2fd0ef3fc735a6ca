//go:build go1.25

package main

import (
	"os"
	"runtime/trace"
)

func init() {
	variants = append(variants, variant{"go flight recorder", flight})
}

// flight keeps what happened last in memory, with the defaults, and writes that at the end.
func flight(path string) (func() (int64, error), error) {
	recorder := trace.NewFlightRecorder(trace.FlightRecorderConfig{})
	end := func() (int64, error) {
		file, err := os.Create(path)
		if err != nil {
			return 0, err
		}
		if _, err := recorder.WriteTo(file); err != nil {
			return 0, err
		}
		recorder.Stop()
		return size(file)
	}
	return end, recorder.Start()
}
