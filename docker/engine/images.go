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

// ImageInfo describes one of the engine's images.
type ImageInfo struct {
	Digest  string   // digest of the contents
	Command []string // entrypoint and command
	Path    string   // environment variable PATH
}

func InspectImage(ctx context.Context, e *Engine, ref string) (ImageInfo, error) {
	i, err := e.API.ImageInspect(ctx, ref)
	if err != nil {
		return ImageInfo{}, err
	}
	s := ImageInfo{Digest: i.ID}
	if len(i.RepoDigests) > 0 { // prefer the registry's digest, which others can look up
		_, s.Digest, _ = strings.Cut(i.RepoDigests[0], "@")
	}
	if i.Config == nil {
		return s, nil
	}
	s.Command = append(slices.Clone(i.Config.Entrypoint), i.Config.Cmd...)
	for _, v := range i.Config.Env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			s.Path = path
		}
	}
	return s, nil
}

// FindFile returns the first of the given files that exists in an image, or "" if none exists. To look for
// them, it creates a container, which it never starts.
func FindFile(ctx context.Context, e *Engine, ref string, labels map[string]string, files []string) (found string, err error) {
	created, err := e.API.ContainerCreate(ctx, &container.Config{Image: ref, Entrypoint: []string{"none"}, Labels: labels},
		&container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, e.Remove(context.WithoutCancel(ctx), created.ID)) }()
	for _, f := range files {
		_, err := e.API.ContainerStatPath(ctx, created.ID, f)
		if err == nil {
			return f, nil
		}
		if !errdefs.IsNotFound(err) {
			return "", err
		}
	}
	return "", nil
}

// Pull makes the engine pull an image without logging in to a registry. It calls progress with the number
// of bytes pulled so far and the known total.
func Pull(ctx context.Context, e *Engine, ref string, progress func(done, all int64)) error {
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
		progress(done, all)
	}
}

// progressInterval is how often a long pull reports progress.
const progressInterval = 5 * time.Second

// Progress returns a function to pass to Pull. It calls say with a message at most once every
// progressInterval.
func Progress(ref string, say func(string)) func(done, all int64) {
	last := time.Now()
	return func(done, all int64) {
		if time.Since(last) >= progressInterval {
			last = time.Now()
			say(fmt.Sprintf("pulling %s: %d of %d MB", ref, done/1e6, all/1e6))
		}
	}
}

// ImportImage creates an image from an archive of a root file system.
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
	output, err := io.ReadAll(out) // the image exists only when the reply is complete
	if err == nil && strings.Contains(string(output), `"errorDetail"`) {
		err = errors.New(strings.TrimSpace(string(output)))
	}
	return err
}

