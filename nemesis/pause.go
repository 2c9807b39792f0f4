package nemesis

// Pauser stops a client and lets it go on. While it is stopped it sends
// nothing, sees nothing and records nothing; its clock runs on, as in a
// stop-the-world collection or a SIGSTOP.
type Pauser interface {
	Pause(target string) (readBack string, err error)
	Resume(target string) (readBack string, err error)
}

var pause = Kind{
	Name: "pause",
	Doc:  "stops a client for a time, as a garbage collection or a suspended machine does",
	On:   []Target{Client},
	Inject: func(cluster any, _ Fault, target string) (Effect, error) {
		c, ok := cluster.(Pauser)
		if !ok {
			return Effect{}, missing("pause", cluster)
		}
		back, err := c.Pause(target)
		return Effect{ReadBack: back, Heal: func() (string, error) { return c.Resume(target) }}, err
	},
}
