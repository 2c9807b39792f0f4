package broken

// Unhunted are the mistakes that no plan within the assumptions shows, with the reason, which
// completes "it shows only". A scenario of the catalogue brings each about.
var Unhunted = map[string]string{
	"no-jitter": "where several clients stay in step, each next to a node of its own, while a node is away: " +
		"those that wait equally long are parted by the first difference between their networks",
	"yes-to-own-value": "where a node stands in the configuration twice and forgets what it granted: " +
		"a node that remembers may have two votes without harm, as long as it gives both to the same client",
}
