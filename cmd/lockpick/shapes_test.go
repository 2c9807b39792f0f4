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

// shapesName is what the test binary is called by where it runs jobs with the locks of
// package shapes, and wrongPrefix what the wrong one of a shape is called by.
const (
	shapesName  = "lockpick-shapes"
	wrongPrefix = "wrong-"
)

// shapeKinds are all kinds, and the shapes, right and wrong.
func shapeKinds() map[string]lock.Kind {
	all := locks()
	for name, s := range shapes.All {
		all[name] = s.Kind
		wrong := s.Kind
		wrong.New = s.Wrong
		all[wrongPrefix+name] = wrong
	}
	return all
}

// runsShapes is the program of a worker with them.
func runsShapes() {
	if err := campaign.ServeWorker(os.Stdin, os.Stdout, map[string]harness.Backend{simulation: sim.New(shapeKinds())}); err != nil {
		log.Fatal(err)
	}
}
