//go:build linux

package docker

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
	"github.com/docker/docker/api/types/registry"
)

// contents is what the engine says of an image that it has.
type contents struct {
	digest string   // of what is in it
	starts []string // what it starts by itself
	path   string   // where it looks for that
}

func lookAt(ctx context.Context, e *engine, ref string) (contents, error) {
	i, err := e.api.ImageInspect(ctx, ref)
	if err != nil {
		return contents{}, err
	}
	s := contents{digest: i.ID}
	if len(i.RepoDigests) > 0 { // the registry's, by which others know it
		_, s.digest, _ = strings.Cut(i.RepoDigests[0], "@")
	}
	if i.Config == nil {
		return s, nil
	}
	s.starts = append(slices.Clone(i.Config.Entrypoint), i.Config.Cmd...)
	for _, v := range i.Config.Env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			s.path = path
		}
	}
	return s, nil
}

// firstOf is the first of some files that an image has, as a container shows that is
// never started; "": it has none.
func firstOf(ctx context.Context, e *engine, ref string, labels map[string]string, files []string) (found string, err error) {
	made, err := e.api.ContainerCreate(ctx, &container.Config{Image: ref, Entrypoint: []string{"none"}, Labels: labels},
		&container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, e.remove(context.WithoutCancel(ctx), made.ID)) }()
	for _, f := range files {
		_, err := e.api.ContainerStatPath(ctx, made.ID, f)
		if err == nil {
			return f, nil
		}
		if !errdefs.IsNotFound(err) {
			return "", err
		}
	}
	return "", nil
}

// pull has the engine get an image from its registry. said is told how many bytes of
// how many are there.
func pull(ctx context.Context, e *engine, ref string, as login, said func(done, all int64)) error {
	options := imageapi.PullOptions{}
	if as != (login{}) {
		auth, err := registry.EncodeAuthConfig(registry.AuthConfig{Username: as.user, Password: as.password, ServerAddress: as.host})
		if err != nil {
			return err
		}
		options.RegistryAuth = auth
	}
	out, err := e.api.ImagePull(ctx, ref, options)
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

// importImage makes an image of a root file system.
func importImage(ctx context.Context, e *engine, ref string, tar io.Reader, labels map[string]string) error {
	var changes []string
	for k, v := range labels {
		changes = append(changes, fmt.Sprintf("LABEL %s=%s", k, v))
	}
	out, err := e.api.ImageImport(ctx, imageapi.ImportSource{Source: tar, SourceName: "-"}, ref, imageapi.ImportOptions{Changes: changes})
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
func imagesOf(ctx context.Context, e *engine, label string) (found []belonging, err error) {
	all, err := e.api.ImageList(ctx, imageapi.ListOptions{Filters: labelled(label)})
	for _, i := range all {
		for _, tag := range i.RepoTags {
			found = append(found, belonging{id: i.ID, name: tag, owner: i.Labels[ownerLabel], made: time.Unix(i.Created, 0)})
		}
	}
	return found, err
}

func (e *engine) hasImage(ctx context.Context, ref string) (bool, error) {
	_, err := e.api.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func (e *engine) removeImage(ctx context.Context, ref string) error {
	_, err := e.api.ImageRemove(ctx, ref, imageapi.RemoveOptions{PruneChildren: true})
	return err
}
