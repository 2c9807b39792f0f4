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

// version of the protocol.
const version = 1

// longest is how many bytes a line may have.
const longest = 64 << 10

// Hello is the first line of an adapter: who it is, and what it can.
type Hello struct {
	Hello   number `json:"hello"` // Version
	Name    string `json:"name"`
	Version string `json:"version"` // of the library
	// Can are powers, see the Can constants.
	Can []string `json:"can"`
	// Belief is by what a holder knows how long it has the lock: deadline, the default, signal or
	// none. Where that is a signal, it can tell of a loss.
	Belief string `json:"belief"`
	// KeyPrefix is what the library puts before a lock's name to make a key of it.
	KeyPrefix string `json:"keyPrefix"`
	// Server is what the lock is on: etcd, consul, or redis, the default.
	Server string `json:"server"`
	// Nodes is "one" for a lock on one node, or "many", the default.
	Nodes string `json:"nodes"`
	// Grain is what the library counts a TTL in, in milliseconds; 0: it takes any.
	Grain number `json:"grain"`
	// Retries says who tries again where a lock is taken: "driver", the default, for a library
	// that tries once, or "library".
	Retries string `json:"retries"`
	// Options are settings that only this library has. The first value of each is the library's own default.
	Options []lock.Option `json:"options"`
}

// What an adapter can do besides acquire and release.
const (
	canExtend = "extend"  // the holder can ask for more time
	canHeld   = "held"    // the library can be asked whether it holds
	canLose   = "lost"    // the library tells, unasked, of a loss
	canRenew  = "renewed" // it tells of extensions that the library makes by itself
	canCancel = "cancel"  // an acquire can be broken off
	canFence  = "fence"   // an acquire gives a fencing token
)

var powers = []string{canExtend, canHeld, canLose, canRenew, canCancel, canFence}

var beliefs = []string{"", "deadline", string(lock.BySignal), string(lock.ByNothing)}

// redis is a hello's word for the servers that a lock is on unless it says otherwise.
const redis = "redis"

// Store is the servers that the lock is on; "": Redis.
func (h Hello) Store() string {
	if h.Server == redis {
		return ""
	}
	return h.Server
}

// check says what is wrong with a hello.
func (h Hello) check() error {
	switch {
	case h.Hello != version:
		return fmt.Errorf("its first line is no hello of protocol %d: begin with {\"hello\":%d,\"name\":…}", version, version)
	case h.Name == "":
		return errors.New("its hello has no name")
	case !slices.Contains(beliefs, h.Belief):
		return fmt.Errorf("its hello says belief %q: say deadline, signal or none", h.Belief)
	case h.Belief == string(lock.BySignal) && !h.can(canLose):
		return errors.New("its hello says belief signal, and not that it can tell of a loss: add lost to can")
	case !lock.PrefixFits(h.KeyPrefix):
		return fmt.Errorf("its hello says keyPrefix %.200q: say printable ASCII, at most %d bytes of it", h.KeyPrefix, lock.MostPrefix)
	case h.Server != "" && h.Server != redis && !slices.Contains(lock.Servers(), h.Server):
		return fmt.Errorf("its hello says server %q: say one of %s", h.Server, strings.Join(append([]string{redis}, lock.Servers()...), ", "))
	case h.Nodes != "" && h.Nodes != "one" && h.Nodes != "many":
		return fmt.Errorf("its hello says nodes %q: say one or many", h.Nodes)
	case h.Retries != "" && h.Retries != "driver" && h.Retries != "library":
		return fmt.Errorf("its hello says retries %q: say driver or library", h.Retries)
	}
	for _, c := range h.Can {
		if !slices.Contains(powers, c) {
			return fmt.Errorf("its hello says it can %q, which is no power: powers are %s", c, strings.Join(powers, ", "))
		}
	}
	return checkOptions(h.Options)
}

// optionWord is a name or a value that fits in --set lock.options.NAME=VALUE.
var optionWord = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// checkOptions reports what is wrong with the options in a hello.
func checkOptions(options []lock.Option) error {
	var names []string
	for _, o := range options {
		switch {
		case !optionWord.MatchString(o.Name):
			return fmt.Errorf("its hello has an option %q: use lower-case letters, digits and hyphens", o.Name)
		case slices.Contains(names, o.Name):
			return fmt.Errorf("its hello has the option %s twice", o.Name)
		case len(o.Values) < 2:
			return fmt.Errorf("its hello gives the option %s %d values: give the library's default first, then the others", o.Name, len(o.Values))
		}
		for _, v := range o.Values {
			if !optionWord.MatchString(v) {
				return fmt.Errorf("its hello gives the option %s a value %q: use lower-case letters, digits and hyphens", o.Name, v)
			}
		}
		names = append(names, o.Name)
	}
	return nil
}

