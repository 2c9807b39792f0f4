package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"lockpick/internal/files"
	"lockpick/nemesis"
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
	if known.CanonicalCause != nil {
		m.Scenario.MapCauses(known.CanonicalCause)
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

// Locks may be on other servers than Redis: on a store, whose members agree among themselves. What
// a scenario needs of Redis itself they lack.

// storeNeeds are what members of a store can be hit by as redis-servers can, and their links.
var storeNeeds = []string{
	nemesis.Capability("pause", nemesis.Node), nemesis.Capability("kill", nemesis.Node),
	nemesis.Capability("cut", nemesis.Link), nemesis.Capability("shape", nemesis.Link), nemesis.Capability(nemesis.PowerPackets, nemesis.Link),
	CanSetOwnTime, CanImage, CanBeExact,
}

// needsOn are the needs of Redis's nodes as those of a store's: what its members lack is one, which
// nothing has.
func needsOn(store string, all []string) (needs []string) {
	var lacks []string
	for _, need := range all {
		if slices.Contains(storeNeeds, need) || strings.HasSuffix(need, "-"+string(nemesis.Client)) {
			needs = append(needs, need)
		} else {
			lacks = append(lacks, need)
		}
	}
	if len(lacks) > 0 {
		slices.Sort(lacks)
		needs = append(needs, store+lackSign+strings.Join(lacks, "+"))
	}
	return needs
}

// lockOn is the need of a lock that is on the servers of the topology.
func lockOn(store string) string { return "lock" + lackSign + store }

const lackSign = ":"

// LackOf is why nothing can have a need that comes of the servers that a lock is on; "": it is
// no such need.
func LackOf(need string) string {
	left, right, is := strings.Cut(need, lackSign)
	switch {
	case !is:
		return ""
	case left == "lock" && right == "":
		return "the scenario's servers are Redis, and its lock is not on Redis"
	case left == "lock":
		return "the scenario's servers are " + right + ", and its lock is not on " + right + ": say --adapter with one that is"
	}
	return "the nodes are " + left + ", and there is no " + strings.ReplaceAll(right, "+", ", ") + " but with Redis"
}

// on is the topology with the members of a store, which sync each write.
func (t Topology) on(store string) Topology {
	t.Server, t.Persistence = store, PersistAlways
	return t
}

// agreement is what a store may take, besides a lease's own time, to elect a leader and to find
// what has lapsed.
const agreement = 3 * time.Second

// Settles is how much later than a lock of Redis one of a store may be free: a new leader lets
// leases begin anew, which their documentation says, and lapsed ones are looked for now and then.
func (s Scenario) Settles() time.Duration {
	if s.Topology.Server == "" {
		return 0
	}
	return s.Lock.TTL + agreement
}

// Check says what is wrong with a resolved scenario, as it stands in a run.json or
// comes of scaling: it is held to all that a scenario file is held to. There is no
// second table of bounds for that. The scenario is written as a file would have it,
// and read by the file's own reader. What comes out must be the same again; what a
// file can't say, such as a field that the writer doesn't know, is an error, too. The
// error is a *Error, whose File is empty.
func (s Scenario) Check(known Known) error {
	if _, is := known.Kinds[s.Lock.Kind]; !is && slices.Contains(known.Locks, s.Lock.Kind) {
		known.Kinds = maps.Clone(known.Kinds)
		known.Kinds[s.Lock.Kind] = s.Lock.Kindred()
	}
	root, fields := s.tree(known)
	if s.Variant != "" {
		if _, wrong, hint := named("variant").parse(s.Variant); wrong != "" {
			return &Error{Field: "scenario.variant", What: wrong, Hint: hint}
		}
	}
	r := newReading(runUnit, s.Variant)
	if slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool { return st.Drawn }) {
		r.mostSteps = maxDrawn
	}
	err := r.read(root, known)
	if p, ok := errors.AsType[*problem](err); ok {
		return &Error{Field: fields[p.at(root)], What: p.what, Hint: p.hint}
	} else if err != nil {
		return err
	}
	return s.unlike(r.scenario)
}

// MapCauses replaces each expected cause by f of it.
func (s Scenario) MapCauses(f func(string) string) {
	for property, e := range s.Expect {
		e.Cause = f(e.Cause)
		s.Expect[property] = e
	}
}

// tree is the scenario as the nodes that a file of it comes to, each with its field.
func (s Scenario) tree(known Known) (*yaml.Node, writer) {
	r := &reading{scenario: s}
	r.scenario.Expect = map[string]Expectation{} // without what follows from the rest
	for property, e := range s.Expect {
		if e.Follows == "" && (e != implied || !slices.Contains(required[s.Tier], property)) {
			r.scenario.Expect[property] = e
		}
	}
	w := writer{}
	return r.form(known).write(w, "scenario", reflect.ValueOf(&r.scenario).Elem()), w
}

// unlike is the error that a file of the scenario comes to another one; nil: it doesn't.
func (s Scenario) unlike(back Scenario) error {
	for _, property := range required[s.Tier] { // a run.json of a version that didn't require it
		if _, had := s.Expect[property]; !had && back.Expect[property] == implied {
			delete(back.Expect, property)
		}
	}
	field, got, want := differ("scenario", reflect.ValueOf(said(s)), reflect.ValueOf(said(back)))
	if field == "" {
		return nil
	}
	return &Error{Field: field, What: fmt.Sprintf("no scenario has %s here", got),
		Hint: fmt.Sprintf("a scenario file that says the rest comes to %s", want)}
}

// said is the scenario without what its file doesn't say: which expectations nobody wrote down.
func said(s Scenario) Scenario {
	s.Expect = maps.Clone(s.Expect)
	for property, e := range s.Expect {
		e.Implied = false
		s.Expect[property] = e
	}
	return s
}

// differ finds the first field in which two values differ, and shows both.
func differ(path string, a, b reflect.Value) (field, got, want string) {
	shown := func(v reflect.Value) string {
		if !v.IsValid() || v.IsZero() {
			return "nothing"
		}
		return clip(fmt.Sprintf("%+v", reflect.Indirect(v)), 100)
	}
	unlike := func() (string, string, string) { return path, shown(a), shown(b) }
	if a.IsValid() != b.IsValid() {
		return unlike()
	}
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			if field, got, want := differ(path+"."+name, a.Field(i), b.Field(i)); field != "" {
				return field, got, want
			}
		}
	case reflect.Pointer:
		if a.IsNil() != b.IsNil() {
			return unlike()
		}
		return differ(path, a.Elem(), b.Elem())
	case reflect.Slice:
		if a.Len() != b.Len() {
			return unlike()
		}
		for i := range a.Len() {
			if field, got, want := differ(fmt.Sprintf("%s[%d]", path, i), a.Index(i), b.Index(i)); field != "" {
				return field, got, want
			}
		}
	case reflect.Map:
		for _, key := range slices.SortedFunc(slices.Values(append(a.MapKeys(), b.MapKeys()...)), func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) }) {
			if field, got, want := differ(path+"."+key.String(), a.MapIndex(key), b.MapIndex(key)); field != "" {
				return field, got, want
			}
		}
	default:
		if a.IsValid() && !a.Equal(b) {
			return unlike()
		}
	}
	return "", "", ""
}
