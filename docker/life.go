//go:build linux

package docker

import "lockpick/harness/scenario"

// tell lets the nodes tell the links' container of their keys, where they can. The run
// does without.
func (c *cluster) tell(scenario.Scenario) error {
	addrs := map[string]string{}
	for _, name := range c.names {
		addrs[name] = c.Nodes.Server(name).At
	}
	c.tells = c.Told(c.ctx, addrs) == nil
	return nil
}

// ends ends a node whose last facts are waited for.
func (c *cluster) ends(node string, inOrder bool, end func() (string, error)) (string, error) {
	goesOn := c.Remote.Ends(c.ctx, node, inOrder)
	back, err := end()
	if err != nil {
		goesOn()
	}
	return back, err
}

// TellsLife says whether the record has what the nodes tell of their keys.
func (c *cluster) TellsLife() bool { return c.tells }

// Epoch is what a right wall clock shows at true time zero, on the engine's machine.
func (c *cluster) Epoch() int64 { return c.epoch }
