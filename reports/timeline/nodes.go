package timeline

import (
	"fmt"
	"slices"

	"lockpick/harness/history/facts"
	"lockpick/reports/words"
)

const mostNodes = 24

// nodeLanes draws for each node whose key it has, and until when.
func (b *builder) nodeLanes() {
	names := b.first(b.f.Params.Nodes, mostNodes, "node")
	lives := b.lives()
	for _, name := range slices.Compact(slices.Clone(names)) {
		b.lane(name, Node)
		row := b.row(16)
		for i, key := range lives[name] {
			if i >= mostKeys {
				b.omit(words.Plural(len(lives[name])-mostKeys, "more key") + " on " + short(name))
				break
			}
			if i > 0 {
				row = b.row(16)
			}
			for _, l := range key {
				b.drawLife(row, l)
			}
		}
		b.clockRow(name)
		b.stalls(name)
	}
}

// life is a key on a node from when it was set to when it was gone.
type life struct {
	set      *event // the command that set it
	of       []*event
	from, to int64
	due      int64  // when it was to expire as the node's clock ran then; never: it was not
	early    bool   // it was gone before that, or while its session believed in it
	how      string // in words, "": as it was to be
	by       *event // the command that ended it; nil: none did
}

func (b *builder) drawLife(row int, l life) {
	owner := facts.Sender(l.set)
	session := b.owners[l.set.Token]
	if session != "" {
		owner = b.clientOf(session)
	}
	until := ""
	if l.due < never {
		until = "due to expire at " + words.Seconds(l.due) + " by its clock"
	}
	class := "lease"
	if l.early {
		class = "lease-early"
	}
	events := l.of
	if l.by != nil {
		events = append(slices.Clone(l.of), l.by)
	}
	b.put(row, class, l.from, l.to, said{label: short(owner), session: session,
		detail: sentence(fmt.Sprintf("%s's %s", short(owner), short(l.set.Key)), until, l.how)}, events...)
	if l.early {
		b.put(row, "lost", l.to, l.to, said{detail: sentence(fmt.Sprintf("%s's key is gone", short(owner)), l.how), session: session}, events...)
	}
}
