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
	"sync"
	"time"

	"lockpick/docker/engine"
	"lockpick/harness/real/proc"
)

// engineBound is how long the engine may take to start, pause, kill or remove a
// container. It takes tenths of a second; beyond the bound something is wrong.
const engineBound = 15 * time.Second

// box is a container of a run: a node, a client, a link or an adapter.
type box struct {
	engine   *engine.Engine
	name, id string
	host     int   // on the network
	near     bool  // its processes are on this machine
	here     bool  // and ours to kill
	beside   *box  // from where its gate is opened; nil: it has none, or it is opened from this process
	turns    bool  // it is a client's, and the run changes its clocks
	talk     *talk // with its program; nil: nobody talks with it

	mu     sync.Mutex
	run    *running // the latest; nil: it was never started
	paused bool
	told   func(*running) // hears of an end, and may know of it; nil: nobody looks after it
	frozen bool           // somebody else has paused it
	// Pauses, and ends of these, that were asked for and the engine has not told of yet.
	pausing, resuming int
	turned            time.Time // when the last of them was asked for
}

// running is one run of a container's program.
type running struct {
	process int           // on this machine; 0: unknown
	once    sync.Once     // closes ended
	ended   chan struct{} // closed when it has ended
	told    chan struct{} // closed when the engine has said so, with what follows
	status  int64         // of its end
	err     error         // why its end is unknown
	starved bool          // it ended for want of memory
	asked   bool          // it was asked to end
	strange bool          // it was not, and that is recorded
}

func (r *running) end() { r.once.Do(func() { close(r.ended) }) }

// awaitTold waits until the engine reports that the container has ended.
func (r *running) awaitTold() error {
	select {
	case <-r.told:
		return nil
	case <-time.After(engineBound):
		return proc.Late(fmt.Sprintf("the engine does not say that it has ended, after %v", engineBound))
	}
}

func (b *box) start(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.settle(); err != nil {
		return err
	}
	ended, err := b.engine.Start(context.WithoutCancel(ctx), b.id)
	if err != nil {
		return fmt.Errorf("start %s: %w", b.name, err)
	}
	r := &running{ended: make(chan struct{}), told: make(chan struct{})}
	if b.near {
		if _, pid, err := b.engine.State(ctx, b.id); err == nil && proc.InContainer(pid, b.id) {
			r.process = pid
		}
	}
	b.run, b.paused = r, false
	go func() {
		r.status, r.err = ended()
		if r.status > killedBy {
			r.starved = b.engine.Starved(context.WithoutCancel(ctx), b.id)
		}
		close(r.told)
		r.end()
		b.mu.Lock()
		told := b.told
		b.mu.Unlock()
		if told != nil {
			told(r)
		}
	}()
	return nil
}

// settle waits until the engine knows that it has ended, before it starts anew: what was
// killed by its process the engine takes for running a while longer. The lock is held.
func (b *box) settle() error {
	if b.run == nil {
		return nil
	}
	if err := b.run.awaitTold(); err != nil {
		return fmt.Errorf("start %s: %w", b.name, err)
	}
	return nil
}

// Done is closed when its program has ended.
func (b *box) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.run.ended
}

// Runs says whether its program is there.
func (b *box) Runs() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.runs()
}

func (b *box) runs() bool {
	if b.run == nil {
		return false
	}
	select {
	case <-b.run.ended:
		return false
	default:
		return true
	}
}

// Paused says whether it runs, but is paused.
func (b *box) Paused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paused && b.runs()
}

// Pause freezes all its processes, and returns once the engine says so.
func (b *box) Pause(ctx context.Context) (readBack string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.runs():
		return "", fmt.Errorf("pause %s: %w", b.name, proc.ErrEnded)
	case b.paused:
		// The first of two ends would let it run while the other pause is in force.
		return "", fmt.Errorf("pause %s: it is paused already", b.name)
	}
	ctx, cancel := context.WithTimeout(ctx, engineBound)
	defer cancel()
	b.pausing++
	b.turned = time.Now()
	if err := b.insist(ctx, b.engine.API.ContainerPause, "already paused", true); err != nil {
		b.pausing--
		if !b.runs() {
			err = proc.ErrEnded
		}
		return "", fmt.Errorf("pause %s: %w", b.name, err)
	}
	b.paused = true
	return b.noted(ctx, "pause", "running", "paused")
}

// Resume lets it go on. There is nothing to do for one that has ended meanwhile.
func (b *box) Resume(ctx context.Context) (readBack string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.runs() {
		return "it has ended", nil
	}
	if !b.paused {
		return "it was not paused any more", nil
	}
	ctx, cancel := context.WithTimeout(ctx, engineBound)
	defer cancel()
	b.resuming++
	b.turned = time.Now()
	if err := b.insist(ctx, b.engine.API.ContainerUnpause, "not paused", false); err != nil {
		b.resuming--
		return "", fmt.Errorf("resume %s: %w", b.name, err)
	}
	b.paused = false
	return b.noted(ctx, "resume", "paused", "") // one that has ended at once is no error
}

// echoes is for how long an engine may still be told by the kernel's side of a pause that it
// has asked for itself, and then believes that it has just come, or gone: the engine 20.10
// takes what containerd tells it for news (daemon/monitor.go, EventPaused and EventResumed).
const echoes = 5 * time.Second

