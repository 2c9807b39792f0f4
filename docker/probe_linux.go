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

// probeEngine connects to the engine, and checks that clients can be built and which faults work
// on its containers. It does not check the nodes' images, which may have to be pulled: Prepare does.
func (b *backend) try(ctx context.Context) (can abilities) {
	e, a, err := engine.Meet(ctx)
	if err != nil {
		can.run = capable(engine.Explain(err))
		return can
	}
	defer e.Close()
	can.run = capable(b.lacksClients(ctx, a.Arch))
	can.clocks = capable(lacksClocks(a.Arch))
	can.disks = capable(lacksDisk(e, a))
	can.bounds = capable(e.Starves(ctx), "see the warnings of docker info")
	return can
}

// clientsUnsupported returns why there is no client program for an architecture; "" if there is one.
func (b *backend) lacksClients(ctx context.Context, arch string) (reason, remedy string) {
	if len(b.cfg.Client) > 0 {
		return "", ""
	}
	err := b.clients.lacks(ctx, arch)
	var lack *Lack
	switch {
	case errors.As(err, &lack):
		return lack.Reason.Error(), lack.Remedy
	case err != nil:
		return engine.FirstLine(err), cmp.Or(files.Remedy(err, files.TempDirHint), byHand(arch))
	}
	return "", ""
}

func engineRemark(ctx context.Context) string {
	e, a, err := engine.Meet(ctx)
	if err != nil {
		return engine.FirstLine(err)
	}
	defer e.Close()
	return fmt.Sprintf("the engine is %s at %s (API %s)", a.Version, e.Host, a.API)
}
