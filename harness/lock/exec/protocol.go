package exec

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockpick/harness/lock"
)

// version is the protocol version.
const version = 1

// maxLineLen is the maximum length of a line in bytes.
const maxLineLen = 64 << 10

// Hello is an adapter's first line. It identifies the library and its features.
type Hello struct {
	Hello   number `json:"hello"` // protocol version
	Name    string `json:"name"`
	Version string `json:"version"` // the library's version
	// Can lists the adapter's capabilities; see canExtend and the other constants.
	Can []string `json:"can"`
	// Belief says how a holder knows whether it has the lock: "deadline" (the default), "signal" or
	// "none". "signal" requires the capability "lost".
	Belief string `json:"belief"`
	// KeyPrefix is what the library prepends to a lock's name to form its key.
	KeyPrefix string `json:"keyPrefix"`
	// Server is the store used by the lock: "etcd", "consul", or "redis" (the default).
	Server string `json:"server"`
	// Nodes is "one" for a lock on one node, or "many" (the default).
	Nodes string `json:"nodes"`
	// TTLUnit is the library's unit for TTLs, in milliseconds. 0 means that the library accepts
	// any TTL.
	TTLUnit number `json:"grain"`
	// Retries says what retries if a lock is taken: "driver" (the default), for a library that
	// tries once, or "library".
	Retries string `json:"retries"`
	// Options are settings specific to this library. Each option's first value is the library's
	// default.
	Options []lock.Option `json:"options"`
}

// Capabilities of an adapter, besides acquire and release.
const (
	canExtend        = "extend"  // a holder can extend its lock
	canCheckHeld     = "held"    // the library can check whether a lock is held
	canNotifyLoss    = "lost"    // the library notifies the client of a loss
	canNotifyRenewal = "renewed" // the library reports automatic extensions
	canCancel        = "cancel"  // an acquire can be canceled
	canFence         = "fence"   // an acquire returns a fencing token
)

var capabilities = []string{canExtend, canCheckHeld, canNotifyLoss, canNotifyRenewal, canCancel, canFence}

var beliefs = []string{"", "deadline", string(lock.BySignal), string(lock.ByNothing)}

// redis is the default value of Hello.Server.
const redis = "redis"

// Store returns the software on the lock's servers, or "" for Redis.
func (h Hello) Store() string {
	if h.Server == redis {
		return ""
	}
	return h.Server
}

// check returns an error for the first problem in a hello.
func (h Hello) check() error {
	switch {
	case h.Hello != version:
		return fmt.Errorf("its first line is not a hello of protocol version %d: start with {\"hello\":%d,\"name\":…}", version, version)
	case h.Name == "":
		return errors.New("its hello has no name")
	case !slices.Contains(beliefs, h.Belief):
		return fmt.Errorf("its hello has belief %q: use \"deadline\", \"signal\" or \"none\"", h.Belief)
	case h.Belief == string(lock.BySignal) && !h.hasCapability(canNotifyLoss):
		return errors.New("its hello has belief \"signal\" but not the capability \"lost\": add \"lost\" to can")
	case !lock.ValidPrefix(h.KeyPrefix):
		return fmt.Errorf("its hello has keyPrefix %.200q: use at most %d bytes of printable ASCII", h.KeyPrefix, lock.MaxPrefixLen)
	case h.Server != "" && h.Server != redis && !slices.Contains(lock.Servers(), h.Server):
		return fmt.Errorf("its hello has server %q: use one of %s", h.Server, strings.Join(append([]string{redis}, lock.Servers()...), ", "))
	case h.Nodes != "" && h.Nodes != "one" && h.Nodes != "many":
		return fmt.Errorf("its hello has nodes %q: use \"one\" or \"many\"", h.Nodes)
	case h.Retries != "" && h.Retries != "driver" && h.Retries != "library":
		return fmt.Errorf("its hello has retries %q: use \"driver\" or \"library\"", h.Retries)
	}
	for _, c := range h.Can {
		if !slices.Contains(capabilities, c) {
			return fmt.Errorf("its hello has the unknown capability %q: the capabilities are %s", c, strings.Join(capabilities, ", "))
		}
	}
	return checkOptions(h.Options)
}

// optionWord matches the names and values allowed in --set lock.options.NAME=VALUE.
var optionWord = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// checkOptions returns an error for the first problem in the options of a hello.
func checkOptions(options []lock.Option) error {
	var names []string
	for _, o := range options {
		switch {
		case !optionWord.MatchString(o.Name):
			return fmt.Errorf("its hello has an option %q: use lowercase letters, digits and hyphens", o.Name)
		case slices.Contains(names, o.Name):
			return fmt.Errorf("its hello has a duplicate option %q", o.Name)
		case len(o.Values) < 2:
			return fmt.Errorf("its hello has option %q with %d values: list the library's default first, then at least one other value", o.Name, len(o.Values))
		}
		for _, v := range o.Values {
			if !optionWord.MatchString(v) {
				return fmt.Errorf("its hello has option %q with a value %q: use lowercase letters, digits and hyphens", o.Name, v)
			}
		}
		names = append(names, o.Name)
	}
	return nil
}

// Title returns the library's name and version.
func (h Hello) Title() string { return strings.TrimSpace(h.Name + " " + h.Version) }

func (h Hello) hasCapability(capability string) bool { return slices.Contains(h.Can, capability) }

