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

// shapesName is the name under which the test binary runs jobs with the locks of package shapes, and
// wrongPrefix starts the name of the broken lock of a shape.
const (
	shapesName  = "lockpick-shapes"
	wrongPrefix = "wrong-"
)

// shapeKinds returns all kinds, and the correct and broken shapes.
func shapeKinds() map[string]lock.Kind {
	all := locks()
	for name, s := range shapes.All {
		all[name] = s.Kind
		wrong := s.Kind
		wrong.New = s.Broken
		all[wrongPrefix+name] = wrong
	}
	return all
}

// runShapes is the program of a worker with these kinds.
func runShapes() {
	if err := campaign.ServeWorker(os.Stdin, os.Stdout, map[string]harness.Backend{simulation: sim.New(shapeKinds())}); err != nil {
		log.Fatal(err)
	}
}
