package kinds

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
