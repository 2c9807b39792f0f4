package node

import (
	"maps"

	"lockpick/harness/history"
)

// Fact is one change of what a key is, as the node tells it at once. Of its Life the node
// gives neither place nor life nor doer, which it doesn't know.
type Fact struct {
	Key string
	Now int64 // the clock by which keys expire, nanoseconds since 1970
	history.Life
}

// Teller is told of each key's life.
type Teller interface {
	// Tell is told what became of a key.
	Tell(Fact)
	// Spare is asked whether that is not to be: then all stays as it was. A deleted key's
	// client is answered as if it were gone, and what would have been set is refused. It isn't
	// asked of values that are changed in place, as a hash is.
	Spare(Fact) bool
}

// becomes is what a key's life is told as if it gets a value, and whether somebody is told
// and that is a change.
func (k *keyspace) becomes(key string, v *value) (f Fact, changed bool) {
	if k.teller == nil {
		return f, false
	}
	f = k.fact(key, history.KeySet)
	f.Value, f.Expires = v.String(), v.until()
	if k.keys[key] == nil {
		return f, true
	}
	if f.What = history.KeyExpiry; f.Old != f.Value {
		f.What = history.KeyChanged
	}
	return f, f.Old != f.Value || f.Before != f.Expires
}

// fact is one of a key that has not changed yet.
func (k *keyspace) fact(key string, what history.Change) Fact {
	old := k.keys[key]
	f := Fact{Key: key, Now: k.ExpiryClock(), Life: history.Life{What: what, Old: old.String(), Before: old.until()}}
	if what != history.KeyExpired { // that is nobody's doing, whoever noticed
		f.Command, f.Script = k.doing, k.scripted
	}
	return f
}

// Held is what the node holds, by key, also if its time is over and nobody has looked.
func (k *keyspace) Held() map[string]Fact {
	all := map[string]Fact{}
	for key, v := range k.keys {
		all[key] = Fact{Key: key, Life: history.Life{Value: v.String(), Expires: v.until()}}
	}
	return all
}

// Living is what of that is still there for whoever looks.
func (k *keyspace) Living() map[string]Fact {
	all, now := k.Held(), k.ExpiryClock()/1e6
	maps.DeleteFunc(all, func(_ string, f Fact) bool { return f.Expires != 0 && now > f.Expires/1e6 })
	return all
}

// Plant puts a key as it lived in an earlier life, text only.
func (k *keyspace) Plant(f Fact) {
	k.keys[f.Key] = &value{text, []string{f.Old}, f.Before / 1e6}
}
