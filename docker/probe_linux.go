//go:build linux

package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"lockpick/docker/engine"
	"lockpick/internal/files"
)

// probeEngine connects to the engine and checks whether clients can be built and which faults work on its
// containers. It does not check the image for nodes, because it might be necessary to pull it. Prepare
// does that.
func (b *backend) probeEngine(ctx context.Context) (found capabilities) {
	e, a, err := engine.Open(ctx)
	if err != nil {
		found.run = capability(engine.Explain(err))
		return found
	}
	defer e.Close()
	found.run = capability(b.clientsUnsupported(ctx, a.Arch))
	found.clocks = capability(clocksUnsupported(a.Arch))
	found.disks = capability(diskUnsupported(e, a))
	found.limits = capability(e.LimitsUnsupported(ctx), "see the warnings in the output of docker info")
	return found
}

// clientsUnsupported returns why there is no client program for an architecture, and a remedy. Both are
// "" if there is one.
func (b *backend) clientsUnsupported(ctx context.Context, arch string) (reason, remedy string) {
	if len(b.cfg.Client) > 0 {
		return "", ""
	}
	err := b.program.checkSupported(ctx, arch)
	var missing *MissingError
	switch {
	case errors.As(err, &missing):
		return missing.Reason.Error(), missing.Remedy
	case err != nil:
		return engine.FirstLine(err), cmp.Or(files.Remedy(err, files.TempDirHint), buildHint(arch))
	}
	return "", ""
}

func engineRemark(ctx context.Context) string {
	e, a, err := engine.Open(ctx)
	if err != nil {
		return engine.FirstLine(err)
	}
	defer e.Close()
	return fmt.Sprintf("the engine is %s at %s (API %s)", a.Version, e.Host, a.API)
}
