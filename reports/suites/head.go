package suites

import (
	"encoding/json"
	"io"

	"lockpick/harness/files"
	"lockpick/scenarios/outcome"
)

// headSize bounds what is read of an outcome.json to know what it is of.
const headSize = 16 << 10

// heads is what the beginning of an outcome.json says.
type heads struct {
	scenario, backend string
	seed              json.Number
	seeds             int
	code              int
	there             bool // all of it was read
}

// head reads the beginning of the outcome.json in a directory, of a run or a suite, and
// nothing that grows with the run. A file that is no such thing says nothing.
func head(dir string) (h heads) {
	in, err := files.OpenFolder(dir)
	if err != nil {
		return h
	}
	defer in.Close()
	f, err := in.Open(OutcomeFile, mostJSON)
	if err != nil {
		return h
	}
	defer f.Close()
	d := json.NewDecoder(io.LimitReader(f, headSize))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return h
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return h
		}
		value, err := d.Token()
		if err != nil {
			return h
		}
		if _, nested := value.(json.Delim); nested {
			break // the judgements, or the counts: the head is over
		}
		name, _ := key.(string)
		seen[name] = true
		h.take(name, value)
	}
	h.there = seen["code"] && seen["backend"] && seen["seed"]
	return h
}

func (h *heads) take(name string, value json.Token) {
	switch v := value.(type) {
	case string:
		switch name {
		case "scenario":
			h.scenario = v
		case "backend":
			h.backend = v
		}
	case json.Number:
		n, _ := v.Int64()
		switch name {
		case "seed":
			h.seed = v
		case "seeds":
			h.seeds = int(n)
		case "code":
			h.code = int(n)
		}
	}
}

// state is what became of it, as far as its head tells.
func (h heads) state() string {
	if !h.there {
		return "no outcome"
	}
	if h.code == outcome.ExitInterrupt { // a suite's alone
		return "interrupted"
	}
	return outcome.Outcome{Code: h.code}.State()
}
