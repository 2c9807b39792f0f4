package harness

import (
	"runtime"
	"time"
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
	// StopAtViolation: the run was to stop where mutual exclusion was violated.
	StopAtViolation bool `json:"stopAtViolation,omitempty"`
}

// NewManifest fills in what the program knows of itself and the machine.
func NewManifest(s Scenario, backend string, seed uint64, version, command string) Manifest {
	return Manifest{Schema: 1, Scenario: s, Backend: backend, Seed: seed, Started: time.Now().UTC(), Command: command,
		Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU()}
}
