//go:build nightly

package campaign

import (
	"fmt"
	"testing"
	"time"

	"lockpick/scenarios/outcome"
)

// This is like TestMeasuredEdgesMatchPredictions, but with different settings and more seeds.
func TestBounds(t *testing.T) {
	deployments := []outcome.Deployment{defaultDeployment()}
	for _, change := range []func(*outcome.Deployment){
		func(d *outcome.Deployment) { d.TTL = 2 * time.Second },
		func(d *outcome.Deployment) { d.TTL, d.Drift = 30*time.Second, 0.05 },
		func(d *outcome.Deployment) { d.Nodes, d.Drift = 3, 0 },
		func(d *outcome.Deployment) { d.Nodes = 7 },
		func(d *outcome.Deployment) { d.Nodes, d.Persistence = 4, "everysec" },
		func(d *outcome.Deployment) { d.Lock, d.Drift = "redsync", 0 },
		func(d *outcome.Deployment) { d.Lock, d.RestartDelay = "hardened", 5*time.Second },
		func(d *outcome.Deployment) { d.Persistence, d.RestartDelay = "no", time.Second },
		func(d *outcome.Deployment) { d.Fence = true },
	} {
		d := defaultDeployment()
		change(&d)
		deployments = append(deployments, d)
	}
	for i, d := range deployments {
		seeds := 5
		if i == 0 {
			seeds = 30
		}
		x := newAssessor(t, d, seeds)
		for _, h := range hazards {
			for _, e := range h.experiments(d.Fence) {
				t.Run(fmt.Sprintf("%s/%s/%s", changedFlags(outcome.Deployment{}, d), h.name, e.property), func(t *testing.T) {
					if b := measureBound(t, x, h, e); b.Disagrees() != "" || b.Verdict() == outcome.HazardInconclusive {
						t.Errorf("%s; %+v", b.Disagrees(), b)
					}
				})
			}
		}
	}
}
