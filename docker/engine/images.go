//go:build linux

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	imageapi "github.com/docker/docker/api/types/image"

	"lockpick/internal/files"
	"lockpick/nemesis"
)

// Contents is what the engine says of an image that it has.
type Contents struct {
	Digest string   // of what is in it
	Starts []string // what it starts by itself
	Path   string   // where it looks for that
}

func LookAt(ctx context.Context, e *Engine, ref string) (Contents, error) {
	i, err := e.API.ImageInspect(ctx, ref)
	if err != nil {
		return Contents{}, err
	}
	s := Contents{Digest: i.ID}
	if len(i.RepoDigests) > 0 { // the registry's, by which others know it
		_, s.Digest, _ = strings.Cut(i.RepoDigests[0], "@")
	}
	if i.Config == nil {
		return s, nil
	}
	s.Starts = append(slices.Clone(i.Config.Entrypoint), i.Config.Cmd...)
	for _, v := range i.Config.Env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			s.Path = path
		}
	}
	return s, nil
}

// FirstOf is the first of some files that an image has, as a container shows that is
// never started; "": it has none.
func FirstOf(ctx context.Context, e *Engine, ref string, labels map[string]string, files []string) (found string, err error) {
	made, err := e.API.ContainerCreate(ctx, &container.Config{Image: ref, Entrypoint: []string{"none"}, Labels: labels},
		&container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, e.Remove(context.WithoutCancel(ctx), made.ID)) }()
	for _, f := range files {
		_, err := e.API.ContainerStatPath(ctx, made.ID, f)
		if err == nil {
			return f, nil
		}
		if !errdefs.IsNotFound(err) {
			return "", err
		}
	}
	return "", nil
}

// Pull has the engine pull an image without logging in to its registry. It reports progress to said,
// in bytes.
func Pull(ctx context.Context, e *Engine, ref string, said func(done, all int64)) error {
	out, err := e.API.ImagePull(ctx, ref, imageapi.PullOptions{})
	if err != nil {
		return err
	}
	defer out.Close()
	layers, done, all := map[string]int64{}, int64(0), int64(0)
	for d := json.NewDecoder(out); ; {
		var m struct {
			ID, Status, Error string
			ProgressDetail    struct{ Current, Total int64 }
		}
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Error != "":
			return errors.New(m.Error)
		case m.Status != "Downloading":
			continue
		}
		if _, known := layers[m.ID]; !known {
			all += m.ProgressDetail.Total
		}
		done += m.ProgressDetail.Current - layers[m.ID]
		layers[m.ID] = m.ProgressDetail.Current
		said(done, all)
	}
}

// sayEvery is how often a long pull reports its progress.
const sayEvery = 5 * time.Second

// Progress returns a function for Pull that reports progress every sayEvery.
func Progress(ref string, say func(string)) func(done, all int64) {
	last := time.Now()
	return func(done, all int64) {
		if time.Since(last) >= sayEvery {
			last = time.Now()
			say(fmt.Sprintf("pulling %s: %d of %d MB", ref, done/1e6, all/1e6))
		}
	}
}

// ImportImage makes an image of a root file system.
func ImportImage(ctx context.Context, e *Engine, ref string, tar io.Reader, labels map[string]string) error {
	var changes []string
	for k, v := range labels {
		changes = append(changes, fmt.Sprintf("LABEL %s=%s", k, v))
	}
	out, err := e.API.ImageImport(ctx, imageapi.ImportSource{Source: tar, SourceName: "-"}, ref, imageapi.ImportOptions{Changes: changes})
	if err != nil {
		return err
	}
	defer out.Close()
	said, err := io.ReadAll(out) // until then it is not there
	if err == nil && strings.Contains(string(said), `"errorDetail"`) {
		err = errors.New(strings.TrimSpace(string(said)))
	}
	return err
}

