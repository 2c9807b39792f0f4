//go:build linux

package process

import "lockpick/harness/scenario"

// tell lets the nodes tell of their keys, where they can: Probe says what keeps them from
// it, and the run does without.
func (c *cluster) tell(s scenario.Scenario) error {
	addrs := map[string]string{}
	for _, node := range s.NodeNames() {
		addrs[node] = c.Server(node).Addr()
	}
	c.tells = c.lives.Watch(addrs) == nil
	return nil
}

// ends ends a node whose last facts are waited for.
func (c *cluster) ends(node string, inOrder bool, end func() (string, error)) (string, error) {
	c.lives.Ends(node, inOrder)
	back, err := end()
	if err != nil {
		c.lives.Lives(node)
	}
	return back, err
}

// TellsLife says whether the record has what the nodes tell of their keys.
func (c *cluster) TellsLife() bool { return c.tells }

// Epoch is what a right wall clock shows at true time zero.
func (c *cluster) Epoch() int64 { return c.lives.Epoch() }
