//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"lockpick/docker/engine"
)

// guest is a container of Config.Nodes: it serves as a node, on the site's network besides
// its own. Faults hit it as they hit lockpick's own nodes, but it is never removed. What a
// run has done to it and a wipe does not undo, a restart does.
type guest struct {
	*node
	called  string // by who made it
	image   string
	version string // as in redis 7.0.15
	persist string // as a scenario's topology.persistence
	notify  string // its notify-keyspace-events, which runs change
}

// notify is the setting by which a server tells of its keys.
const notify = "notify-keyspace-events"

// introduce asks a server what it is. It must be empty: runs wipe their nodes.
func (g *guest) introduce(ctx context.Context) error {
	info, err := g.Ask(ctx, g.At, "INFO")
	if err != nil {
		return err
	}
	g.version = strings.TrimSuffix(versionIn(info.Str), ", ")
	for _, is := range []string{"redis_mode:standalone", "role:master"} {
		if !strings.Contains(info.Str, "\n"+is+"\r\n") {
			return &Lack{errors.New("its server is no master of its own: it is not so that " + is), "name one that is alone"}
		}
	}
	if _, keys, has := strings.Cut(info.Str, "\ndb"); has {
		keys, _, _ = strings.Cut(keys, ",")
		return &Lack{fmt.Errorf("its server has keys (db%s), and runs wipe their nodes", keys),
			"name one that is empty; if nobody needs the keys: docker exec " + g.called + " redis-cli FLUSHALL"}
	}
	set := map[string]string{}
	for _, name := range []string{"appendonly", "appendfsync", "save", notify} {
		v, err := g.command(ctx, g.called, []string{"CONFIG", "GET", name})
		if err != nil {
			return err
		}
		if pair, ok := v.([]any); ok && len(pair) == 2 {
			set[name] = fmt.Sprint(pair[1])
		}
	}
	if set["save"] != "" {
		return &Lack{fmt.Errorf("its server saves snapshots (save %s), as no scenario's node does", set["save"]), "start it with --save ''"}
	}
	g.notify = set[notify]
	g.persist = set["appendfsync"]
	if set["appendonly"] != "yes" {
		g.persist = "none"
	}
	return nil
}

// restore undoes what a run has done to it.
func (g *guest) restore(ctx context.Context) error {
	g.changing.Lock()
	defer g.changing.Unlock()
	if g.starved.Load() {
		if err := g.engine.Bound(ctx, g.id, engine.Share{}); err != nil {
			return fmt.Errorf("feed %s: %w", g.called, err)
		}
		g.starved.Store(false)
	}
	if g.unplugged.Load() {
		if err := g.engine.Connect(ctx, g.base.net.name, g.id, netip.MustParseAddrPort(g.At).Addr()); err != nil {
			return fmt.Errorf("plug %s in: %w", g.called, err)
		}
		g.unplugged.Store(false)
	}
	if _, err := g.Resume(ctx); err != nil {
		return err
	}
	if g.spoiled.Load() && g.Runs() {
		if _, err := g.end(ctx); err != nil {
			return err
		}
	}
	if !g.Runs() {
		if err := g.begin(ctx); err != nil {
			return err
		}
	}
	g.spoiled.Store(false)
	g.tell(ctx)
	if _, err := g.command(ctx, g.called, []string{"CONFIG", "SET", notify, g.notify}); err != nil {
		return err
	}
	return g.wipe(ctx)
}

// versionIn is how a server's INFO names it. A Valkey calls itself a Redis, too.
func versionIn(info string) string {
	for _, name := range []string{"valkey", "redis"} {
		if _, rest, ok := strings.Cut(info, "\n"+name+"_version:"); ok {
			version, _, _ := strings.Cut(rest, "\r\n")
			return name + " " + version + ", "
		}
	}
	return ""
}
