// Package kinds lists all locks that can be tested, by name.
//
// To add a lock, add a package lock/<kind> and one line here.
//
// Deliberately missing: registration at run time. The table below is complete.
package kinds

import (
	"maps"
	"slices"
	"strings"

	"lockpick/harness/lock"
	"lockpick/harness/lock/broken"
	"lockpick/harness/lock/redislock"
	"lockpick/harness/lock/redlock"
	"lockpick/harness/lock/redsync"
	"lockpick/harness/lock/rueidis"
	"lockpick/harness/lock/single"
)

// All contains every kind of lock, by name.
var All = map[string]lock.Kind{
	"redlock": {Doc: "the reference: Redlock as specified", New: redlock.New, Can: allFeatures},
	"hardened": {Doc: "the lock recommended by package redlock, which is safe in cases where the specification isn't", New: redlock.Hardened,
		Can: lock.Features{Extend: true, Limit: true, Fence: true}, Options: redlock.Options, Distinct: true},
	"broken":   {Doc: "redlock with one deliberate mistake, selected by lock.mistake", New: broken.New, Can: allFeatures},
	"single":   {Doc: "one key on one server", New: single.New, OneNode: true, Can: withoutFencing},
	"failover": {Doc: "single, on a master whose replica may take its place", New: single.New, OneNode: true, Can: withoutFencing},

	// Published libraries, unmodified.
	"redsync":   {Doc: "go-redsync/redsync v4", New: redsync.New, OwnTime: true, Can: lock.Features{Extend: true}, Options: redsync.Options},
	"redislock": {Doc: "bsm/redislock", New: redislock.New, OwnTime: true, OneNode: true, Can: lock.Features{Extend: true}},
	"rueidis": {Doc: "rueidislock from redis/rueidis, which extends locks automatically and reports when one is lost", New: rueidis.New,
		OwnTime: true, OwnTokens: true, OneNode: true, Belief: lock.BySignal, Prefix: rueidis.Prefix, Options: rueidis.Options},
}

// Features of lockpick's own kinds.
var (
	allFeatures    = lock.Features{Extend: true, Limit: true, Fence: true, Sequential: true}
	withoutFencing = lock.Features{Extend: true, Limit: true}
)

// Names lists the kinds in alphabetical order.
func Names() []string { return slices.Sorted(maps.Keys(All)) }

// Setups lists a kind's setups: the kind with its default options, and the kind with each other
// value of each option.
func Setups(kind string) []string {
	setups := []string{kind}
	for _, o := range All[kind].Options {
		for _, value := range o.Values[1:] {
			setups = append(setups, kind+":"+strings.TrimPrefix(o.With+","+o.Name+"="+value, ","))
		}
	}
	return setups
}

// Claims quotes the guarantees in the kinds' documentation, with their sources, by kind and
// property. The documentation doesn't mention properties that are not listed.
var Claims = map[string]map[string]string{
	"redlock":  patternClaims("the specification"),
	"hardened": patternClaims("the specification, which package redlock claims to implement"),
	"redsync": withClaim(patternClaims("README, which links to it"), mutualExclusion,
		`"After this is successful, no one else can obtain the same lock (the same mutex name) until we unlock it." (README)`),
	"redislock": patternClaims("README, which links to it"),
	"rueidis": withClaim(patternClaims("README, which links to it"), mutualExclusion,
		`"At any given moment, only one client can hold a lock." (redis.io, which the README links to); `+
			`"The returned ctx will be canceled automatically and immediately once the KeyMajority is not held anymore" (README, of client-side caching)`),
}

// A lock that provides mutual exclusion is lease-linearizable, too: a single lease lock could have
// given all its answers.
const (
	mutualExclusion   = "mutual-exclusion"
	leaseLinearizable = "lease-linearizable"
)

// patternClaims returns the guarantees that the documentation of the pattern states as three
// "safety and liveness guarantees".
func patternClaims(source string) map[string]string {
	const page = " (redis.io, Distributed Locks with Redis; "
	return map[string]string{
		mutualExclusion:    `"At any given moment, only one client can hold a lock."` + page + source + ")",
		leaseLinearizable:  `"At any given moment, only one client can hold a lock."` + page + source + ")",
		"deadlock-freedom": `"Eventually it is always possible to acquire a lock, even if the client that locked a resource crashes or gets partitioned."` + page + source + ")",
		"fault-tolerance":  `"As long as the majority of Redis nodes are up, clients are able to acquire and release locks."` + page + source + ")",
	}
}

func withClaim(claims map[string]string, property, quote string) map[string]string {
	claims[property] = quote
	return claims
}
