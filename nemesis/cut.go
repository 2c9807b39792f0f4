package nemesis

// Modes of a cut.
const (
	// CutHold keeps what is sent and delivers it after healing, as TCP does with
	// a connection that outlives a partition.
	CutHold = "hold"
	// CutDrop loses what is sent. Connections that lost something are reset when
	// it heals, for no byte of TCP can be missing.
	CutDrop = "drop"
	// CutReset ends the connections at once, and each new one.
	CutReset = "reset"
	// CutRefuse leaves the connections that there are, and refuses new ones.
	CutRefuse = "refuse"
)

// Cutter cuts a link and mends it. The way is Request, Reply or "", both; only a
// cut that holds or drops can be one way.
type Cutter interface {
	Cut(link, mode, way string) (readBack string, err error)
	Mend(link string) (readBack string, err error)
}

var cut = Kind{
	Name:   "cut",
	Doc:    "cuts links; a client as target means its links to all nodes, a node those to all clients",
	Within: "any: the network need not deliver",
	On:     []Target{Link},
	Modes:  []string{CutHold, CutDrop, CutReset, CutRefuse},
	Takes:  []string{"way"}, Nests: true,
	Inject: func(cluster any, f Fault, target string) (Effect, error) {
		c, ok := cluster.(Cutter)
		if !ok {
			return Effect{}, missing("cut", cluster)
		}
		back, err := c.Cut(target, f.Mode, f.Way)
		return Effect{ReadBack: back, Heal: func() (string, error) { return c.Mend(target) }}, err
	},
}
