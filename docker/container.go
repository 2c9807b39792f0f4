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

// engineTimeout limits how long the engine may take to start, pause, kill or remove a container. This
// normally takes tenths of a second.
const engineTimeout = 15 * time.Second

// container is a container in a testbed. It runs a node, a client, the links or a sidecar, or just holds
// an address.
type container struct {
	engine            *engine.Engine
	name, id          string
	host              int        // host part of its address on the network
	onThisMachine     bool       // the processes run on this machine
	killable          bool       // lockpick may kill the processes
	sidecar           *container // opens the gate; nil if there is no gate or this process opens it
	hasChangingClocks bool       // the container is a client whose clocks the run changes
	stdio             *stdio     // the program's streams; nil if not attached

	mu               sync.Mutex
	run              *programRun // latest run; nil before the first start
	paused           bool
	onEnd            func(*programRun) // called after each exit, possibly more than once; nil if not monitored
	externallyPaused bool              // something other than lockpick paused it
	// Number of pauses and resumptions that lockpick requested and the engine has not reported yet.
	pendingPauses, pendingResumes int
	lastPauseChange               time.Time // when the last one was requested
}

// programRun is a run of a container's program, from its start to its exit.
type programRun struct {
	pid          int           // PID on this machine, or 0 if unknown
	once         sync.Once     // closes ended
	done         chan struct{} // closed when the program has exited
	endReported  chan struct{} // closed when the engine has reported the exit; then the fields below are set
	status       int64         // exit status
	err          error         // why the exit status is unknown
	outOfMemory  bool          // killed by the kernel for lack of memory
	endRequested bool          // lockpick requested the exit
	unexpected   bool          // the exit was unexpected and has been recorded
}

func (r *programRun) markEnded() { r.once.Do(func() { close(r.done) }) }

// awaitEndReport waits until the engine reports the program's exit.
func (r *programRun) awaitEndReport() error {
	select {
	case <-r.endReported:
		return nil
	case <-time.After(engineTimeout):
		return proc.TimeoutError(fmt.Sprintf("the engine did not report its exit within %v", engineTimeout))
	}
}

func (b *container) start(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.awaitPreviousEnd(); err != nil {
		return err
	}
	wait, err := b.engine.Start(context.WithoutCancel(ctx), b.id)
	if err != nil {
		return fmt.Errorf("start %s: %w", b.name, err)
	}
	r := &programRun{done: make(chan struct{}), endReported: make(chan struct{})}
	if b.onThisMachine {
		if _, pid, err := b.engine.State(ctx, b.id); err == nil && proc.InContainer(pid, b.id) {
			r.pid = pid
		}
	}
	b.run, b.paused = r, false
	go func() {
		r.status, r.err = wait()
		if r.status > signalStatusBase {
			r.outOfMemory = b.engine.OutOfMemory(context.WithoutCancel(ctx), b.id)
		}
		close(r.endReported)
		r.markEnded()
		b.mu.Lock()
		onEnd := b.onEnd
		b.mu.Unlock()
		if onEnd != nil {
			onEnd(r)
		}
	}()
	return nil
}

// awaitPreviousEnd waits until the engine knows that the program's previous run has ended. The engine
// takes a while to notice if the process was killed directly. The caller must hold b.mu.
func (b *container) awaitPreviousEnd() error {
	if b.run == nil {
		return nil
	}
	if err := b.run.awaitEndReport(); err != nil {
		return fmt.Errorf("start %s: %w", b.name, err)
	}
	return nil
}

// Done returns a channel that is closed when the program has exited.
func (b *container) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.run.done
}

// Running reports whether the program is running.
func (b *container) Running() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.isRunning()
}

func (b *container) isRunning() bool {
	if b.run == nil {
		return false
	}
	select {
	case <-b.run.done:
		return false
	default:
		return true
	}
}

// Paused reports whether the program is running but paused.
func (b *container) Paused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paused && b.isRunning()
}

// Pause freezes all processes in the container and returns when the engine confirms this.
func (b *container) Pause(ctx context.Context) (readBack string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.isRunning():
		return "", fmt.Errorf("pause %s: %w", b.name, proc.ErrEnded)
	case b.paused:
		// If it were paused twice, the end of the first pause would end the second.
		return "", fmt.Errorf("pause %s: it is already paused", b.name)
	}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	b.pendingPauses++
	b.lastPauseChange = time.Now()
	if err := b.retryStaleState(ctx, b.engine.API.ContainerPause, "already paused", true); err != nil {
		b.pendingPauses--
		if !b.isRunning() {
			err = proc.ErrEnded
		}
		return "", fmt.Errorf("pause %s: %w", b.name, err)
	}
	b.paused = true
	return b.awaitStatus(ctx, "pause", "running", "paused")
}

