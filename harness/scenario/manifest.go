package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"lockpick/internal/files"
)

// Manifest is run.json: what was run, with all values drawn and scaled, so that
// it can be run again.
type Manifest struct {
	Schema   int       `json:"schema"`
	Scenario Scenario  `json:"scenario"` // resolved and scaled
	Backend  string    `json:"backend"`
	Seed     uint64    `json:"seed"`
	Started  time.Time `json:"started"` // UTC
	Command  string    `json:"command"` // runs it again
	Version  string    `json:"version"` // of lockpick
	Go       string    `json:"go"`
	OS       string    `json:"os"`
	Arch     string    `json:"arch"`
	CPUs     int       `json:"cpus"`
	// Server is what the nodes ran, in words; it is there once they have run, where the
	// backend says so.
	Server string `json:"server,omitempty"`
	// Sets are the overrides of the command line, which void the expectations.
	Sets []string `json:"sets,omitempty"`
	// StopAtViolation was set by earlier releases, which could stop a run at its violation.
	StopAtViolation bool `json:"stopAtViolation,omitempty"`
}

// NewManifest fills in what the program knows of itself and the machine.
func NewManifest(s Scenario, backend string, seed uint64, version, command string) Manifest {
	return Manifest{Schema: 1, Scenario: s, Backend: backend, Seed: seed, Started: time.Now().UTC(), Command: command,
		Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU()}
}

// Bounds of what a manifest says besides its scenario.
const (
	longestText = 64 << 10 // a command with many overrides
	mostCPUs    = 1 << 20
)

// ReadManifest reads a run.json. It may come from anywhere, so it must say what a run
// could have left: its scenario is held to all that a file's is (Scenario.Check). name
// is used in errors only.
func ReadManifest(name string, text []byte, known Known) (*Manifest, error) {
	m := &Manifest{}
	if err := files.JSON(text, m, (*json.Decoder).DisallowUnknownFields); err != nil {
		return nil, &Error{File: name, Field: "JSON", What: clip(err.Error(), 200), Hint: "its history can still be judged alone"}
	}
	err := m.check(known)
	if err == nil {
		err = m.Scenario.Check(known)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		e.File = name
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Manifest) check(known Known) error {
	wrong := func(field, hint, what string, args ...any) error {
		return &Error{Field: field, What: fmt.Sprintf(what, args...), Hint: hint}
	}
	switch {
	case m.Schema != 1:
		return wrong("schema", "its history can still be judged alone", "it is no run.json of this version: it has schema %d, not 1", m.Schema)
	case !slices.Contains(known.Backends, m.Backend):
		return wrong("backend", suggest(m.Backend, "backends", known.Backends), "unknown backend %s", quote(m.Backend))
	case m.CPUs < 0 || m.CPUs > mostCPUs:
		return wrong("cpus", fmt.Sprintf("a number from 0 to %d", mostCPUs), "%d is not allowed here", m.CPUs)
	case len(m.Sets) > maxItems:
		return wrong("sets", fmt.Sprintf("at most %d", maxItems), "there are %d overrides", len(m.Sets))
	}
	texts := map[string][]string{"command": {m.Command}, "version": {m.Version}, "go": {m.Go}, "os": {m.OS}, "arch": {m.Arch}, "server": {m.Server}, "sets": m.Sets}
	for _, field := range []string{"command", "version", "go", "os", "arch", "server", "sets"} {
		for _, t := range texts[field] {
			if len(t) > longestText {
				return wrong(field, fmt.Sprintf("at most %d", longestText), "a text of %d bytes", len(t))
			}
		}
	}
	return nil
}