// imagesOf lists the images with a label, as name:tag.
func imagesOf(ctx context.Context, e *Engine, label string) (found []Belonging, err error) {
	all, err := e.API.ImageList(ctx, imageapi.ListOptions{Filters: labelled(label)})
	for _, i := range all {
		for _, tag := range i.RepoTags {
			found = append(found, Belonging{ID: i.ID, Name: tag, owner: i.Labels[OwnerLabel], made: time.Unix(i.Created, 0)})
		}
	}
	return found, err
}

func (e *Engine) HasImage(ctx context.Context, ref string) (bool, error) {
	_, err := e.API.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func (e *Engine) RemoveImage(ctx context.Context, ref string) error {
	_, err := e.API.ImageRemove(ctx, ref, imageapi.RemoveOptions{PruneChildren: true})
	return err
}

// Bound lets a container use no more than a share of its machine; the zero Share is all.
func (e *Engine) Bound(ctx context.Context, id string, s Share) error {
	r := container.Resources{CPUQuota: s.Quota.Microseconds(), Memory: s.Memory, MemorySwap: s.Memory}
	if s == (Share{}) {
		r = container.Resources{CPUQuota: -1, Memory: allMemory, MemorySwap: allMemory}
	}
	if s.Quota > 0 {
		r.CPUPeriod = SharePeriod.Microseconds()
	}
	_, err := e.API.ContainerUpdate(ctx, id, container.UpdateConfig{Resources: r})
	return err
}

// allMemory is more than any machine has: an engine has no word for no bound, once
// there was one.
const allMemory = 1 << 50

// Bounds is what the engine says that a container may use.
func (e *Engine) Bounds(ctx context.Context, id string) (Share, error) {
	is, err := e.API.ContainerInspect(ctx, id)
	if err != nil {
		return Share{}, err
	}
	s := Share{max(0, time.Duration(is.HostConfig.CPUQuota)*time.Microsecond), is.HostConfig.Memory}
	if s.Memory == allMemory {
		s.Memory = 0
	}
	return s, nil
}

// Used is what a container has lacked of its machine, as the engine says.
func (e *Engine) Used(ctx context.Context, id string) (usage, error) {
	is, err := e.API.ContainerInspect(ctx, id)
	if err != nil {
		return usage{}, err
	}
	if !is.State.Running {
		return usage{Ended: fmt.Sprintf("it has ended with status %d, for want of memory: %v", is.State.ExitCode, is.State.OOMKilled)}, nil
	}
	answer, err := e.API.ContainerStatsOneShot(ctx, id)
	if err != nil {
		return usage{}, err
	}
	defer answer.Body.Close()
	var s container.StatsResponse
	err = json.NewDecoder(answer.Body).Decode(&s)
	cpu := s.CPUStats.ThrottlingData
	return usage{Periods: cpu.Periods, Throttled: cpu.ThrottledPeriods, Memory: s.MemoryStats.Usage}, err
}

// Starved says whether a container has ended for want of memory.
func (e *Engine) Starved(ctx context.Context, id string) bool {
	is, err := e.API.ContainerInspect(ctx, id)
	return err == nil && is.State.OOMKilled
}

// Starves says why the engine can't bound what containers use; "": it can.
func (e *Engine) Starves(ctx context.Context) (reason string) {
	about, err := e.API.Info(ctx)
	switch {
	case err != nil:
		return "the engine does not say what it can bound: " + FirstLine(err)
	case !about.CPUCfsQuota:
		return "the engine's kernel can't bound the processor of a container"
	case !about.MemoryLimit:
		return "the engine's kernel can't bound the memory of a container"
	}
	return ""
}

// Share is what a container may use of its machine.
type Share struct {
	Quota  time.Duration // of processors in each SharePeriod; 0: no bound
	Memory int64         // bytes, with swap; 0: no bound
}

// SharePeriod is what the kernel counts processor time by, unless told otherwise.
const SharePeriod = 100 * time.Millisecond

func (s Share) String() string {
	var parts []string
	if s.Quota > 0 {
		parts = append(parts, fmt.Sprintf("%v of a processor in each %v", s.Quota, SharePeriod))
	}
	if s.Memory > 0 {
		parts = append(parts, nemesis.Bytes(int(s.Memory))+" of memory")
	}
	return strings.Join(parts, ", ")
}

// usage is what a container has met that was bound to a share of its machine.
type usage struct {
	Ended              string // how; "": it has not
	Periods, Throttled uint64 // of SharePeriod; those in which it wanted more
	Memory             uint64 // bytes that it uses
}

func (h usage) String() string {
	if h.Ended != "" {
		return h.Ended
	}
	return fmt.Sprintf("it was throttled in %d of %d periods, and uses %d KB of memory", h.Throttled, h.Periods, h.Memory>>10)
}

// Sweep removes what dead owners left: containers, networks, and images of which
// there is another now. It touches nothing of a living owner, nor what it can't tell;
// here says whether the engine is on this machine.
func Sweep(ctx context.Context, e *Engine, here bool, keep ...string) error {
	self, err := files.Self()
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	containers, err := e.Containers(ctx, OwnerLabel)
	if err != nil {
		return fmt.Errorf("sweep: list containers: %w", err)
	}
	runs := map[string]bool{} // an owner has something that runs
	for _, c := range containers {
		runs[c.owner] = runs[c.owner] || c.runs
	}
	dead := func(o Belonging) bool {
		owner, ok := files.ParseOwner(o.owner)
		// Of an engine elsewhere, or in a virtual machine, other machines may be users, too; of
		// one here, by way of the network.
		if !ok || !here && owner.Boot != self.Boot {
			return false
		}
		return owner.Ended(self, time.Now()) || owner.Ended(self, o.made) && !runs[o.owner]
	}
	if _, err := Remove(ctx, e, OwnerLabel, dead); err != nil { // what the engine holds on to is in nobody's way
		return fmt.Errorf("sweep: %w", err)
	}
	images, err := imagesOf(ctx, e, ImageLabel)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	for _, i := range images {
		replaced := slices.ContainsFunc(keep, func(ref string) bool { return i.Name != ref && sameSort(i.Name, ref) })
		if replaced && dead(i) {
			e.RemoveImage(ctx, i.Name) // in use, it stays until the next sweep
		}
	}
	return nil
}

// sameSort says whether two images differ in their tag alone.
func sameSort(a, b string) bool {
	a, _, _ = strings.Cut(a, ":")
	b, _, _ = strings.Cut(b, ":")
	return a == b
}

// ClearPatiently removes everything with a label. If the engine is away, perhaps to restart, it keeps
// trying until ctx ends.
func ClearPatiently(ctx context.Context, e *Engine, label string) error {
	for {
		held, err := Remove(ctx, e, label, func(Belonging) bool { return true })
		if !Away(err) {
			return errors.Join(held, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; what is left the next lockpick removes", errors.Join(held, err))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Remove removes the containers and then the networks with a label that are to go; held
// is about networks that are errHeld.
func Remove(ctx context.Context, e *Engine, label string, goes func(Belonging) bool) (held, err error) {
	containers, err := e.Containers(ctx, label)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	failed := AtOnce(containers, func(c Belonging) error {
		if !goes(c) {
			return nil
		}
		if err := e.Remove(ctx, c.ID); err != nil {
			return fmt.Errorf("remove container%s: %w", c.Name, err)
		}
		return nil
	})
	networks, err := e.Networks(ctx, label)
	if err != nil {
		failed = errors.Join(failed, fmt.Errorf("list networks: %w", err))
	}
	for _, n := range networks {
		if !goes(n) {
			continue
		}
		err := removeNetwork(ctx, e, n.ID)
		if err != nil {
			err = fmt.Errorf("remove network %s: %w", n.Name, err)
		}
		if errors.Is(err, errHeld) {
			held = errors.Join(held, err)
			continue
		}
		failed = errors.Join(failed, err)
	}
	return held, failed
}

// AtOnce does something for each of a list, all at the same time.
func AtOnce[T any](list []T, do func(T) error) error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, x := range list {
		all.Go(func() { errs[i] = do(x) })
	}
	all.Wait()
	return errors.Join(errs...)
}
