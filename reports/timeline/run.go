package timeline

import (
	"lockpick/checker"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

type event = history.Event

// run is what is known of the run that is drawn.
type run struct {
	f         *facts.Facts
	end       int64 // of the run's own time, ns
	beliefs   []facts.Belief
	bySession map[string][]facts.Belief
	owners    map[string]string // token: session

	history    *history.History
	violations map[string][]checker.Result // memo of incidents, by property
}

func newRun(h *history.History) *run {
	f := facts.Read(h)
	r := &run{f: f, beliefs: f.Beliefs(), bySession: map[string][]facts.Belief{}, owners: map[string]string{},
		history: h, violations: map[string][]checker.Result{}}
	for _, x := range r.beliefs {
		r.bySession[x.Session] = append(r.bySession[x.Session], x)
	}
	for s := range f.Sessions() {
		if token := s.Token(); token != "" {
			r.owners[token] = s.Name()
		}
	}
	for i := range f.Events {
		e := &f.Events[i]
		if e.Op != history.OpLog {
			r.end = max(r.end, e.T)
		}
		if e == f.Stop {
			break
		}
	}
	r.end = max(r.end, 1000)
	return r
}

// clientOf is a session's client; of one that is not in the record, what its name begins with.
func (r *run) clientOf(session string) string {
	if s := r.f.Named(session); s != nil {
		return s.Client()
	}
	for i := len(session) - 1; i > 0; i-- {
		if session[i] == '/' {
			return session[:i]
		}
	}
	return session
}

type builder struct {
	run   *run
	chart *chart
}

func newBuilder(h *history.History) *builder {
	r := newRun(h)
	return &builder{run: r, chart: &chart{end: r.end, kinds: map[string]int{}, texts: map[string]int{"": 0}, t: Timeline{End: micros(r.end), Texts: []string{""},
		Lanes: []lane{}, Rows: []row{}, Lines: []line{}, Kinds: []kind{}, Items: []item{}, Views: []view{}}}}
}
