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

// Manifest is the content of run.json: everything needed to repeat a run, with all values drawn and
// scaled.
type Manifest struct {
	Schema    int       `json:"schema"`
	Scenario  Scenario  `json:"scenario"` // drawn and scaled
	Backend   string    `json:"backend"`
	Seed      uint64    `json:"seed"`
	StartTime time.Time `json:"started"` // UTC
	Command   string    `json:"command"` // command that repeats the run
	Version   string    `json:"version"` // lockpick version
	Go        string    `json:"go"`
	OS        string    `json:"os"`
	Arch      string    `json:"arch"`
	CPUs      int       `json:"cpus"`
	// Server describes the nodes' software. It is set after the run if the backend reports it.
	Server string `json:"server,omitempty"`
	// Overrides lists the overrides from the command line. With overrides, the scenario's
	// expectations no longer apply.
	Overrides []string `json:"sets,omitempty"`
	// StopAtViolation was set by earlier releases that stopped a run at the first violation.
	StopAtViolation bool `json:"stopAtViolation,omitempty"`
}

// NewManifest returns a manifest that includes the details of the program and the host.
func NewManifest(s Scenario, backend string, seed uint64, version, command string) Manifest {
	return Manifest{Schema: 1, Scenario: s, Backend: backend, Seed: seed, StartTime: time.Now().UTC(), Command: command,
		Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU()}
}

// Limits on a manifest, apart from its scenario.
const (
	maxTextLen = 64 << 10 // a command with many overrides
	maxCPUs    = 1 << 20
)

