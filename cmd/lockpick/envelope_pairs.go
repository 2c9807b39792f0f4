package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"lockpick/reports/figures"
	"lockpick/scenarios/envelope"
	"lockpick/scenarios/outcome"
)

// foundPair is what envelope tells of two faults: the bounds of the first, for some values of the second.
type foundPair struct {
	Pair   string    `json:"pair"`
	Of     string    `json:"of"`
	With   string    `json:"with"`
	Values []float64 `json:"values"` // of With
	Bounds []found   `json:"bounds"` // of Of, for each of these
	pair   envelope.Pair
}

// pairs are those of which the first dimension was asked for.
func (f *envelopeFlags) pairs(dimensions []envelope.Dimension) []envelope.Pair {
	return slices.DeleteFunc(slices.Clone(envelope.Pairs), func(p envelope.Pair) bool {
		return !slices.ContainsFunc(dimensions, func(d envelope.Dimension) bool { return d.Name == p.Of.Name && d.Property == p.Of.Property })
	})
}

// pair finds the bounds of a pair.
func (x *measuring) pair(ctx context.Context, p envelope.Pair) (*foundPair, error) {
	y := &foundPair{Pair: p.Name(), Of: p.Of.Name, With: p.With.Name, Values: p.Values(x.flags.Setting), pair: p}
	for _, with := range y.Values {
		r, err := x.find(ctx, p.At(x.flags.Setting, with))
		if err != nil {
			return nil, err
		}
		y.Bounds = append(y.Bounds, found{Result: r})
	}
	return y, nil
}

func (y *foundPair) code() (code int) {
	for _, b := range y.Bounds {
		code = outcome.Worse(code, b.code())
	}
	return code
}

// draw leaves the figure in the folder.
func (y *foundPair) draw(folder string) error {
	var broke []*float64
	var must []*figures.Reckoning
	for _, b := range y.Bounds {
		broke, must = append(broke, b.Broke), append(must, b.reckoning())
	}
	p := y.pair
	fig := figures.Pair(y.Pair, fmt.Sprintf("%s: %s", p.Of.Property, strings.TrimSuffix(p.Of.Doc, ",")),
		fmt.Sprintf("%s (%s)", strings.TrimSuffix(p.With.Doc, ","), p.With.Unit), fmt.Sprintf("%s (%s)", p.Of.Name, p.Of.Unit), y.Values, broke, must)
	return keepFigure(fig, folder)
}

func (y *foundPair) print(a *app) {
	p := y.pair
	fmt.Fprintln(a.out, within(width(a.out), 0, 2, fmt.Sprintf("%s, for %s, with %s:", p.Of.Property, strings.TrimSuffix(p.Of.Doc, ","), strings.TrimSuffix(p.With.Doc, ","))))
	t := table{{p.With.Name, "held up to", "broke at", "arithmetic", ""}}
	if p.Of.Less {
		t[0][1] = "held from"
	}
	say := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return p.Of.Unit.Say(*v)
	}
	for i, b := range y.Bounds {
		must := "nowhere"
		if e := b.Edge; e != nil {
			must = fmt.Sprintf("%s (%s to %s)", p.Of.Unit.Say(e.Sum), p.Of.Unit.Say(min(e.Safe, e.Certain)), p.Of.Unit.Say(max(e.Safe, e.Certain)))
		}
		verdict := "agrees"
		switch b.code() {
		case outcome.ExitUnexpected:
			verdict = "OTHERWISE"
		case outcome.ExitUndecided:
			verdict = "undecided"
		case outcome.ExitBackend:
			verdict = "failed"
		}
		t = append(t, []string{p.With.Unit.Say(y.Values[i]), say(b.Held), say(b.Broke), must, verdict})
	}
	printTable(a.out, t)
	fmt.Fprintln(a.out)
}