// imagesOf lists the images with a label, once for each tag, with names of the form name:tag.
func imagesOf(ctx context.Context, e *Engine, label string) (found []OwnedObject, err error) {
	all, err := e.API.ImageList(ctx, imageapi.ListOptions{Filters: labelFilter(label)})
	for _, i := range all {
		for _, tag := range i.RepoTags {
			found = append(found, OwnedObject{ID: i.ID, Name: tag, owner: i.Labels[OwnerLabel], created: time.Unix(i.Created, 0)})
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

// SetLimits limits a container's CPU time and memory. The zero value of s removes all limits.
func (e *Engine) SetLimits(ctx context.Context, id string, s Limits) error {
	r := container.Resources{CPUQuota: s.Quota.Microseconds(), Memory: s.Memory, MemorySwap: s.Memory}
	if s == (Limits{}) {
		r = container.Resources{CPUQuota: -1, Memory: unlimitedMemory, MemorySwap: unlimitedMemory}
	}
	if s.Quota > 0 {
		r.CPUPeriod = SharePeriod.Microseconds()
	}
	_, err := e.API.ContainerUpdate(ctx, id, container.UpdateConfig{Resources: r})
	return err
}

// unlimitedMemory is more memory than any machine has. It means no limit, because the engine can raise a
// memory limit but not remove it.
const unlimitedMemory = 1 << 50

// ReadLimits returns a container's limits, as reported by the engine.
func (e *Engine) ReadLimits(ctx context.Context, id string) (Limits, error) {
	info, err := e.API.ContainerInspect(ctx, id)
	if err != nil {
		return Limits{}, err
	}
	s := Limits{max(0, time.Duration(info.HostConfig.CPUQuota)*time.Microsecond), info.HostConfig.Memory}
	if s.Memory == unlimitedMemory {
		s.Memory = 0
	}
	return s, nil
}

// Usage returns how much of its limits a container has used, as reported by the engine.
func (e *Engine) Usage(ctx context.Context, id string) (usage, error) {
	info, err := e.API.ContainerInspect(ctx, id)
	if err != nil {
		return usage{}, err
	}
	if !info.State.Running {
		return usage{EndText: fmt.Sprintf("it exited with status %d, out of memory: %v", info.State.ExitCode, info.State.OOMKilled)}, nil
	}
	answer, err := e.API.ContainerStatsOneShot(ctx, id)
	if err != nil {
		return usage{}, err
	}
	defer answer.Body.Close()
	var s container.StatsResponse
	err = json.NewDecoder(answer.Body).Decode(&s)
	cpu := s.CPUStats.ThrottlingData
	return usage{Periods: cpu.Periods, ThrottledPeriods: cpu.ThrottledPeriods, Memory: s.MemoryStats.Usage}, err
}

// OutOfMemory reports whether the kernel killed a container because it ran out of memory.
func (e *Engine) OutOfMemory(ctx context.Context, id string) bool {
	info, err := e.API.ContainerInspect(ctx, id)
	return err == nil && info.State.OOMKilled
}

// LimitsUnsupported returns why the engine cannot limit containers' resources, or "" if it can.
func (e *Engine) LimitsUnsupported(ctx context.Context) (reason string) {
	about, err := e.API.Info(ctx)
	switch {
	case err != nil:
		return "the engine does not report which limits it supports: " + FirstLine(err)
	case !about.CPUCfsQuota:
		return "the engine's kernel can't limit a container's CPU time"
	case !about.MemoryLimit:
		return "the engine's kernel can't limit a container's memory"
	}
	return ""
}

// Limits specifies how much CPU time and memory a container may use.
type Limits struct {
	Quota  time.Duration // CPU time per SharePeriod; 0 means no limit
	Memory int64         // bytes, including swap; 0 means no limit
}

// SharePeriod is the kernel's default period for CPU quotas.
const SharePeriod = 100 * time.Millisecond

func (s Limits) String() string {
	var parts []string
	if s.Quota > 0 {
		parts = append(parts, fmt.Sprintf("%v of CPU time per %v", s.Quota, SharePeriod))
	}
	if s.Memory > 0 {
		parts = append(parts, nemesis.Bytes(int(s.Memory))+" of memory")
	}
	return strings.Join(parts, ", ")
}

// usage describes how a container's limits affected it.
type usage struct {
	EndText                   string // how it exited, or "" if it is running
	Periods, ThrottledPeriods uint64 // number of periods of length SharePeriod, and in how many it was throttled
	Memory                    uint64 // bytes in use
}

func (h usage) String() string {
	if h.EndText != "" {
		return h.EndText
	}
	return fmt.Sprintf("it was throttled in %d of %d periods, and uses %d KB of memory", h.ThrottledPeriods, h.Periods, h.Memory>>10)
}

// Sweep removes what dead owners left behind: containers, networks, and images of the same kind as one of
// keepImages. It does not remove objects whose owner is alive or unknown. isLocal states whether the
// engine is on this machine.
func Sweep(ctx context.Context, e *Engine, isLocal bool, keepImages ...string) error {
	self, err := files.CurrentOwner()
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	containers, err := e.Containers(ctx, OwnerLabel)
	if err != nil {
		return fmt.Errorf("sweep: list containers: %w", err)
	}
	hasRunning := map[string]bool{} // owners with a running container
	for _, c := range containers {
		hasRunning[c.owner] = hasRunning[c.owner] || c.running
	}
	isDead := func(o OwnedObject) bool {
		owner, ok := files.ParseOwner(o.owner)
		// Keep other machines' objects if the engine is not known to be on this machine. Even if it is,
		// other machines may use it over the network. Ended judges their objects by age.
		if !ok || !isLocal && owner.BootID != self.BootID {
			return false
		}
		return owner.Ended(self, time.Now()) || owner.Ended(self, o.created) && !hasRunning[o.owner]
	}
	if _, err := Remove(ctx, e, OwnerLabel, isDead); err != nil { // networks still in use can stay
		return fmt.Errorf("sweep: %w", err)
	}
	images, err := imagesOf(ctx, e, ImageLabel)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	for _, i := range images {
		isReplaced := slices.ContainsFunc(keepImages, func(ref string) bool { return i.Name != ref && sameKind(i.Name, ref) })
		if isReplaced && isDead(i) {
			e.RemoveImage(ctx, i.Name) // if the image is in use, it stays until the next sweep
		}
	}
	return nil
}

// sameKind reports whether two image names differ at most in their tags.
func sameKind(a, b string) bool {
	a, _, _ = strings.Cut(a, ":")
	b, _, _ = strings.Cut(b, ":")
	return a == b
}

// RemoveAllRetrying removes everything with a label. If the engine cannot be reached, perhaps because it
// is restarting, it retries until ctx is done.
func RemoveAllRetrying(ctx context.Context, e *Engine, label string) error {
	for {
		inUse, err := Remove(ctx, e, label, func(OwnedObject) bool { return true })
		if !Unreachable(err) {
			return errors.Join(inUse, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; lockpick will remove what is left at the start of its next run", errors.Join(inUse, err))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Remove removes the containers and then the networks that have a label and match. inUse contains the
// errors for networks that the engine thinks are in use.
func Remove(ctx context.Context, e *Engine, label string, match func(OwnedObject) bool) (inUse, err error) {
	containers, err := e.Containers(ctx, label)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	failed := Parallel(containers, func(c OwnedObject) error {
		if !match(c) {
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
		if !match(n) {
			continue
		}
		err := removeNetwork(ctx, e, n.ID)
		if err != nil {
			err = fmt.Errorf("remove network %s: %w", n.Name, err)
		}
		if errors.Is(err, errNetworkInUse) {
			inUse = errors.Join(inUse, err)
			continue
		}
		failed = errors.Join(failed, err)
	}
	return inUse, failed
}

// Parallel calls do concurrently for all elements of a list and joins the errors.
func Parallel[T any](list []T, do func(T) error) error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, x := range list {
		wg.Go(func() { errs[i] = do(x) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