// Title is its name with the version.
func (h Hello) Title() string { return strings.TrimSpace(h.Name + " " + h.Version) }

func (h Hello) can(power string) bool { return slices.Contains(h.Can, power) }

// Kind is the kind of lock that an adapter of this hello is.
func (h Hello) Kind() lock.Kind {
	belief := lock.Belief(h.Belief)
	if belief == "deadline" {
		belief = lock.ByDeadline
	}
	var options []lock.Option
	for _, o := range h.Options { // which properties an option forgoes is not for an adapter to say
		options = append(options, lock.Option{Name: o.Name, Doc: o.Doc, Values: o.Values})
	}
	return lock.Kind{
		Options: options,
		New:     New, Belief: belief, Doc: h.Title(), OwnTime: true, OwnTokens: true, OneNode: h.Nodes == "one", Server: h.Store(), Prefix: h.KeyPrefix,
		Can: lock.Powers{Extend: h.can(canExtend), Fence: h.can(canFence)},
	}
}

// request is a line to an adapter.
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
	Of       int64             `json:"of,omitempty"` // of cancel: the acquire
}

type node struct {
	Name string `json:"name"`
	Addr string `json:"addr"`
}

// settings are a scenario's, in milliseconds.
type settings struct {
	TTL      float64 `json:"ttl"`
	Timeout  float64 `json:"timeout"`
	Drift    float64 `json:"drift"`
	RetryMin float64 `json:"retryMin"`
	RetryMax float64 `json:"retryMax"`
	Tries    int     `json:"tries"`
}

func settingsOf(s lock.Settings) *settings {
	return &settings{ms(s.TTL), ms(s.Timeout), s.Drift, ms(s.RetryMin), ms(s.RetryMax), s.Tries}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// reply is a line from an adapter, after the hello.
type reply struct {
	ID      number `json:"id"` // of the request; 0: nobody asked
	OK      bool   `json:"ok"`
	No      string `json:"no"` // why not, see the No constants
	Why     string `json:"why"`
	Quorum  number `json:"quorum"`
	Handle  string `json:"handle"`
	Until   number `json:"until"`
	Clock   string `json:"clock"` // that until and at are by: monotonic or wall
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

// Words of a reply that isn't ok.
const (
	noTaken       = "taken"       // another has the lock
	noUnknown     = "unknown"     // it was not acquired, or nobody knows
	noHeld        = "not-held"    // a definite no to release or extend
	noCancelled   = "cancelled"   // as asked
	noUnsupported = "unsupported" // the library can't
	noError       = "error"       // the library failed: an exception
)

var refusals = []string{noTaken, noUnknown, noHeld, noCancelled, noUnsupported, noError}

// number is a whole number of JSON, or of a string: some languages' numbers end at 2^53.
type number int64

// UnmarshalJSON reads 12, "12" and 1.2e1; null is as if it were left out.
func (n *number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	text := strings.Trim(string(b), `"`)
	f, ok := new(big.Float).SetPrec(128).SetString(text)
	if !ok {
		return fmt.Errorf("%s is no number", b)
	}
	v, _ := f.Int64()
	*n = number(v)
	return nil
}

// readLine reads a line as JSON into to.
func readLine(from *bufio.Reader, to any) error {
	b, err := from.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return fmt.Errorf("a line on its stdout is longer than %d bytes: %.60q…", longest, b)
	case err != nil && len(bytes.TrimSpace(b)) > 0:
		return fmt.Errorf("its stdout ended in the midst of a line: %.100q", b)
	case err != nil:
		return errors.New("its stdout has ended")
	}
	if err := json.Unmarshal(b, to); err != nil {
		return fmt.Errorf("a line on its stdout is not of the protocol: %.100q: %w; what a library prints belongs on stderr", bytes.TrimSpace(b), err)
	}
	return nil
}

// check says what is wrong with a reply.
func (r reply) check() error {
	switch {
	case r.Lost != "" && r.Renewed != "":
		return errors.New("a line tells of a loss and of a renewal at once")
	case r.Lost != "" || r.Renewed != "":
	case r.ID == 0:
		return errors.New("a line on its stdout answers no request and tells of nothing: give it the request's id")
	case r.Pong:
	case r.OK && r.No != "":
		return fmt.Errorf("answer %d is ok and %q at once", r.ID, r.No)
	case !r.OK && !slices.Contains(refusals, r.No):
		return fmt.Errorf("answer %d is neither ok nor a no that the protocol has (%q): say one of %s", r.ID, r.No, strings.Join(refusals, ", "))
	}
	if r.Until != 0 && r.Clock != "monotonic" && r.Clock != "wall" {
		return fmt.Errorf("answer %d has a deadline by clock %q: say monotonic or wall", r.ID, r.Clock)
	}
	return nil
}
