package main

import (
	"encoding/json"
	"fmt"
	"io"

	"lockpick/scenarios/outcome"
)

// answer prints outcomes as JSON, each at once, and at the end what they come to: of a sweep
// nothing but sums stays in memory.
type answer struct {
	to      io.Writer
	backend string
	n       int // outcomes that are printed
	sum     seedSum
	rates   []rate
}

// add prints an outcome. Those of one scenario come one after the other.
func (a *answer) add(o outcome.Outcome) {
	before := ",\n    "
	if a.n == 0 {
		before = "{\n  \"schema\": 1,\n  \"outcomes\": [\n    "
	}
	a.n++
	if o.Scenario != a.sum.name {
		a.next()
	}
	a.sum.add(o)
	text, err := json.MarshalIndent(o, "    ", "  ")
	if err != nil {
		panic(err) // plain data
	}
	fmt.Fprintf(a.to, "%s%s", before, text)
}

// next begins the sum of another scenario.
func (a *answer) next() {
	a.rates, a.sum = append(a.rates, a.sum.rates(a.backend)...), seedSum{}
}

// end prints what all came to; causes is nil where there is one seed.
func (a *answer) end(causes any, code int) error {
	a.next()
	before := "\n  ],"
	if a.n == 0 {
		before = "{\n  \"schema\": 1,\n  \"outcomes\": [],"
	}
	text, err := json.MarshalIndent(struct {
		Rates  []rate `json:"rates,omitempty"`
		Causes any    `json:"causes,omitempty"`
		Code   int    `json:"code"`
	}{a.rates, causes, code}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.to, "%s%s\n", before, text[1:])
	return err
}
