package broken

// mistake is what is wrong with a lock, as switches of its few steps. The zero
// value is a correct lock.
type mistake struct {
	name, doc string

	noElapsedCheck bool
	sameValue      bool
	halfQuorum     bool
	plainDel       bool
	unbounded      bool
}

// mistakes is the one table of them.
var mistakes = []mistake{
	{name: "no-elapsed-check", noElapsedCheck: true,
		doc: "does not ask how long the attempt took, and claims TTL − drift from its end"},
	{name: "same-value-for-retries", sameValue: true,
		doc: "sets one random value in all attempts of an acquire, so that a delayed release of one deletes the key of another"},
	{name: "quorum-half", halfQuorum: true,
		doc: "takes N/2 nodes for a quorum instead of N/2+1, so that two clients can have one each"},
	{name: "plain-del", plainDel: true,
		doc: "releases with DEL, whoever holds the key by then (a failed attempt is still undone with care)"},
	{name: "unbounded-extension", unbounded: true,
		doc: "extends for as long as it is asked to, whatever the limit, so that one holder can keep all others out"},
}

// Mistake names a mistake, and says in one sentence what is done wrong.
type Mistake struct{ Name, Doc string }

// Mistakes lists what Settings.Mistake can be.
func Mistakes() []Mistake {
	var out []Mistake
	for _, m := range mistakes {
		out = append(out, Mistake{m.name, m.doc})
	}
	return out
}