// Resume resumes the container. If the program has exited in the meantime, it does nothing.
func (b *container) Resume(ctx context.Context) (readBack string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isRunning() {
		return "it has ended", nil
	}
	if !b.paused {
		return "it was no longer paused", nil
	}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	b.pendingResumes++
	b.lastPauseChange = time.Now()
	if err := b.retryStaleState(ctx, b.engine.API.ContainerUnpause, "not paused", false); err != nil {
		b.pendingResumes--
		return "", fmt.Errorf("resume %s: %w", b.name, err)
	}
	b.paused = false
	return b.awaitStatus(ctx, "resume", "paused", "") // the program may exit right afterward
}

// echoWindow is how long after a pause or resumption the engine may receive an event about it and mistake
// the event for another pause or resumption, an echo. Engine 20.10 treats every event from containerd as
// new (daemon/monitor.go, EventPaused and EventResumed).
const echoWindow = 5 * time.Second

// retryStaleState repeats a request while the engine refuses it because of an echo and claims that
// the container is already in the requested state. The caller must hold b.mu.
func (b *container) retryStaleState(ctx context.Context, request func(context.Context, string) error, message string, frozen bool) error {
	for {
		err := request(ctx, b.id)
		if err == nil || !strings.Contains(err.Error(), message) || time.Since(b.lastPauseChange) > echoWindow {
			return err
		}
		if isFrozen, known := proc.IsFrozen(b.run.pid); known && isFrozen == frozen {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// mayBeEcho reports whether a pause event from the engine may be an echo: a pause or resumption was
// requested recently, and the container is in the expected state or its state is not visible. The caller
// must hold b.mu.
func (b *container) mayBeEcho() bool {
	if time.Since(b.lastPauseChange) > echoWindow {
		return false
	}
	pid := 0
	if b.onThisMachine && b.isRunning() {
		pid = b.run.pid
	}
	isFrozen, known := proc.IsFrozen(pid)
	return !known || isFrozen == (b.paused || b.externallyPaused)
}

// awaitStatus waits until the container's status is no longer oldStatus. Unless want is "", it checks
// that the new status is want. A busy engine updates the status late. The caller must hold b.mu.
func (b *container) awaitStatus(ctx context.Context, verb, oldStatus, want string) (string, error) {
	for {
		status, pid, err := b.engine.State(ctx, b.id)
		switch {
		case err != nil:
			return "", fmt.Errorf("%s %s: the engine still reports it as %s: %w", verb, b.name, oldStatus, err)
		case status != oldStatus && want != "" && status != want:
			return "", fmt.Errorf("%s %s: the engine reports it as %s", verb, b.name, status)
		case status != oldStatus:
			return fmt.Sprintf("container %.12s is %s, process %d", b.id, status, pid), nil
		}
		time.Sleep(time.Millisecond)
	}
}

// Kill kills the program and returns when it has exited. If the program had already exited, the error is
// ErrEnded.
func (b *container) Kill(ctx context.Context) (readBack string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isRunning() {
		return "", fmt.Errorf("kill %s: %w", b.name, proc.ErrEnded)
	}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	r := b.run
	if r.pid > 0 && !proc.InContainer(r.pid, b.id) {
		// Something other than lockpick killed it, and the engine has not reported this yet.
		return "", fmt.Errorf("kill %s: %w", b.name, proc.ErrEnded)
	}
	r.endRequested = true
	// Kill the process directly if possible, because the engine takes tenths of a second to report the
	// exit. Only the engine can kill a frozen process.
	if frozen, _ := proc.IsFrozen(r.pid); r.pid > 0 && b.killable && !b.paused && !frozen {
		limit, cancel := context.WithTimeout(ctx, killTimeout)
		defer cancel()
		if proc.KillInContainer(limit, r.pid, b.id) == nil {
			r.markEnded()
			return fmt.Sprintf("container %.12s: process %d exited", b.id, r.pid), nil
		}
	}
	killErr := b.engine.API.ContainerKill(ctx, b.id, "KILL")
	if killErr != nil && b.isRunning() {
		r.endRequested = false
		return "", fmt.Errorf("kill %s: %w", b.name, killErr)
	}
	return b.awaitEnd(ctx, "kill")
}

// killTimeout limits how long to wait for a killed process to exit. This takes milliseconds unless
// something else paused the container just before.
const killTimeout = time.Second

// endReportTimeout is how long the engine may take to report a program's exit after lockpick has noticed
// it in another way.
const endReportTimeout = 2 * time.Second

// Ended reports whether the program has exited. It waits for an exit that has not been reported yet.
func (b *container) Ended() bool {
	select {
	case <-b.Done():
		return true
	case <-time.After(endReportTimeout):
		return false
	}
}

// expectEnd sets whether an exit of the program is to be expected, because lockpick causes it.
func (b *container) expectEnd(expected bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run != nil {
		b.run.endRequested = expected
	}
}

// KilledExternally waits until the program has exited and reports whether something other than lockpick
// caused that.
func (b *container) KilledExternally() bool {
	b.mu.Lock()
	r, onEnd := b.run, b.onEnd
	b.mu.Unlock()
	if r.awaitEndReport() != nil {
		return false
	}
	if onEnd != nil {
		onEnd(r)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return r.unexpected
}

func (b *container) remove(ctx context.Context) error {
	b.expectEnd(true)
	if b.sidecar != nil {
		if err := b.sidecar.remove(ctx); err != nil {
			return err
		}
	}
	defer b.detach()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTimeout)
	defer cancel()
	if err := b.engine.Remove(ctx, b.id); err != nil {
		return fmt.Errorf("remove %s: %w", b.name, err)
	}
	return nil
}

// awaitEnd waits until the program has exited. The caller must hold b.mu.
func (b *container) awaitEnd(ctx context.Context, verb string) (readBack string, err error) {
	select {
	case <-b.run.endReported:
	case <-ctx.Done():
		return "", fmt.Errorf("%s %s: it is still running: %w", verb, b.name, context.Cause(ctx))
	}
	if b.run.err != nil {
		return "", fmt.Errorf("%s %s: %w", verb, b.name, b.run.err)
	}
	return fmt.Sprintf("container %.12s exited with status %d", b.id, b.run.status), nil
}

// End waits until the program has exited. It returns nil if the exit status is 0.
func (b *container) End() error {
	b.mu.Lock()
	r := b.run
	b.mu.Unlock()
	if err := r.awaitEndReport(); err != nil {
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

// signalStatusBase plus a signal number is the exit status of a container killed by the signal.
const signalStatusBase = 128

// removeTimeout limits how long it may take to remove everything, even while the engine restarts.
const removeTimeout = 4 * engineTimeout

// imageSource provides images for a run or for Prepare.
type imageSource struct {
	cfg     Config
	program *clientProgram
	engine  *engine.Engine
	labels  map[string]string // for everything it creates
	report  func(string)      // reports slow steps
}

// nodeSoftware makes sure that the engine has the image for nodes. This is the named image if named is
// not "". Otherwise it is the first available of redis:7 on the engine, an image built from this
// machine's redis-server, and redis:7 from the registry.
func (s imageSource) nodeSoftware(ctx context.Context, named string) (software, error) {
	if named != "" {
		return s.findImage(ctx, named, "run docker pull "+named+" if you can reach its registry, or name another image with --set topology.image=NAME")
	}
	if s.cfg.RedisServer == "" {
		has, err := s.engine.HasImage(ctx, defaultImage)
		if err != nil {
			return software{}, fmt.Errorf("look for image %s: %w", defaultImage, err)
		}
		if has {
			return s.findImage(ctx, defaultImage, "run docker pull "+defaultImage)
		}
	}
	built, err := s.buildFromHost(ctx)
	if !errors.Is(err, errNoServer) || s.cfg.RedisServer != "" {
		return built, err
	}
	s.report(fmt.Sprintf("%v, so nodes run %s", err, defaultImage))
	return s.findImage(ctx, defaultImage, "apt-get install redis-server; or docker pull "+defaultImage+" if you can reach its registry; or name another image with --set topology.image=NAME")
}

// errNoServer reports that no image for nodes can be built from this machine's redis-server.
var errNoServer = errors.New("this machine has no redis-server that can run in a container")

// buildFromHost builds an image from this machine's redis-server.
func (s imageSource) buildFromHost(ctx context.Context) (software, error) {
	path, err := s.findServer()
	if err != nil {
		return software{}, err
	}
	about, err := s.engine.About(ctx)
	if err != nil {
		return software{}, fmt.Errorf("ask the engine for its architecture: %w", err)
	}
	f, err := elf.Open(path)
	if err != nil {
		return software{}, fmt.Errorf("%w: %s: %w", errNoServer, path, err)
	}
	defer f.Close()
	if f.Machine != elfMachines[about.Arch] {
		return software{}, fmt.Errorf("%w: %s is for %v, but the engine's containers are %s", errNoServer, path, f.Machine, about.Arch)
	}
	i, err := newImage("redis", path, path)
	if err != nil {
		return software{}, err
	}
	ownImage, _, err := s.clientImage(ctx)
	if err != nil {
		return software{}, err
	}
	gate, _ := ownImage.standaloneFiles(gateDir)
	i.addFiles(gate)
	if err := i.provide(ctx, s.engine, s.labels[engine.OwnerLabel]); err != nil {
		return software{}, err
	}
	return software{ref: i.ref, program: path, builtFrom: path, hasGate: true}, nil
}

func (s imageSource) findServer() (string, error) {
	name := cmp.Or(s.cfg.RedisServer, "redis-server")
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %s is not on PATH", errNoServer, name)
	}
	return filepath.Abs(path)
}

// findImage finds the server program in an image. If the engine does not have the image, findImage pulls
// it.
func (s imageSource) findImage(ctx context.Context, ref, remedy string) (software, error) {
	has, err := s.engine.HasImage(ctx, ref)
	if err != nil {
		return software{}, fmt.Errorf("look for image %s: %w", ref, err)
	}
	if !has {
		s.report("pulling " + ref)
		err := engine.Pull(ctx, s.engine, ref, engine.Progress(ref, s.report))
		if ctx.Err() != nil {
			return software{}, context.Cause(ctx)
		}
		if err != nil {
			return software{}, &MissingError{fmt.Errorf("the engine has no image %s and can't pull it: %w", ref, err), remedy}
		}
	}
	i, err := engine.InspectImage(ctx, s.engine, ref)
	if err != nil {
		return software{}, fmt.Errorf("inspect image %s: %w", ref, err)
	}
	nodes := software{ref: ref, digest: i.Digest, program: serverCommand(i)}
	if nodes.program != "" {
		return nodes, nil
	}
	nodes.program, err = engine.FindFile(ctx, s.engine, ref, s.labels, serverPaths(i))
	if err != nil {
		return software{}, fmt.Errorf("look for a server in image %s: %w", ref, err)
	}
	if nodes.program == "" {
		return software{}, &MissingError{fmt.Errorf("image %s has no server: its command starts none, and neither redis-server nor valkey-server is on its PATH", ref),
			"name an image of Redis or Valkey with --set topology.image=NAME"}
	}
	return nodes, nil
}

// serverCommand returns the server program in an image's command, or "" if there is none. It ignores the
// entrypoint script that most images have, because the script switches to another user, which root
// cannot do without capabilities.
func serverCommand(i engine.ImageInfo) (program string) {
	for _, word := range i.Command {
		if strings.HasSuffix(word, "-server") && !strings.HasPrefix(word, "-") && !strings.ContainsAny(word, " \t\n") {
			program = word
		}
	}
	return program
}

// serverPaths lists the paths of possible server programs in an image, the most likely first.
func serverPaths(i engine.ImageInfo) (files []string) {
	path := cmp.Or(i.Path, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") // the engine's default
	for _, name := range []string{"redis-server", "valkey-server"} {
		for _, dir := range filepath.SplitList(path) {
			files = append(files, filepath.Join(dir, name))
		}
	}
	return files
}

// provideClients makes sure that the engine has the image for clients. It returns the image and the
// command that starts a client.
func (s imageSource) provideClients(ctx context.Context) (i *image, command []string, err error) {
	if i, command, err = s.clientImage(ctx); err != nil {
		return nil, nil, err
	}
	return i, command, i.provide(ctx, s.engine, s.labels[engine.OwnerLabel])
}

// clientImage returns the image for clients and the command that starts a client.
func (s imageSource) clientImage(ctx context.Context) (i *image, command []string, err error) {
	if configured := slices.Clone(s.cfg.Client); len(configured) > 0 {
		if configured[0], err = filepath.Abs(configured[0]); err != nil {
			return nil, nil, err
		}
		i, err = newImage("client", configured[0], configured[0])
		return i, configured, err
	}
	about, err := s.engine.About(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("ask the engine for its architecture: %w", err)
	}
	i, err = s.program.image(ctx, about.Arch, s.report)
	return i, []string{clientPath, "__client"}, err
}

// provide makes sure that the engine has the image.
func (i *image) provide(ctx context.Context, e *engine.Engine, owner string) error {
	has, err := e.HasImage(ctx, i.ref)
	if err != nil || has {
		return err
	}
	pipeReader, pipeWriter := io.Pipe()
	go func() { pipeWriter.CloseWithError(i.write(pipeWriter)) }()
	err = engine.ImportImage(ctx, e, i.ref, pipeReader, map[string]string{engine.OwnerLabel: owner, engine.ImageLabel: i.kind})
	pipeReader.Close() // otherwise the writer would wait forever if the engine gave up
	if err != nil {
		return fmt.Errorf("import image %s: %w", i.ref, err)
	}
	return nil
}