// Kind returns the kind of lock described by the hello.
func (h Hello) Kind() lock.Kind {
	belief := lock.Belief(h.Belief)
	if belief == "deadline" {
		belief = lock.ByDeadline
	}
	var options []lock.Option
	for _, o := range h.Options { // drop Forgoes: an adapter can't exempt its lock from properties
		options = append(options, lock.Option{Name: o.Name, Doc: o.Doc, Values: o.Values})
	}
	return lock.Kind{
		Options: options,
		New:     New, Belief: belief, Doc: h.Title(), OwnTime: true, OwnTokens: true, OneNode: h.Nodes == "one", Server: h.Store(), Prefix: h.KeyPrefix,
		Can: lock.Features{Extend: h.hasCapability(canExtend), Fence: h.hasCapability(canFence)},
	}
}

// request is a line sent to an adapter.
type request struct {
	ID       int64             `json:"id"`
	Op       string            `json:"op"`
	Client   string            `json:"client,omitempty"`
	Nodes    []node            `json:"nodes,omitempty"`
	Settings *settings         `json:"settings,omitempty"`
	Options  map[string]string `json:"options,omitempty"`
	Key      string            `json:"key,omitempty"`
	Within   *float64          `json:"within,omitempty"` // milliseconds
	Handle   string            `json:"handle,omitempty"`
	Of       int64             `json:"of,omitempty"` // ID of the acquire to cancel
}

type node struct {
	Name string `json:"name"`
	Addr string `json:"addr"`
}

// settings holds a scenario's settings, with durations in milliseconds.
type settings struct {
	TTL      float64 `json:"ttl"`
	Timeout  float64 `json:"timeout"`
	Drift    float64 `json:"drift"`
	RetryMin float64 `json:"retryMin"`
	RetryMax float64 `json:"retryMax"`
	Tries    int     `json:"tries"`
}

func protocolSettings(s lock.Settings) *settings {
	return &settings{toMillis(s.TTL), toMillis(s.Timeout), s.Drift, toMillis(s.RetryMin), toMillis(s.RetryMax), s.Tries}
}

func toMillis(d time.Duration) float64 { return float64(d) / 1e6 }

// reply is a line from an adapter after the hello.
type reply struct {
	ID      number `json:"id"` // ID of the request, or 0 for a notification
	OK      bool   `json:"ok"`
	No      string `json:"no"` // kind of refusal; see refusedTaken and the other constants
	Why     string `json:"why"`
	Quorum  number `json:"quorum"`
	Handle  string `json:"handle"`
	Until   number `json:"until"`
	Clock   string `json:"clock"` // clock that until and at refer to: "monotonic" or "wall"
	Token   string `json:"token"`
	Fence   number `json:"fence"`
	Held    *bool  `json:"held"`
	Pong    bool   `json:"pong"`
	Lost    string `json:"lost"`    // a handle
	Renewed string `json:"renewed"` // a handle
	At      number `json:"at"`
	Mono    number `json:"monotonic"`
	Wall    number `json:"wall"`
}

// Values of No in a reply that isn't ok.
const (
	refusedTaken       = "taken"       // another client has the lock
	refusedUnknown     = "unknown"     // the lock was not acquired, or the outcome is unknown
	refusedNotHeld     = "not-held"    // definite refusal of a release or an extend
	refusedCanceled    = "cancelled"   // canceled as requested
	refusedUnsupported = "unsupported" // not supported by the library
	refusedError       = "error"       // the library threw an exception
)

var refusals = []string{refusedTaken, refusedUnknown, refusedNotHeld, refusedCanceled, refusedUnsupported, refusedError}

// number is a JSON number, or a string with a whole number, because some languages can't represent
// integers above 2^53.
type number int64

// UnmarshalJSON accepts 12, "12" and 1.2e1. A null leaves n unchanged.
func (n *number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	text := strings.Trim(string(b), `"`)
	f, ok := new(big.Float).SetPrec(128).SetString(text)
	if !ok {
		return fmt.Errorf("%s is not a number", b)
	}
	v, _ := f.Int64()
	*n = number(v)
	return nil
}

// readLine reads a line and decodes its JSON.
func readLine(r *bufio.Reader, v any) error {
	b, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return fmt.Errorf("a line on its stdout is longer than %d bytes: %.60q…", maxLineLen, b)
	case err != nil && len(bytes.TrimSpace(b)) > 0:
		return fmt.Errorf("its stdout ended in the middle of a line: %.100q", b)
	case err != nil:
		return errors.New("its stdout has ended")
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("a line on its stdout violates the protocol: %.100q: %w; redirect the library's output to stderr", bytes.TrimSpace(b), err)
	}
	return nil
}

// check returns an error for the first problem in a reply.
func (r reply) check() error {
	switch {
	case r.Lost != "" && r.Renewed != "":
		return errors.New("a line reports both a loss and a renewal")
	case r.Lost != "" || r.Renewed != "":
	case r.ID == 0:
		return errors.New("a line on its stdout is neither an answer nor a notification: set id to the request's id")
	case r.Pong:
	case r.OK && r.No != "":
		return fmt.Errorf("answer %d is both ok and %q", r.ID, r.No)
	case !r.OK && !slices.Contains(refusals, r.No):
		return fmt.Errorf("answer %d is neither ok nor a known refusal (%q): use one of %s", r.ID, r.No, strings.Join(refusals, ", "))
	}
	if r.Until != 0 && r.Clock != "monotonic" && r.Clock != "wall" {
		return fmt.Errorf("answer %d has a deadline with clock %q: use \"monotonic\" or \"wall\"", r.ID, r.Clock)
	}
	return nil
}