// insist asks again as long as the engine refuses because of such an echo: it says that
// the container is there already where it isn't. The lock is held.
func (b *box) insist(ctx context.Context, ask func(context.Context, string) error, already string, frozen bool) error {
	for {
		err := ask(ctx, b.id)
		if err == nil || !strings.Contains(err.Error(), already) || time.Since(b.turned) > echoes {
			return err
		}
		if is, known := proc.Frozen(b.run.process); known && is == frozen {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// echo reports whether what the engine says of a pause may be an echo: one was just asked
// for, and, where that can be seen, the container is as it should be. The lock is held.
func (b *box) echo() bool {
	if time.Since(b.turned) > echoes {
		return false
	}
	pid := 0
	if b.near && b.runs() {
		pid = b.run.process
	}
	is, known := proc.Frozen(pid)
	return !known || is == (b.paused || b.frozen)
}

// noted reads back what a container is that was something else before, and should be as
// wanted; "": whatever. A busy engine is late to note it. The lock is held.
func (b *box) noted(ctx context.Context, verb, before, want string) (string, error) {
	for {
		status, pid, err := b.engine.State(ctx, b.id)
		switch {
		case err != nil:
			return "", fmt.Errorf("%s %s: the engine says no more than that it is %s: %w", verb, b.name, before, err)
		case status != before && want != "" && status != want:
			return "", fmt.Errorf("%s %s: the engine says that it is %s", verb, b.name, status)
		case status != before:
			return fmt.Sprintf("container %.12s is %s, process %d", b.id, status, pid), nil
		}
		time.Sleep(time.Millisecond)
	}
}

// Kill ends its program without warning, and returns once it has ended. One that has
// ended already is ErrEnded.
func (b *box) Kill(ctx context.Context) (readBack string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.runs() {
		return "", fmt.Errorf("kill %s: %w", b.name, proc.ErrEnded)
	}
	ctx, cancel := context.WithTimeout(ctx, engineBound)
	defer cancel()
	r := b.run
	if r.process > 0 && !proc.InContainer(r.process, b.id) {
		// Somebody else has ended it, which the engine is about to tell.
		return "", fmt.Errorf("kill %s: %w", b.name, proc.ErrEnded)
	}
	r.asked = true
	// The engine would take tenths of a second to tell that it is gone. It knows how to
	// kill who is frozen.
	if frozen, _ := proc.Frozen(r.process); r.process > 0 && b.here && !b.paused && !frozen {
		limit, cancel := context.WithTimeout(ctx, killedIn)
		defer cancel()
		if proc.KillContained(limit, r.process, b.id) == nil {
			r.end()
			return fmt.Sprintf("container %.12s: process %d has ended", b.id, r.process), nil
		}
	}
	killed := b.engine.API.ContainerKill(ctx, b.id, "KILL")
	if killed != nil && b.runs() {
		r.asked = false
		return "", fmt.Errorf("kill %s: %w", b.name, killed)
	}
	return b.awaitEnd(ctx, "kill")
}

// killedIn is how long a process may take to end once it has been killed. It takes milliseconds, unless
// somebody has paused its container just before.
const killedIn = time.Second

// endsBound is how long the engine may take to say that a program has ended which
// others have seen end.
const endsBound = 2 * time.Second

// Ended says whether its program has ended, if only just now.
func (b *box) Ended() bool {
	select {
	case <-b.Done():
		return true
	case <-time.After(endsBound):
		return false
	}
}

// mayEnd says whether its program is just being asked to end.
func (b *box) mayEnd(may bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run != nil {
		b.run.asked = may
	}
}

// Struck says whether somebody else has ended its program. It waits for the end.
func (b *box) Struck() bool {
	b.mu.Lock()
	r, told := b.run, b.told
	b.mu.Unlock()
	if r.awaitTold() != nil {
		return false
	}
	if told != nil {
		told(r)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return r.strange
}

func (b *box) remove(ctx context.Context) error {
	b.mayEnd(true)
	if b.beside != nil {
		if err := b.beside.remove(ctx); err != nil {
			return err
		}
	}
	defer b.leave()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineBound)
	defer cancel()
	if err := b.engine.Remove(ctx, b.id); err != nil {
		return fmt.Errorf("remove %s: %w", b.name, err)
	}
	return nil
}

// awaitEnd waits until its program has ended. The lock is held.
func (b *box) awaitEnd(ctx context.Context, verb string) (readBack string, err error) {
	select {
	case <-b.run.told:
	case <-ctx.Done():
		return "", fmt.Errorf("%s %s: it still runs: %w", verb, b.name, context.Cause(ctx))
	}
	if b.run.err != nil {
		return "", fmt.Errorf("%s %s: %w", verb, b.name, b.run.err)
	}
	return fmt.Sprintf("container %.12s has ended with status %d", b.id, b.run.status), nil
}

// End says how its program came to its end: nil is exit status 0. It waits for it.
func (b *box) End() error {
	b.mu.Lock()
	r := b.run
	b.mu.Unlock()
	if err := r.awaitTold(); err != nil {
		return err
	}
	switch {
	case r.err != nil:
		return r.err
	case r.status != 0:
		return fmt.Errorf("exit status %d", r.status)
	}
	return nil
}

// killedBy is the status of a container's end by a signal, without the signal's number.
const killedBy = 128

// removeBound is how long it may take to remove all, if the engine is just starting again.
const removeBound = 4 * engineBound

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
