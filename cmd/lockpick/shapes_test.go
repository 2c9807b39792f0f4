package main

import (
	"log"
	"os"

	"lockpick/harness"
	"lockpick/harness/lock"
	"lockpick/harness/sim"
	"lockpick/internal/shapes"
	"lockpick/scenarios/campaign"
)

// shapesName is the command name that makes the test binary act as a worker with the locks of
// package shapes. wrongPrefix is the prefix in names of broken locks.
const (
	shapesName  = "lockpick-shapes"
	wrongPrefix = "wrong-"
)

// kindsWithShapes returns all lock kinds, including the correct and the broken lock of each shape.
func kindsWithShapes() map[string]lock.Kind {
	all := locks()
	for name, s := range shapes.All {
		all[name] = s.Kind
		brokenKind := s.Kind
		brokenKind.New = s.NewBroken
		all[wrongPrefix+name] = brokenKind
	}
	return all
}

// runShapes runs a worker with kindsWithShapes.
func runShapes() {
	if err := campaign.ServeWorker(os.Stdin, os.Stdout, map[string]harness.Backend{simulation: sim.New(kindsWithShapes())}); err != nil {
		log.Fatal(err)
	}
}
