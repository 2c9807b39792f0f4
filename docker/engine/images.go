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
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	imageapi "github.com/docker/docker/api/types/image"
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
