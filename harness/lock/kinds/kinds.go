// Package kinds is the one table of locks that can be tested, by name.
//
// Adding a lock is a package lock/<kind> and one line here.
//
// Deliberately missing: registration at run time. What can be tested is seen
// below.
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

// All has each kind by name.
var All = map[string]lock.Kind{
	"redlock": {Doc: "the reference, Redlock as its specification has it", New: redlock.New, Can: all},
	"hardened": {Doc: "the lock that package redlock advises, which holds where the specification does not", New: redlock.Hardened,
		Can: lock.Powers{Extend: true, Limit: true, Fence: true}, Options: redlock.Own, Distinct: true},
	"broken":   {Doc: "the same with one mistake, which lock.mistake names", New: broken.New, Can: all},
	"single":   {Doc: "one key on one server", New: single.New, OneNode: true, Can: most},
	"failover": {Doc: "the same on a master whose replica may take its place", New: single.New, OneNode: true, Can: most},

	// Libraries as they are published.
	"redsync":   {Doc: "go-redsync/redsync v4", New: redsync.New, OwnTime: true, Can: lock.Powers{Extend: true}, Options: redsync.Own},
	"redislock": {Doc: "bsm/redislock", New: redislock.New, OwnTime: true, OneNode: true, Can: lock.Powers{Extend: true}},
	"rueidis": {Doc: "rueidislock of redis/rueidis, which extends by itself and tells of a loss", New: rueidis.New,
		OwnTime: true, OwnTokens: true, OneNode: true, Belief: lock.BySignal, Prefix: rueidis.Prefix, Options: rueidis.Own},
}

// What our own kinds can do.
var (
	all  = lock.Powers{Extend: true, Limit: true, Fence: true, Sequential: true}
	most = lock.Powers{Extend: true, Limit: true}
)

// Names lists the kinds in the order of the alphabet.
func Names() []string { return slices.Sorted(maps.Keys(All)) }

// Setups lists a kind as it comes, and with each other value of each of its options.
func Setups(kind string) []string {
	all := []string{kind}
	for _, o := range All[kind].Options {
		for _, value := range o.Values[1:] {
			all = append(all, kind+":"+strings.TrimPrefix(o.With+","+o.Name+"="+value, ","))
		}
	}
	return all
}

// Claims is what the documentation of a kind promises, by the kind's name and the property's,
// in its words and with the source. Of what is not in it the documentation says nothing.
var Claims = map[string]map[string]string{
	"redlock":  pattern("the specification"),
	"hardened": pattern("the specification, which the package documentation of redlock claims to keep"),
	"redsync": with(pattern("README, which links to it"), mutualExclusion,
		`"After this is successful, no one else can obtain the same lock (the same mutex name) until we unlock it." (README)`),
	"redislock": pattern("README, which links to it"),
	"rueidis": with(pattern("README, which links to it"), mutualExclusion,
		`"At any given moment, only one client can hold a lock." (redis.io, which the README links to); `+
			`"The returned ctx will be canceled automatically and immediately once the KeyMajority is not held anymore" (README, of client-side caching)`),
}

// A lock that excludes others leaves them answers that one lease lock could have given.
const (
	mutualExclusion   = "mutual-exclusion"
	leaseLinearizable = "lease-linearizable"
)

// pattern is what the page on the pattern promises, which says "safety and liveness
// guarantees" of three properties.
func pattern(source string) map[string]string {
	const page = " (redis.io, Distributed Locks with Redis; "
	return map[string]string{
		mutualExclusion:    `"At any given moment, only one client can hold a lock."` + page + source + ")",
		leaseLinearizable:  `"At any given moment, only one client can hold a lock."` + page + source + ")",
		"deadlock-freedom": `"Eventually it is always possible to acquire a lock, even if the client that locked a resource crashes or gets partitioned."` + page + source + ")",
		"fault-tolerance":  `"As long as the majority of Redis nodes are up, clients are able to acquire and release locks."` + page + source + ")",
	}
}

func with(claims map[string]string, property, words string) map[string]string {
	claims[property] = words
	return claims
}