// ReadManifest reads a run.json. The file may come from anywhere, so its scenario must satisfy the
// rules for scenario files (Scenario.Check). name is used in errors only.
func ReadManifest(name string, text []byte, known KnownNames) (*Manifest, error) {
	m := &Manifest{}
	if err := files.JSON(text, m, (*json.Decoder).DisallowUnknownFields); err != nil {
		return nil, &Error{File: name, Field: "JSON", Message: clip(err.Error(), 200), Hint: "its history can still be checked on its own"}
	}
	if known.CanonicalCause != nil {
		MapCauses(m.Scenario, known.CanonicalCause)
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

func (m *Manifest) check(known KnownNames) error {
	fieldError := func(field, hint, what string, args ...any) error {
		return &Error{Field: field, Message: fmt.Sprintf(what, args...), Hint: hint}
	}
	switch {
	case m.Schema != 1:
		return fieldError("schema", "its history can still be checked on its own", "this is not a run.json of this version: its schema is %d, not 1", m.Schema)
	case !slices.Contains(known.Backends, m.Backend):
		return fieldError("backend", suggest(m.Backend, "backends", known.Backends), "unknown backend %s", quote(m.Backend))
	case m.CPUs < 0 || m.CPUs > maxCPUs:
		return fieldError("cpus", fmt.Sprintf("a number from 0 to %d", maxCPUs), "%d is not allowed here", m.CPUs)
	case len(m.Overrides) > maxItems:
		return fieldError("sets", fmt.Sprintf("at most %d", maxItems), "there are %d overrides", len(m.Overrides))
	}
	values := map[string][]string{"command": {m.Command}, "version": {m.Version}, "go": {m.Go}, "os": {m.OS}, "arch": {m.Arch}, "server": {m.Server}, "sets": m.Overrides}
	for _, field := range []string{"command", "version", "go", "os", "arch", "server", "sets"} {
		for _, t := range values[field] {
			if len(t) > maxTextLen {
				return fieldError(field, fmt.Sprintf("at most %d bytes", maxTextLen), "the text has %d bytes", len(t))
			}
		}
	}
	return nil
}

// storeCapabilities lists the faults and features that stores other than Redis support in the same
// way. Such a store is a cluster of servers that reach consensus, and some features of Redis nodes
// don't exist there.
var storeCapabilities = []string{
	nemesis.Capability("pause", nemesis.Node), nemesis.Capability("kill", nemesis.Node),
	nemesis.Capability("cut", nemesis.Link), nemesis.Capability("shape", nemesis.Link), nemesis.Capability(nemesis.PacketsCapability, nemesis.Link),
	OwnTimeCapability, ImageCapability, ExactInstantsCapability,
}

// convertCapabilities converts the capabilities required of Redis nodes to those required of a
// store. Everything that the store doesn't support becomes a single capability that no backend has.
func convertCapabilities(store string, capabilities []string) (supported []string) {
	var unsupported []string
	for _, capability := range capabilities {
		if slices.Contains(storeCapabilities, capability) || strings.HasSuffix(capability, "-"+string(nemesis.Client)) {
			supported = append(supported, capability)
		} else {
			unsupported = append(unsupported, capability)
		}
	}
	if len(unsupported) > 0 {
		slices.Sort(unsupported)
		supported = append(supported, store+capabilitySeparator+strings.Join(unsupported, "+"))
	}
	return supported
}

// lockCapability returns the capability required of the lock: it must use the servers of the
// topology.
func lockCapability(store string) string { return "lock" + capabilitySeparator + store }

const capabilitySeparator = ":"

// ExplainMissingCapability explains why no backend has a capability that is required because of the
// lock's servers. It returns "" for all other capabilities.
func ExplainMissingCapability(capability string) string {
	left, right, found := strings.Cut(capability, capabilitySeparator)
	switch {
	case !found:
		return ""
	case left == "lock" && right == "":
		return "the scenario's servers run Redis, but its lock doesn't use Redis"
	case left == "lock":
		return "the scenario's servers run " + right + ", but its lock doesn't use " + right + ": pass --adapter with a lock that does"
	}
	return "the nodes run " + left + ", but only Redis supports " + strings.ReplaceAll(right, "+", ", ")
}

// withStore returns the topology with members of a store as its nodes, which sync each write.
func (t Topology) withStore(store string) Topology {
	t.Server, t.Persistence = store, PersistAlways
	return t
}

// storeSlack is the time that a store may take to elect a leader and find expired leases, in
// addition to the lease itself.
const storeSlack = 3 * time.Second

// ExpirySlack returns how much later a lock on a store may become free than a lock on Redis.
// According to the stores' documentation, a new leader restarts leases, and expired leases are
// found only periodically.
func (s Scenario) ExpirySlack() time.Duration {
	if s.Topology.Server == "" {
		return 0
	}
	return slices.Max(TTLs(s)) + storeSlack
}

// Check checks a resolved scenario, as found in a run.json or after scaling, against all rules for
// scenario files. To avoid a second table of limits, Check writes the scenario as a file would
// contain it and reads it back with the reader for files. The result must be the same scenario, so
// anything that a file can't express, such as a field unknown to the writer, is an error, too. The
// error is an *Error with an empty File.
func (s Scenario) Check(known KnownNames) error {
	if _, listed := known.Kinds[s.Lock.Kind]; !listed && slices.Contains(known.Locks, s.Lock.Kind) {
		known.Kinds = maps.Clone(known.Kinds)
		known.Kinds[s.Lock.Kind] = s.Lock.DerivedKind()
	}
	root, fields := s.tree(known)
	if s.Variant != "" {
		if _, errText, hint := dashedName("variant").parse(s.Variant); errText != "" {
			return &Error{Field: "scenario.variant", Message: errText, Hint: hint}
		}
	}
	r := newReader(minRunDuration, s.Variant)
	if slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool { return st.Drawn }) {
		r.maxSteps = maxDrawnSteps
	}
	err := r.read(root, known)
	if p, ok := errors.AsType[*problem](err); ok {
		return &Error{Field: fields[p.nodeIn(root)], Message: p.message, Hint: p.hint}
	} else if err != nil {
		return err
	}
	return s.roundTripError(r.scenario)
}

// MapCauses replaces each of a scenario's expected causes with f(cause).
func MapCauses(s Scenario, f func(string) string) {
	for property, e := range s.Expect {
		e.Cause = f(e.Cause)
		s.Expect[property] = e
	}
}

// tree returns the scenario's YAML tree, and the run.json field of each node.
func (s Scenario) tree(known KnownNames) (*yaml.Node, writer) {
	r := &reader{scenario: s}
	r.scenario.Expect = map[string]Expectation{} // without implied expectations
	for property, e := range s.Expect {
		if e.LeadProperty == "" && (e != impliedExpectation || !slices.Contains(requiredProperties[s.Tier], property)) {
			r.scenario.Expect[property] = e
		}
	}
	w := writer{}
	return r.form(known).write(w, "scenario", reflect.ValueOf(&r.scenario).Elem()), w
}

// roundTripError returns an error if reread, the scenario after writing and reading, is different.
func (s Scenario) roundTripError(reread Scenario) error {
	for _, property := range requiredProperties[s.Tier] { // the run.json may be from a version that didn't require the property
		if _, present := s.Expect[property]; !present && reread.Expect[property] == impliedExpectation {
			delete(reread.Expect, property)
		}
	}
	field, got, want := firstDifference("scenario", reflect.ValueOf(withoutImplied(s)), reflect.ValueOf(withoutImplied(reread)))
	if field == "" {
		return nil
	}
	return &Error{Field: field, Message: fmt.Sprintf("a scenario file can't express this value: %s", got),
		Hint: fmt.Sprintf("a scenario file with the other values results in %s", want)}
}

// withoutImplied clears Implied, which files don't contain.
func withoutImplied(s Scenario) Scenario {
	s.Expect = maps.Clone(s.Expect)
	for property, e := range s.Expect {
		e.Implied = false
		s.Expect[property] = e
	}
	return s
}

// firstDifference returns the first field in which two values differ, and the field's two values.
func firstDifference(path string, a, b reflect.Value) (field, got, want string) {
	format := func(v reflect.Value) string {
		if !v.IsValid() || v.IsZero() {
			return "none"
		}
		return clip(fmt.Sprintf("%+v", reflect.Indirect(v)), 100)
	}
	result := func() (string, string, string) { return path, format(a), format(b) }
	if a.IsValid() != b.IsValid() {
		return result()
	}
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			if field, got, want := firstDifference(path+"."+name, a.Field(i), b.Field(i)); field != "" {
				return field, got, want
			}
		}
	case reflect.Pointer:
		if a.IsNil() != b.IsNil() {
			return result()
		}
		return firstDifference(path, a.Elem(), b.Elem())
	case reflect.Slice:
		if a.Len() != b.Len() {
			return result()
		}
		for i := range a.Len() {
			if field, got, want := firstDifference(fmt.Sprintf("%s[%d]", path, i), a.Index(i), b.Index(i)); field != "" {
				return field, got, want
			}
		}
	case reflect.Map:
		for _, key := range slices.SortedFunc(slices.Values(append(a.MapKeys(), b.MapKeys()...)), func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) }) {
			if field, got, want := firstDifference(path+"."+key.String(), a.MapIndex(key), b.MapIndex(key)); field != "" {
				return field, got, want
			}
		}
	default:
		if a.IsValid() && !a.Equal(b) {
			return result()
		}
	}
	return "", "", ""
}
