package node

import (
	"maps"
	"strings"

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

// holding is what a key holds, and until when: a value may be changed in place, so what it
// was before has to be kept.
type holding struct {
	text    string
	expires int64 // milliseconds of the node's clock; 0: never
}

func (v *value) holding() holding {
	h := holding{v.text, v.expires}
	switch v.kind {
	case hash:
		var words []string
		for _, f := range v.hash {
			words = append(words, f.name, f.value)
		}
		h.text = strings.Join(words, " ")
	case list:
		h.text = strings.Join(v.list, " ")
	}
	return h
}

// remember takes note of what a key holds from now on; nil: there is none.
func (n *Node) remember(key string, v *value) {
	switch {
	case n.config.Teller == nil:
	case v == nil:
		delete(n.held, key)
	default:
		n.held[key] = v.holding()
	}
}

// becomes is what a key's life is told as if it gets a value, and whether that is a change.
func (n *Node) becomes(key string, v *value) (Fact, bool) {
	old, had := n.held[key]
	now := v.holding()
	f := n.fact(key, history.KeySet)
	f.Value, f.Old = now.text, old.text
	f.Expires, f.Before = now.expires*1e6, old.expires*1e6
	switch {
	case !had:
	case old.text != now.text:
		f.What = history.KeyChanged
	case old.expires != now.expires:
		f.What = history.KeyExpiry
	default:
		return f, false
	}
	return f, true
}

// goes is what a key's life is told as if it ends.
func (n *Node) goes(key string, how history.Change) Fact {
	f := n.fact(key, how)
	old := n.held[key]
	f.Old, f.Before = old.text, old.expires*1e6
	return f
}

func (n *Node) fact(key string, what history.Change) Fact {
	f := Fact{Key: key, Now: n.ExpiryClock(), Life: history.Life{What: what}}
	if what != history.KeyExpired { // that is nobody's doing, whoever noticed
		f.Command, f.Script = n.doing, n.scripted
	}
	return f
}

// Held is what the node holds, by key, also if its time is over and nobody has looked.
func (n *Node) Held() map[string]Fact {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[string]Fact{}
	for key, v := range n.keys {
		h := v.holding()
		all[key] = Fact{Key: key, Life: history.Life{Value: h.text, Expires: h.expires * 1e6}}
	}
	return all
}

// Living is what of that is still there for whoever looks.
func (n *Node) Living() map[string]Fact {
	all, now := n.Held(), n.ExpiryClock()/1e6
	maps.DeleteFunc(all, func(_ string, f Fact) bool { return f.Expires != 0 && now > f.Expires/1e6 })
	return all
}

// Plant puts a key as it lived in an earlier life, text only.
func (n *Node) Plant(f Fact) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := &value{kind: text, text: f.Old, expires: f.Before / 1e6}
	n.keys[f.Key] = v
	n.remember(f.Key, v)
}
