//go:build linux

package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"
)

// member is what a process is that runs no redis-server.
type member struct {
	Store
	StoreMember
}

// memberEvery is how often a member is asked that begins: an answer may cost all of them a round.
const memberEvery = 10 * time.Millisecond

// StartStore starts the members of a store on free loopback ports, and returns once they are one.
func (g *Group) StartStore(ctx context.Context, of Store, names []string) (all []*Redis, err error) {
	bin, err := exec.LookPath(of.Program)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w; to fix it: %s", of.Name, err, of.Remedy)
	}
	for range portTries {
		if all, err = g.members(bin, of, names); err != nil {
			return nil, err
		}
		// A port may have been taken, which a member that ends need not say last.
		err = join(ctx, all)
		if err == nil || ctx.Err() != nil || !errors.Is(err, errNotOurs) && !errors.Is(err, ErrWontStart) {
			return all, err
		}
		for _, r := range all {
			if r.child != nil {
				err = errors.Join(err, r.child.Kill())
			}
			err = errors.Join(err, os.RemoveAll(r.dir)) // it may have begun with the others
		}
	}
	return nil, err
}

// members prepares them; each knows the addresses of all.
func (g *Group) members(bin string, of Store, names []string) (all []*Redis, err error) {
	addrs, err := freePorts(of.Ports * len(names))
	if err != nil {
		return nil, err
	}
	var know []StoreMember
	for i, name := range names {
		own := addrs[i*of.Ports:][:of.Ports]
		m := StoreMember{Name: name, Dir: g.DataDir(name), Addrs: own}
		know = append(know, m)
		r := &Redis{bin: bin, group: g, dir: m.Dir, member: &member{of, m}}
		r.Server = Server{Name: name, At: own[0], Ask: Ask, Log: r.log}
		if err := os.Mkdir(r.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		all = append(all, r)
	}
	for i, r := range all {
		r.settings = of.Args(know[i], know)
	}
	return all, nil
}

// join starts them all, and waits until each has joined the others.
func join(ctx context.Context, all []*Redis) error {
	each := func(do func(*Redis) error) error {
		errs := make(chan error, len(all))
		for _, r := range all {
			go func() { errs <- do(r) }()
		}
		var err error
		for range all {
			err = errors.Join(err, <-errs)
		}
		return err
	}
	if err := each(func(r *Redis) error { return r.start(ctx) }); err != nil {
		return err
	}
	return each(func(r *Redis) error {
		err := r.Await(ctx, r.child.Done(), memberEvery, func(ctx context.Context) error { return r.member.Joined(ctx, r.member.StoreMember) })
		if err != nil {
			return fmt.Errorf("start %s at %s: %w", r.Name, r.At, err)
		}
		return nil
	})
}

// versionBound is how long a program may take to tell its version.
const versionBound = 5 * time.Second

// VersionOf is what the program of a store says that it is, as "etcd 3.4.23".
func VersionOf(ctx context.Context, of Store) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, of.Program, of.Version...)
	cmd.WaitDelay = versionBound // what it has started may keep its output open
	var out Output
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", of.Program, err)
	}
	text := out.String()
	for _, word := range strings.Fields(text) {
		if v := strings.TrimPrefix(word, "v"); v != "" && v[0] >= '0' && v[0] <= '9' {
			return of.Name + " " + v, nil
		}
	}
	return "", fmt.Errorf("ask %s for its version: it says %.100q", of.Program, text)
}
