//go:build linux

package docker

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"lockpick/docker/engine"
)

// supply is where images come from during a run, or before it.
type supply struct {
	cfg    Config
	own    *program
	engine *engine.Engine
	labels map[string]string // of all that is made
	say    func(string)      // what takes long
}

// nodes sees to it that the engine has what nodes are to run: the image of that name;
// or, where none is named, redis:7 if it is there, this machine's own redis-server, and
// redis:7 from its registry.
func (s supply) nodes(ctx context.Context, named string) (software, error) {
	if named != "" {
		return s.byName(ctx, named, "docker pull "+named+" where it can be had, or name another image by --set topology.image=NAME")
	}
	if s.cfg.RedisServer == "" {
		has, err := s.engine.HasImage(ctx, usual)
		if err != nil {
			return software{}, fmt.Errorf("look for image %s: %w", usual, err)
		}
		if has {
			return s.byName(ctx, usual, "docker pull "+usual)
		}
	}
	made, err := s.ofThisMachine(ctx)
	if !errors.Is(err, errNoServer) || s.cfg.RedisServer != "" {
		return made, err
	}
	s.say(fmt.Sprintf("%v, and so nodes run %s", err, usual))
	return s.byName(ctx, usual, "apt-get install redis-server; or docker pull "+usual+" where it can be had, or name another image by --set topology.image=NAME")
}

// errNoServer says that this machine has nothing to make a node of.
var errNoServer = errors.New("this machine has no redis-server that could run in a container")

// ofThisMachine makes the image of this machine's redis-server.
func (s supply) ofThisMachine(ctx context.Context) (software, error) {
	path, err := s.server()
	if err != nil {
		return software{}, err
	}
	is, err := s.engine.About(ctx)
	if err != nil {
		return software{}, fmt.Errorf("ask the engine for its architecture: %w", err)
	}
	f, err := elf.Open(path)
	if err != nil {
		return software{}, fmt.Errorf("%w: %s: %w", errNoServer, path, err)
	}
	defer f.Close()
	if f.Machine != machines[is.Arch] {
		return software{}, fmt.Errorf("%w: %s is for %v, and its containers are %s", errNoServer, path, f.Machine, is.Arch)
	}
	i, err := imageOf("redis", path, path)
	if err != nil {
		return software{}, err
	}
	own, _, err := s.client(ctx)
	if err != nil {
		return software{}, err
	}
	gate, _ := own.apart(gateDir)
	i.put(gate)
	if err := i.provide(ctx, s.engine, s.labels[engine.OwnerLabel]); err != nil {
		return software{}, err
	}
	return software{ref: i.ref, program: path, from: path, gated: true}, nil
}

func (s supply) server() (string, error) {
	name := cmp.Or(s.cfg.RedisServer, "redis-server")
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %s is not on PATH", errNoServer, name)
	}
	return filepath.Abs(path)
}

// byName has the engine pull an image that it doesn't have, and finds the server in it.
func (s supply) byName(ctx context.Context, ref, remedy string) (software, error) {
	has, err := s.engine.HasImage(ctx, ref)
	if err != nil {
		return software{}, fmt.Errorf("look for image %s: %w", ref, err)
	}
	if !has {
		s.say("pulling " + ref)
		err := engine.Pull(ctx, s.engine, ref, engine.Progress(ref, s.say))
		if ctx.Err() != nil {
			return software{}, context.Cause(ctx)
		}
		if err != nil {
			return software{}, &Lack{fmt.Errorf("the engine has no image %s and can't pull it: %w", ref, err), remedy}
		}
	}
	i, err := engine.LookAt(ctx, s.engine, ref)
	if err != nil {
		return software{}, fmt.Errorf("look at image %s: %w", ref, err)
	}
	nodes := software{ref: ref, digest: i.Digest, program: serverIn(i)}
	if nodes.program != "" {
		return nodes, nil
	}
	nodes.program, err = engine.FirstOf(ctx, s.engine, ref, s.labels, candidates(i))
	if err != nil {
		return software{}, fmt.Errorf("look for a server in image %s: %w", ref, err)
	}
	if nodes.program == "" {
		return software{}, &Lack{fmt.Errorf("image %s has no server: it starts none, and neither redis-server nor valkey-server is on its PATH", ref),
			"name an image of Redis or Valkey by --set topology.image=NAME"}
	}
	return nodes, nil
}

// serverIn is the program that an image starts, past the script that most have before it,
// which changes to another user: root without capabilities can't. "": it is not to be seen.
func serverIn(i engine.Contents) (program string) {
	for _, word := range i.Starts {
		if strings.HasSuffix(word, "-server") && !strings.HasPrefix(word, "-") && !strings.ContainsAny(word, " \t\n") {
			program = word
		}
	}
	return program
}

// candidates is where an image may have a server, the likelier ones first.
func candidates(i engine.Contents) (files []string) {
	path := cmp.Or(i.Path, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") // as the engine has it
	for _, name := range []string{"redis-server", "valkey-server"} {
		for _, dir := range filepath.SplitList(path) {
			files = append(files, filepath.Join(dir, name))
		}
	}
	return files
}

// clients sees to it that the engine has the clients' image, and says how one is started.
func (s supply) clients(ctx context.Context) (i *image, command []string, err error) {
	if i, command, err = s.client(ctx); err != nil {
		return nil, nil, err
	}
	return i, command, i.provide(ctx, s.engine, s.labels[engine.OwnerLabel])
}

// client is the clients' image, and how one is started.
func (s supply) client(ctx context.Context) (i *image, command []string, err error) {
	if given := slices.Clone(s.cfg.Client); len(given) > 0 {
		if given[0], err = filepath.Abs(given[0]); err != nil {
			return nil, nil, err
		}
		i, err = imageOf("client", given[0], given[0])
		return i, given, err
	}
	is, err := s.engine.About(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("ask the engine for its architecture: %w", err)
	}
	i, err = s.own.image(ctx, is.Arch, s.say)
	return i, []string{insideClient, "__client"}, err
}

// provide sees to it that the engine has the image.
func (i *image) provide(ctx context.Context, e *engine.Engine, owner string) error {
	has, err := e.HasImage(ctx, i.ref)
	if err != nil || has {
		return err
	}
	out, in := io.Pipe()
	go func() { in.CloseWithError(i.write(in)) }()
	err = engine.ImportImage(ctx, e, i.ref, out, map[string]string{engine.OwnerLabel: owner, engine.ImageLabel: i.sort})
	out.Close() // or the writer would wait for an engine that has given up
	if err != nil {
		return fmt.Errorf("import image %s: %w", i.ref, err)
	}
	return nil
}
