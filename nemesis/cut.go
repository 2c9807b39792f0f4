package nemesis

// Modes of a cut.
const (
	// CutHold keeps what is sent and delivers it after healing, as TCP does with
	// a connection that outlives a partition.
	CutHold = "hold"
)

// Cutter cuts a link both ways and mends it.
type Cutter interface {
	Cut(link, mode string) (readBack string, err error)
	Mend(link string) (readBack string, err error)
}

var cut = Kind{
	Name:  "cut",
	Doc:   "cuts links between clients and nodes; a client or node as target means all its links",
	On:    []Target{Link},
	Modes: []string{CutHold},
	Inject: func(cluster any, f Fault, target string) (Effect, error) {
		c, ok := cluster.(Cutter)
		if !ok {
			return Effect{}, missing("cut", cluster)
		}
		back, err := c.Cut(target, f.Mode)
		return Effect{ReadBack: back, Heal: func() (string, error) { return c.Mend(target) }}, err
	},
}
